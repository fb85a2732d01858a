"""Methods side by side: what their answers are worth, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..logs.log import Row
from ..methods.budget import tokens
from .metrics import markdown, mean_by_task, nats_per_token

__all__ = ["Standing", "compare", "comparison_table"]


@dataclass(frozen=True)
class Standing:
    """One method on the instances that every method of the log was run on.

    Means are over task types of the mean over instances.

    Attributes:
        method: its name.
        instances: how many.
        pass_at_1: weighted Pass@1.
        nats: log-probability per token under the follower's prior prompt, forced tokens
            included, by weight over the samples; only instances that were answered count. None
            where there is none.
        tokens: follower tokens of a run.
        seconds: wall-clock seconds of a run.
        errors: runs that ended in an error.
    """

    method: str
    instances: int
    pass_at_1: float
    nats: float | None
    tokens: float
    seconds: float
    errors: int

    def to_dict(self) -> dict[str, Any]:
        """The standing as JSON-safe data."""
        return asdict(self)


def compare(rows: Iterable[Row]) -> list[Standing]:
    """One standing for each method of a log, in the order of their first rows."""
    last: dict[str, dict[str, Row]] = {}
    for row in rows:
        last.setdefault(row.method, {})[row.id] = row
    # Methods are compared on the same instances: a log that was interrupted has not all of each.
    common = set.intersection(*(set(found) for found in last.values())) if last else set()
    return [
        _standing(method, [row for row in found.values() if row.id in common])
        for method, found in last.items()
    ]


def comparison_table(standings: Sequence[Standing]) -> str:
    """A Markdown table, methods down."""
    head = ["method", "instances", "Pass@1", "nats per token", "follower tokens", "s", "errors"]
    body = [
        [
            s.method,
            str(s.instances),
            f"{s.pass_at_1:.3f}",
            "" if s.nats is None else f"{s.nats:.2f}",
            f"{s.tokens:.0f}",
            f"{s.seconds:.2f}",
            str(s.errors),
        ]
        for s in standings
    ]
    return markdown(head, body)


def _standing(method: str, rows: Sequence[Row]) -> Standing:
    nats = [(row.task, value) for row in rows if (value := nats_per_token(row)) is not None]
    return Standing(
        method=method,
        instances=len(rows),
        pass_at_1=_mean((row.task, row.pass_at_1) for row in rows),
        nats=_mean(nats) if nats else None,
        # A run that failed took fewer tokens than an answer takes, or did not count them.
        tokens=_mean((row.task, tokens(row)) for row in rows if row.error is None),
        seconds=_mean((row.task, row.seconds) for row in rows),
        errors=sum(row.error is not None for row in rows),
    )


def _mean(values: Iterable[tuple[str, float]]) -> float:
    return mean_by_task(values).get("all", math.nan)
