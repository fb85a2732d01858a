"""What a task asks for, as plain records: the language that the expert planner thinks in.

``language.py`` and ``puzzles.py`` read a task into one of these records; the emitters turn a
record into a program. All counts are COLLIE's: words and sentences as ``units`` cuts them,
characters as code points. Positions are 1-based; ``LAST`` is the last word.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    *("LAST", "Abstract", "Ingredients", "Itinerary", "Level", "Poem", "Range", "Word", "Writing"),
]

LAST = -1
Level = Literal["sentence", "paragraph"]


@dataclass(frozen=True)
class Range:
    """A closed range of counts; ``high`` is None when there is no upper limit."""

    low: int = 0
    high: int | None = None

    def __and__(self, other: Range) -> Range:
        """The counts in both ranges."""
        highs = [high for high in (self.high, other.high) if high is not None]
        return Range(max(self.low, other.low), min(highs) if highs else None)

    def __contains__(self, count: int) -> bool:
        """Whether a count is in the range."""
        return self.low <= count and (self.high is None or count <= self.high)

    def __bool__(self) -> bool:
        """Whether this range restricts anything."""
        return self.low > 0 or self.high is not None

    @property
    def empty(self) -> bool:
        """Whether no count is in the range."""
        return self.high is not None and self.low > self.high

    @property
    def exact(self) -> int | None:
        """The only count in the range, if there is only one."""
        return self.low if self.low == self.high else None

    def phrase(self, unit: str) -> str:
        """The range in words, such as ``"at least 9 words"``."""

        def some(count: int) -> str:
            return f"{count} {unit}" if count != 1 else f"1 {unit.removesuffix('s')}"

        if self.exact is not None:
            return f"exactly {some(self.exact)}"
        if self.high is None:
            return f"at least {some(self.low)}"
        if self.low == 0:
            return f"at most {some(self.high)}"
        return f"{self.low} to {some(self.high)}"


@dataclass(frozen=True)
class Writing:
    """A sentence or a paragraph under COLLIE's constraints.

    Attributes:
        level: a single sentence, or a paragraph of sentences.
        topic: what the text is about, or None.
        characters: characters of the whole text, white space included.
        words: words of the whole text.
        sentences: sentences of the whole text.
        sentence_words: words of every sentence.
        word_chars: characters of every word.
        placed: words at positions of the whole text, in order of position, ``LAST`` at the end.
        every_placed: words at positions of every sentence.
        first_words: the first words of the sentences, one for each sentence in order.
        last_words: the last words of the sentences, one for each sentence in order.
        contains: words that the text must contain.
        avoids: words that the text must not contain.
    """

    level: Level
    topic: str | None = None
    characters: Range = field(default_factory=Range)
    words: Range = field(default_factory=Range)
    sentences: Range = field(default_factory=Range)
    sentence_words: Range = field(default_factory=Range)
    word_chars: Range = field(default_factory=Range)
    placed: tuple[tuple[int, str], ...] = ()
    every_placed: tuple[tuple[int, str], ...] = ()
    first_words: tuple[str, ...] = ()
    last_words: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Word:
    """A single word: how many letters it has, and letters at places, ``LAST`` at the end."""

    length: Range
    given: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Poem:
    """A poem with an exact number of lines and of words in each line."""

    lines: int
    words: int
    topic: str | None = None


@dataclass(frozen=True)
class Abstract:
    """A grant proposal's abstract that does without the terms of its own field."""

    topic: str
    words: Range
    avoids: tuple[str, ...]


@dataclass(frozen=True)
class Ingredients:
    """A dashed list of at most ``most`` ingredients that cost less than ``budget`` US cents."""

    dish: str
    most: int
    budget: int


@dataclass(frozen=True)
class Itinerary:
    """A day-by-day plan of a trip, with times of activities and hours left free."""

    place: str
    days: int
    activities: int
    free_hours: int
