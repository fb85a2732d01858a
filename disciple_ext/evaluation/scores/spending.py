"""What a run spent: tokens in the answer, tokens on the way to it, dollars."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from ..logs.log import Row
from .answers import drawn_sample

__all__ = ["Spent", "spent"]


@dataclass(frozen=True)
class Spent:
    """Tokens and dollars of one run.

    Attributes:
        answer: tokens of the answer; 0 where there is none.
        follower: tokens that the follower drew or was forced to, over all samples.
        planner_output: tokens that the planner wrote: programs, in every attempt.
        planner_input: tokens that the planner read at full price.
        planner_cached: tokens that it read at the price of a cache.
        dollars: US dollars, or None where a price is unknown.
    """

    answer: int
    follower: int
    planner_output: int
    planner_input: int
    planner_cached: int
    dollars: float | None

    @property
    def intermediate(self) -> int:
        """Tokens written by either model that are not in the answer."""
        return self.follower - self.answer + self.planner_output


def spent(row: Row) -> Spent | None:
    """What a run spent, or None where the log does not say.

    A run that failed has no tokens and price of its own; those of its attempts count, as far as
    they are logged.
    """
    usage = row.usage or _of_attempts(row)
    if not usage:
        return None
    answer = drawn_sample(row)
    follower = usage.get("follower_tokens", 0)
    return Spent(
        answer=min(answer.tokens, follower) if answer is not None else 0,
        follower=follower,
        planner_output=usage.get("planner_output", 0),
        planner_input=usage.get("planner_input", 0),
        planner_cached=usage.get("planner_cached", 0),
        dollars=row.cost if row.usage else _price_of_attempts(row),
    )


def _of_attempts(row: Row) -> dict[str, int]:
    total: Counter[str] = Counter()
    for attempt in row.attempts:
        total.update(attempt.get("usage") or {})
    return dict(total)


def _price_of_attempts(row: Row) -> float | None:
    prices = [attempt.get("cost") for attempt in row.attempts]
    known = [price for price in prices if price is not None]
    return math.fsum(known) if len(known) == len(prices) else None
