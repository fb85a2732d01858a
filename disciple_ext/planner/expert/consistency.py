"""Clauses that were read, put together: where two of them clash, both are named."""

from __future__ import annotations

from dataclasses import replace

from ...errors import TaskNotUnderstood
from ...text import units
from .constraints import LAST, Level, Range, Writing

__all__ = ["Clauses"]


class Clauses:
    """Collects clauses, each with the phrase that it was read from."""

    def __init__(self) -> None:
        """Start without any clause."""
        self._ranges: dict[str, list[tuple[Range, str]]] = {}
        self._placed: dict[str, dict[int, tuple[str, str]]] = {"placed": {}, "every_placed": {}}
        self._ends: dict[str, tuple[list[str], str]] = {}
        self._words: dict[str, dict[str, str]] = {"contains": {}, "avoids": {}}

    def count(self, unit: str, limit: Range, phrase: str) -> None:
        """Add a limit on a count."""
        if limit.empty or limit.high == 0:
            raise TaskNotUnderstood(f"no text can have {phrase!r}")
        for other, earlier in self._ranges.setdefault(unit, []):
            if (limit & other).empty:
                _clash(earlier, phrase)
        self._ranges[unit].append((limit, phrase))

    def place(self, kind: str, place: int, word: str, phrase: str) -> None:
        """Add a word at a position of the text, or of every sentence."""
        _one_word(word, phrase)
        if place == 0:
            raise TaskNotUnderstood(f"positions start at 1, unlike in {phrase!r}")
        known = self._placed[kind].get(place)
        # COLLIE compares words without case, so "The" and "the" at one place are no contradiction.
        if known and not units.same_word(known[0], word):
            _clash(known[1], phrase)
        self._placed[kind][place] = (word, phrase)

    def ends(self, kind: str, words: list[str], phrase: str) -> None:
        """Add the first or the last words of the sentences, one for each sentence."""
        for word in words:
            _one_word(word, phrase)
        if kind in self._ends and self._ends[kind][0] != words:
            _clash(self._ends[kind][1], phrase)
        self._ends[kind] = (words, phrase)

    def words(self, kind: str, words: list[str], phrase: str) -> None:
        """Add words to contain or to avoid."""
        for word in words:
            if kind == "contains":
                _one_word(word, phrase)
            self._words[kind].setdefault(word, phrase)

    def writing(self, level: Level, topic: str | None) -> Writing:
        """The whole task.

        Raises:
            TaskNotUnderstood: two clauses contradict each other.
        """
        merged: dict[str, Range] = {}
        for unit, limits in self._ranges.items():
            merged[unit] = Range()
            for limit, _ in limits:
                merged[unit] &= limit
        writing = Writing(
            level=level,
            topic=topic,
            placed=self._in_order("placed"),
            every_placed=self._in_order("every_placed"),
            first_words=tuple(self._ends.get("first_words", ([], ""))[0]),
            last_words=tuple(self._ends.get("last_words", ([], ""))[0]),
            contains=tuple(self._words["contains"]),
            avoids=tuple(self._words["avoids"]),
            **merged,
        )
        if level == "sentence":
            writing = self._single_sentence(writing)
        self._check_words(writing)
        self._check_counts(writing)
        return writing

    def _in_order(self, kind: str) -> tuple[tuple[int, str], ...]:
        placed = {place: word for place, (word, _) in self._placed[kind].items()}
        return tuple(sorted(placed.items(), key=lambda p: (p[0] == LAST, p[0])))

    def _single_sentence(self, writing: Writing) -> Writing:
        """In a single sentence, "every sentence" is the sentence itself."""
        if writing.sentences and 1 not in writing.sentences:
            _clash("a sentence", self._phrase("sentences"))
        # With one sentence these are places of the text, which the rest of the expert knows
        # already.
        for kind, place in (("first_words", 1), ("last_words", LAST)):
            if kind in self._ends:
                words, phrase = self._ends[kind]
                if len(words) > 1:
                    _clash("a sentence", phrase)
                self.place("placed", place, words[0], phrase)
        for place, (word, phrase) in self._placed["every_placed"].items():
            self.place("placed", place, word, phrase)
        both = writing.words & writing.sentence_words
        if both.empty:
            _clash(self._phrase("words"), self._phrase("sentence_words"))
        return replace(
            writing,
            words=both,
            sentences=Range(),
            sentence_words=Range(),
            placed=self._in_order("placed"),
            every_placed=(),
            first_words=(),
            last_words=(),
        )

    def _phrase(self, unit: str) -> str:
        return " and ".join(dict.fromkeys(phrase for _, phrase in self._ranges.get(unit, [])))

    def _wanted(self) -> list[tuple[str, str]]:
        """Every word that must be in the text, with its phrase."""
        wanted = list(self._words["contains"].items())
        for placed in self._placed.values():
            wanted += placed.values()
        for words, phrase in self._ends.values():
            wanted += [(word, phrase) for word in words]
        return wanted

    def _check_words(self, writing: Writing) -> None:
        for word, phrase in self._wanted():
            for avoided, other in self._words["avoids"].items():
                if units.same_word(word, avoided):
                    _clash(phrase, other)
            if writing.word_chars and len(word) not in writing.word_chars:
                _clash(phrase, self._phrase("word_chars"))

    def _check_counts(self, writing: Writing) -> None:
        for kind, unit in (("placed", "words"), ("every_placed", "sentence_words")):
            high = getattr(writing, unit).high
            last = self._placed[kind].get(LAST)
            for place, (word, phrase) in self._placed[kind].items():
                if high is not None and place > high:
                    _clash(phrase, self._phrase(unit))
                exact = getattr(writing, unit).exact
                # With an exact count, the last place has a number too: both clauses mean one word.
                if last and place == exact and not units.same_word(word, last[0]):
                    _clash(phrase, last[1])
        for words, phrase in self._ends.values():
            if writing.sentences and len(words) not in writing.sentences:
                _clash(self._phrase("sentences"), phrase)
        if len(self._ends) == 2 and len(writing.first_words) != len(writing.last_words):
            _clash(self._ends["first_words"][1], self._ends["last_words"][1])
        if writing.words.high is not None:
            least = max(writing.sentences.low, len(writing.last_words), 1)
            if least * max(writing.sentence_words.low, 1) > writing.words.high:
                other = self._phrase("sentence_words") or self._phrase("sentences")
                _clash(self._phrase("words"), other)
            # As a set: one word may be wanted by several clauses, and then needs one place.
            if len({word.lower() for word, _ in self._wanted()}) > writing.words.high:
                _clash(self._phrase("words"), self._wanted()[0][1])
        if writing.sentences.high is not None and writing.sentence_words.high is not None:
            if writing.words.low > writing.sentences.high * writing.sentence_words.high:
                _clash(self._phrase("words"), self._phrase("sentence_words"))
        self._check_characters(writing)

    def _check_characters(self, writing: Writing) -> None:
        """The shortest text with these words: one character for each other word, and spaces."""
        if writing.characters.high is None:
            return
        wanted = {word.lower(): phrase for word, phrase in self._wanted()}
        count = max(
            writing.words.low,
            len(wanted),
            max((place for place, _ in writing.placed), default=0),
            writing.sentences.low * max(writing.sentence_words.low, 1),
        )
        shortest = max(writing.word_chars.low, 1)
        spelled = sum(len(word) for word in wanted) + (count - len(wanted)) * shortest
        # `count` stands for the spaces between the words and the final mark.
        if spelled + count > writing.characters.high:
            other = (
                self._phrase("words")
                or self._phrase("sentences")
                or self._phrase("word_chars")
                or next(iter(wanted.values()), "a word")
            )
            _clash(self._phrase("characters"), other)


def _one_word(word: str, phrase: str) -> None:
    # Within a sentence, because the rules treat some words at an edge otherwise.
    cut = units.words(f"We saw {word} there")[2:-1]
    if cut != [word]:
        pieces = " + ".join(repr(piece) for piece in cut) or "nothing"
        raise TaskNotUnderstood(
            f"{word!r} in {phrase!r} is not one word by COLLIE's rules, which cut it into "
            f"{pieces}; ask for the pieces, or for another word"
        )


def _clash(one: str, other: str) -> None:
    raise TaskNotUnderstood(f"{one!r} and {other!r} contradict each other; change one of them")
