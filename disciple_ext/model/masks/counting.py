r"""Counted repeats, such as ``[ -~]{10,200}``, without counting in the grammar.

A grammar unrolls a count: every place in it has a mask of its own, slow to make, and where it is
open which part of the pattern a character belongs to (``[ -~]{10,200}\.``), the library gives up.
But a token is short. While more room is left than the longest token takes, the mask does not
depend on how much more. So the counts are kept here, and the library is asked about a pattern
whose counts are cut to what one token can tell apart. Few such patterns occur in a text, and
their masks are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...protocol.token_mask import TokenMask
from .matching import Grammars, Position, State
from .regex import Piece, Regex

__all__ = ["Counted", "Counting", "terminal"]

_WORTH = 24
"""Repeats below this are left to the library."""
_MOST_WAYS = 64
"""Ways to read a text that are followed at the same time; beyond them the library is asked."""

Way = tuple[int, int]
"""A piece, and how often it has come."""


def terminal(regex: str) -> str:
    """The grammar of one regular expression, in the library's dialect."""
    return f"start: /{regex}/"


class Counted:
    """A pattern that begins with counted pieces, over one vocabulary."""

    def __init__(self, home: Grammars, regex: Regex) -> None:
        self.home = home
        self.pieces = regex.pieces
        self.tail = regex.tail
        self.longest = max(map(len, home.vocabulary.tokens), default=1)
        self._cut: dict[frozenset[tuple[int, int, int | None]], State] = {}

    @staticmethod
    def suits(regex: Regex) -> bool:
        """Whether the pattern has a count that is worth it."""
        return any(max(p.least, p.most or 0) >= _WORTH for p in regex.pieces)

    def cut(self, ways: frozenset[Way]) -> State:
        """A state with the mask of this place: the rest of the pattern, its counts cut."""
        rests = frozenset((i, *self._shorter(*_left(self.pieces[i], n))) for i, n in ways)
        found = self._cut.get(rests)
        if found is None:
            found = self._cut[rests] = self._start(rests, cut=True)
        return found

    def exact(self, ways: frozenset[Way]) -> State:
        """The rest of the pattern as it is."""
        return self._start(frozenset((i, *_left(self.pieces[i], n)) for i, n in ways), cut=False)

    def step(self, ways: frozenset[Way], char: str) -> frozenset[Way] | None:
        """Where a character leads; None where only the library knows."""
        reached = set()
        for i, count in self._open(ways):
            holds = self.pieces[i].holds(char)
            if holds is None:
                return None
            if holds:
                reached.add((i, count + 1))
        return frozenset(reached)

    def _open(self, ways: frozenset[Way]) -> Iterator[Way]:
        """The pieces that the next character may belong to."""
        for i, count in ways:
            while i < len(self.pieces):
                piece = self.pieces[i]
                if piece.most is None or count < piece.most:
                    yield i, count
                if count < piece.least:
                    break
                i, count = i + 1, 0

    def _shorter(self, least: int, most: int | None) -> tuple[int, int | None]:
        # One more than a token can fill: it may then still go on.
        return min(least, self.longest), None if most is None else min(most, self.longest + 1)

    def _start(self, rests: frozenset[tuple[int, int, int | None]], cut: bool) -> State:
        texts = []
        # In a fixed order, for states are kept by the grammar's text; None does not sort.
        for i, least, most in sorted(rests, key=str):
            text = _times(self.pieces[i].source, least, most)
            for after in self.pieces[i + 1 :]:
                counts = after.least, after.most
                text += _times(after.source, *(self._shorter(*counts) if cut else counts))
            texts.append(text + self.tail)
        return self.home.start(terminal(f"(?:{'|'.join(texts)})"))


class Counting:
    """A place in a pattern's counted pieces; it never changes."""

    def __init__(self, pattern: Counted, ways: frozenset[Way] = frozenset({(0, 0)})) -> None:
        self._pattern = pattern
        self._ways = ways
        self._near = pattern.cut(ways)

    @property
    def allowed(self) -> TokenMask:
        """Tokens that may follow; the ends of text are among them where it is complete."""
        return self._near.allowed

    @property
    def complete(self) -> bool:
        """Whether the text may end here."""
        return self._near.complete

    def then(self, token: int) -> Position:
        """Where a token leads: on among the pieces, or into what follows them."""
        pattern = self._pattern
        vocabulary = pattern.home.vocabulary
        if token in vocabulary.special:
            return self
        ways: frozenset[Way] | None = self._ways
        text = vocabulary.texts[token]
        for char in text or "":
            ways = pattern.step(ways, char) if ways else ways
        # A token that is cut inside a code point has no text: the library follows its bytes.
        if text is None or ways is None or len(ways) > _MOST_WAYS:
            return pattern.exact(self._ways).then(token)
        return Counting(pattern, ways) if ways else self._near.then(token)


def _left(piece: Piece, count: int) -> tuple[int, int | None]:
    return max(0, piece.least - count), None if piece.most is None else piece.most - count


def _times(source: str, least: int, most: int | None) -> str:
    return f"(?:{source}){{{least},{'' if most is None else most}}}"
