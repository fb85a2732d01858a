"""From a task in plain language to constraints: the language of COLLIE, and its paraphrases.

The reader takes the clauses that it knows out of the text one by one, most specific first. What is
left must be filler ("please", "with", "and"); anything else is refused by name, because a clause
that was silently dropped would look like an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from ...errors import TaskNotUnderstood
from . import grammar as g
from .consistency import Clauses
from .constraints import LAST, Abstract, Ingredients, Itinerary, Level, Poem, Range, Word, Writing
from .puzzles import parse_puzzle
from .word_tasks import parse_word

__all__ = ["Constraints", "parse"]

Constraints = Writing | Word | Poem | Abstract | Ingredients | Itinerary


def parse(instruction: str) -> Constraints:
    """Read a task.

    Raises:
        TaskNotUnderstood: a part of the task cannot be read, or two parts contradict.
    """
    # Puzzles first: they match a whole task, and hold clauses that the reader would take apart.
    found = parse_puzzle(instruction) or parse_word(instruction)
    return found if found is not None else _Reader(instruction).read()


class _Reader:
    """One task being read: the text that is left, and the clauses found so far."""

    def __init__(self, instruction: str) -> None:
        self.quoted: list[str] = []
        text = g.QUOTED.sub(self._cut_out, instruction)
        # Refused, not read as its words: no program of the expert's promises words side by side.
        if phrase := g.PHRASE.search(text):
            self._refuse(phrase.group(), "it reads single words in quotes, not phrases; ")
        text = g.ENUMERATOR.sub(" ; ", text)
        self.text = re.sub(r"\s+", " ", text).strip()
        self.clauses = Clauses()

    def _cut_out(self, match: re.Match[str]) -> str:
        word = match.group(1).rstrip(",;:")
        self.quoted.append(word)
        return f"<{len(self.quoted) - 1}>"

    def _restore(self, text: str) -> str:
        return re.sub(r"<(\d+)>", lambda m: f"'{self.quoted[int(m.group(1))]}'", text)

    def _words(self, match: re.Match[str]) -> list[str]:
        return [self.quoted[int(k)] for k in re.findall(r"<(\d+)>", match.group("quoted"))]

    def _take(
        self, pattern: str, use: Callable[[re.Match[str], str], None], mark: str = " ; "
    ) -> None:
        """Use every match of a pattern, and leave a mark in its place."""

        def consume(match: re.Match[str]) -> str:
            use(match, self._restore(match.group()).strip(" ,.;"))
            return mark

        self.text = re.sub(pattern, consume, self.text, flags=re.I)

    def read(self) -> Writing:
        level = self._level()
        self._take(g.WHITE_SPACE, lambda match, phrase: None)
        every, each = partial(self._places, every=True), " ;; "
        # Clauses about sentences before those about the text, whose patterns are parts of theirs.
        for sentences in (g.EVERY_SENTENCE, r"\bsentences"):
            self._take(sentences + g.PLACED, every, each)
            self._take(sentences + g.STARTING, partial(self._edge, 1), each)
            self._take(sentences + g.ENDING, partial(self._edge, LAST), each)
        self._take(g.WORDS_AT, partial(self._places, every=False))
        self._take(g.FIRST_WORD, partial(self._at, 1))
        self._take(g.LAST_WORD, partial(self._at, LAST))
        self._take(g.GOES_ON, partial(self._count, "sentence_words"))
        # Before CONTAINS, which would find "contain" in "not contain".
        self._take(g.AVOIDS, self._avoid)
        for pattern in (g.CONTAINS, g.WITH_WORDS):
            self._take(pattern, self._contain)
        # Counts of words and sentences before COUNTS, which takes any number before a unit.
        for pattern in (g.EVERY_WORD, g.WORDS_OF):
            self._take(pattern, partial(self._count, "word_chars"))
        self._take(g.NO_WORD_LONGER, self._longest)
        for pattern in (g.SENTENCES_OF, g.SENTENCES_EACH):
            self._take(pattern, partial(self._count, "sentence_words"))
        for unit, pattern in g.COUNTS.items():
            self._take(pattern, partial(self._count, unit))
        topic = self._topic()
        rest = g.FILLER.sub(" ", self.text.lower()).strip()
        if rest:
            self._refuse(self._rest(rest))
        return self.clauses.writing(level, topic)

    def _level(self) -> Level:
        lower = self.text.lower()
        if re.search(r"\b(?:paragraph|text|passage)\b", lower):
            return "paragraph"
        if re.search(r"\bsentence\b", re.sub(r"\b(?:each|every)\s+sentence\b", " ", lower)):
            return "sentence"
        if re.search(r"\bsentences\b", lower):
            return "paragraph"
        self._refuse(self.text, "it writes sentences and paragraphs; ")

    def _topic(self) -> str | None:
        found: list[str] = []
        self._take(g.TOPIC, lambda match, phrase: found.append(match["topic"]))
        return found[0] if found else None

    # What each clause means.

    def _places(self, match: re.Match[str], phrase: str, *, every: bool) -> None:
        places = [g.place_of(p) for p in re.findall(g.ORD, match["places"], flags=re.I)]
        words = self._words(match)
        one_for_each = (
            every
            and len(places) == 1
            and (len(words) > 1 or "respectively" in match.group().lower())
        )
        if one_for_each and places[0] in (1, LAST):
            self.clauses.ends("first_words" if places[0] == 1 else "last_words", words, phrase)
        elif len(places) != len(words):
            raise TaskNotUnderstood(
                f"{phrase!r} names {len(places)} position(s) but {len(words)} word(s); "
                "give one word for each position"
            )
        else:
            for place, word in zip(places, words, strict=True):
                self.clauses.place("every_placed" if every else "placed", place, word, phrase)

    def _edge(self, place: int, match: re.Match[str], phrase: str) -> None:
        words = self._words(match)
        if len(words) > 1:
            self.clauses.ends("first_words" if place == 1 else "last_words", words, phrase)
        else:
            self.clauses.place("every_placed", place, words[0], phrase)

    def _at(self, place: int, match: re.Match[str], phrase: str) -> None:
        self.clauses.place("placed", place, self._words(match)[0], phrase)

    def _avoid(self, match: re.Match[str], phrase: str) -> None:
        self.clauses.words("avoids", self._words(match), phrase)

    def _contain(self, match: re.Match[str], phrase: str) -> None:
        self.clauses.words("contains", self._words(match), phrase)

    def _longest(self, match: re.Match[str], phrase: str) -> None:
        self.clauses.count("word_chars", Range(0, g.number(match["most"])), phrase)

    def _count(self, unit: str, match: re.Match[str], phrase: str) -> None:
        more = match.groupdict().get("more") or ""
        for part in re.findall(g.RANGE, f"{match['count']} {more}", flags=re.I):
            self.clauses.count(unit, g.range_of(part), phrase)

    def _rest(self, rest: str) -> str:
        """The unread part as it stood in the task: from its first word to its last."""
        words = [re.escape(word) for word in rest.split()]
        # The words may stand far apart in the task, with clauses between them that were read.
        for stop in range(len(words), 0, -1):
            if found := re.search(r"[^;]*?".join(words[:stop]), self.text, flags=re.I):
                return self._restore(found.group()).strip(" ,.;")
        return self._restore(rest)

    def _refuse(self, part: str, why: str = "") -> NoReturn:
        raise TaskNotUnderstood(
            f"the expert planner cannot read {self._restore(part)!r}: {why}it understands a "
            "sentence or a paragraph with any mix of counts ('exactly 82 characters', 'at least 9 "
            "words', '3 to 5 sentences', 'all sentences having at most 20 words', 'all words "
            "having at most 7 characters') and of words ('the 4th, 8th words to be 'a', 'b' "
            "respectively', 'containing the word 'sea'', 'not containing the word 'be'', 'all "
            "sentences having the 1st word to be 'The''), a single word ('a word with "
            "at least 12 characters'), and the four PUZZLES. For other tasks "
            "use another planner (--planner openai:MODEL), or write a program and run it with "
            "'disciple exec PROGRAM.py'"
        )
