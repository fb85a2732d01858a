"""Which parts of a text a task prescribed, and which of its words are real ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from ...errors import UsageError

__all__ = ["Spans", "WordList", "outside"]

USUAL_PLACES = ("/usr/share/dict/american-english-large", "/usr/share/dict/words")

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")


class _Part(Protocol):
    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


P = TypeVar("P", bound=_Part)


@dataclass(frozen=True)
class Spans:
    """Half-open ranges of code points of a text: whole words that were prescribed."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str, words: Sequence[str]) -> Spans:
        """Every whole occurrence of the words, in any case."""
        if not words:
            return cls(())
        # Alternation takes the first that matches: "sea" would hide "sea-green".
        longest_first = sorted(words, key=len, reverse=True)
        either = "|".join(re.escape(word) for word in longest_first)
        pattern = re.compile(rf"(?<!\w)(?:{either})(?!\w)", re.IGNORECASE)
        return cls(tuple(match.span() for match in pattern.finditer(text)))

    def touch(self, start: int, end: int) -> bool:
        """Whether [start, end) shares a code point with one of the ranges."""
        return any(start < last and first < end for first, last in self.ranges)


def outside(spans: Spans, parts: Sequence[P]) -> list[P]:
    """The parts (such as tokens) that share no code point with the spans."""
    return [part for part in parts if not spans.touch(part.start, part.end)]


@dataclass(frozen=True)
class WordList:
    """Words that count as real: as listed, in lower case, or as the list capitalises them."""

    words: frozenset[str]

    @classmethod
    def read(cls, path: str | Path | None = None) -> WordList:
        """Read a list with one word a line.

        Args:
            path: the file; the first usual place of the system's that there is if None.

        Raises:
            UsageError: there is none.
        """
        places = [Path(path)] if path is not None else [Path(place) for place in USUAL_PLACES]
        for place in places:
            if place.is_file():
                return cls(frozenset(place.read_text("utf-8").split()))
        raise UsageError(
            f"there is no word list at {' or '.join(map(str, places))}; install one (Debian: "
            "wamerican-large), or name a file with one word a line (--words)"
        )

    def __contains__(self, word: str) -> bool:
        bare = re.sub(r"'s$", "", word)
        forms = {word, word.lower(), word.capitalize(), bare, bare.lower(), bare.capitalize()}
        return not forms.isdisjoint(self.words)

    def share(self, text: str, left_out: Spans) -> float | None:
        """Share of the text's words that are listed, or None where it has none.

        Words are runs of letters, apostrophes inside them included; numbers are not counted.
        """
        found = [
            match.group() for match in _WORD.finditer(text) if not left_out.touch(*match.span())
        ]
        return sum(word in self for word in found) / len(found) if found else None
