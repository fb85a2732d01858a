"""Equal follower tokens for every method, so that a comparison of methods is one of methods.

A particle of one method does not cost what one of another does: beams are copied, dead particles
stop early, a tree search backs out. So the first method runs with the samples that were asked for,
and each other method gets as many as take as many tokens, by what it took so far on instances of
the same type beside the first method.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..logs.log import Row

__all__ = ["MOST", "EqualTokens", "tokens"]

MOST = 16
"""Times the reference's samples that another method gets at most, however cheap they are."""


def tokens(row: Row) -> int:
    """The follower tokens of a run; 0 where it failed."""
    return int(row.usage.get("follower_tokens", 0))


class EqualTokens:
    """How many samples a run gets.

    Attributes:
        reference: the method whose tokens are the budget.
    """

    def __init__(self, reference: str, rows: Iterable[Row] = ()) -> None:
        self.reference = reference
        self._first: dict[str, Row] = {}
        self._pilots: dict[tuple[str, str], Row] = {}
        # Tokens a sample, by task and method: sums over instances of the method and the reference.
        self._rates: dict[tuple[str, str], tuple[float, float]] = {}
        # The reference first: the rates of the others are taken beside its rows.
        for row in sorted(rows, key=lambda row: row.method != reference):
            self.add(row)

    def add(self, row: Row) -> None:
        """Learn from a run that counts."""
        if row.method == self.reference:
            self._first[row.id] = row
        elif rate := self._rate(row):
            mine, theirs = self._rates.get((row.task, row.method), (0.0, 0.0))
            self._rates[row.task, row.method] = mine + rate[0], theirs + rate[1]

    def pilot(self, row: Row) -> None:
        """Learn from a run that only measures: forgotten as soon as one counts."""
        self._pilots[row.task, row.method] = row

    def knows(self, task: str, method: str) -> bool:
        """Whether no pilot is needed to say how many samples the method gets."""
        return method == self.reference or (task, method) in self._rates

    def samples(self, task: str, method: str, n: int) -> int:
        """Samples of the method that take the tokens of ``n`` of the reference, from 1 to 16 n."""
        rate = self._rates.get((task, method))
        if rate is None and (pilot := self._pilots.get((task, method))):
            rate = self._rate(pilot)
        mine, theirs = rate or (1.0, 1.0)
        # At least one sample, and a bound: a method that dies at once would else get thousands.
        return min(MOST * n, max(1, round(n * theirs / mine)))

    def _rate(self, row: Row) -> tuple[float, float] | None:
        """Tokens a sample of a run, and of the reference's on the same instance."""
        first = self._first.get(row.id)
        if first is None or not tokens(row) or not tokens(first):
            return None
        return tokens(row) / row.n, tokens(first) / first.n
