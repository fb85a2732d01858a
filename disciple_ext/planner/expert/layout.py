"""A sentence or paragraph laid out for writing: open counts get bounds, positions get places.

COLLIE says "at least 9 words" or nothing at all; a writer needs a bound on everything, so that
no text runs on for ever. What is chosen here is never tighter than what the task says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from ...errors import TaskNotUnderstood
from .constraints import LAST, Level, Range, Writing

__all__ = ["Layout", "lay_out"]

_LONGEST_SENTENCE = 30
"""Words after which a sentence is ended where the task does not say."""

_LETTERS_A_WORD = 5.8
"""Characters of an English word with its space: to choose a number of words for a length."""


_CHARS_A_SENTENCE = 90
"""Characters of an ordinary sentence."""


@dataclass(frozen=True)
class Layout:
    """What the writing machine needs to know.

    Attributes:
        level: a single sentence, or a paragraph.
        sentences: fewest and most sentences.
        sentence_words: fewest and most words of each sentence; both bounds are set.
        total: words of the whole paragraph, or no range.
        given: words at places of the whole text.
        every: words at places of every sentence.
        firsts: first words of the sentences, in order, or none.
        lasts: last words of the sentences, in order, or none (None: this sentence's is free).
        last: last word of every sentence, or None.
        contains: words to bring in.
        avoids: words to leave out.
        word_chars: characters of every word.
        length: characters of the whole text, or no range.
    """

    level: Level
    sentences: Range
    sentence_words: Range
    total: Range
    given: dict[int, str]
    every: dict[int, str]
    firsts: tuple[str, ...]
    lasts: tuple[str | None, ...]
    last: str | None
    contains: tuple[str, ...]
    avoids: tuple[str, ...]
    word_chars: Range
    length: Range

    @property
    def plain(self) -> bool:
        """Whether whole sentences can be drawn at once."""
        return self.level == "paragraph" and not (
            self.given
            or set(self.every) - {1}
            or self.lasts
            or self.last
            or self.contains
            or self.word_chars.low > 1
            or self.length
        )

    @property
    def max_tokens(self) -> int:
        """A limit that no text within the bounds reaches: four tokens for each word."""
        sentences, words = self.sentences.high or 1, self.sentence_words.high or 1
        spelled = sum(map(len, self.given.values())) + sum(len(w or "") for w in self.lasts)
        spelled += sum(map(len, self.contains)) + sentences * sum(map(len, self.every.values()))
        return 4 * sentences * (words + 2) + spelled + 16


def lay_out(writing: Writing) -> Layout:
    """Lay a task out.

    Raises:
        TaskNotUnderstood: the expert has no way to write this mix of constraints.
    """
    if writing.level == "sentence":
        return _sentence(writing)
    return _paragraph(writing)


def _sentence(writing: Writing) -> Layout:
    given = {place: word for place, word in writing.placed if place != LAST}
    last = dict(writing.placed).get(LAST)
    # At least as many words as are given, and up to the last place that has one.
    low = max(writing.words.low, len(writing.contains) + len(given) + bool(last), *given, 1)
    high = writing.words.high
    length = writing.characters
    worded = bool(given or last or writing.contains or writing.words)
    if length.high is not None and (worded or length.high - length.low < 12):
        # With words to place, or a narrow window, an exact length is what the machine can fill.
        length = Range(length.high, length.high)
    if length.exact and worded:
        # A length and words: settle on a number of words that makes ordinary ones.
        wanted = round(length.exact / _LETTERS_A_WORD)
        low = high = max(low, min(wanted, high or wanted))
    elif not length:
        low = max(low, 4) if high is None else max(low, min(high, 4))
    if high is None:
        longest = _LONGEST_SENTENCE if length.high is None else length.high
        high = max(low + 15, longest)
    # With an exact count the last word has a place like any other.
    if last and low == high:
        given[high], last = last, None
    if 1 in given:
        given[1] = _capitalised(given[1])
    return _layout(
        writing,
        sentences=Range(1, 1),
        sentence_words=Range(low, high),
        given=given,
        last=last,
        length=length,
    )


def _paragraph(writing: Writing) -> Layout:
    given = {place: word for place, word in writing.placed if place != LAST}
    every = {place: word for place, word in writing.every_placed if place != LAST}
    last = dict(writing.every_placed).get(LAST)
    closing = dict(writing.placed).get(LAST)
    total = writing.words
    if given and max(given) > total.low:
        total = Range(max(given), total.high)
    low = max(writing.sentence_words.low, *every, 1)
    high = writing.sentence_words.high
    low = max(low, 4) if high is None else max(low, min(high, 4))
    high = high if high is not None else max(low + 12, _LONGEST_SENTENCE)
    length = _length(writing)
    sentences = _sentences(writing, total, Range(low, high), bool(closing), length.low)
    lasts: tuple[str | None, ...] = writing.last_words
    if closing and not lasts:
        lasts, last = (*(last for _ in range(sentences.low - 1)), closing), None
    steered = lasts or last or given or set(every) - {1}
    if steered and total.high is not None:
        _refuse("a paragraph with at most so many words, and with words at given places")
    if length and (steered or every or total or writing.first_words or writing.contains):
        _refuse("a paragraph with a number of characters, and with given words")
    return _layout(
        writing,
        sentences=sentences,
        sentence_words=Range(low, high),
        total=total,
        given=given,
        every={p: _capitalised(w) if p == 1 else w for p, w in every.items()},
        firsts=tuple(map(_capitalised, writing.first_words)),
        lasts=lasts,
        last=last,
        length=length,
    )


def _length(writing: Writing) -> Range:
    """The length to write: an exact one, even where the task gives a range."""
    limit = writing.characters
    if not limit:
        return limit
    usual = max(limit.low, _CHARS_A_SENTENCE * max(3, writing.sentences.low))
    length = usual if limit.high is None else min(usual, limit.high)
    return Range(length, length)


def _sentences(writing: Writing, total: Range, words: Range, settled: bool, length: int) -> Range:
    """How many sentences to write."""
    named = len(writing.last_words) or len(writing.first_words)
    if named:
        return Range(named, named)
    limits = writing.sentences
    if length:
        wanted = max(1, limits.low, round(length / _CHARS_A_SENTENCE))
        wanted = min(wanted, limits.high or wanted)
        return Range(wanted, wanted)
    if total:
        usual = min(max(15, words.low), words.high or 15)
        middle = total.low if total.high is None else (total.low + total.high) // 2
        wanted = max(limits.low, round(middle / usual), 1)
        wanted = min(wanted, limits.high or wanted)
        while total.high is not None and wanted > 1 and wanted * words.low > total.high:
            # Even the shortest sentences would be too many words.
            wanted -= 1
        while words.high is not None and wanted * words.high < total.low:
            # Even the longest sentences would be too few words.
            wanted += 1
        return Range(wanted, wanted)
    if not limits.low:
        limits = limits & Range(min(3, limits.high or 3))
    high = limits.high if limits.high is not None else limits.low + (2 if words.low < 60 else 0)
    return Range(limits.low, limits.low) if settled else Range(limits.low, high)


def _layout(
    writing: Writing,
    *,
    sentences: Range,
    sentence_words: Range,
    total: Range | None = None,
    given: dict[int, str],
    every: dict[int, str] | None = None,
    firsts: tuple[str, ...] = (),
    lasts: tuple[str | None, ...] = (),
    last: str | None,
    length: Range | None = None,
) -> Layout:
    every = every or {}
    placed = {w.lower() for w in (*given.values(), *every.values(), *firsts, *lasts, last) if w}
    return Layout(
        level=writing.level,
        sentences=sentences,
        sentence_words=sentence_words,
        total=total or Range(),
        given=given,
        every=every,
        firsts=firsts,
        lasts=lasts,
        last=last,
        # A word that is placed is in the text already, and need not come twice.
        contains=tuple(w for w in writing.contains if w.lower() not in placed),
        avoids=writing.avoids,
        word_chars=writing.word_chars,
        length=length or Range(),
    )


def _capitalised(word: str) -> str:
    return word[:1].upper() + word[1:]


def _refuse(what: str) -> NoReturn:
    raise TaskNotUnderstood(
        f"the expert planner understands {what}, but has no program for it; use another planner "
        "(--planner openai:MODEL), or write a program and run it with 'disciple exec PROGRAM.py'"
    )
