"""What can be set."""

from __future__ import annotations

import math
from dataclasses import dataclass

from disciple_ext.errors import UsageError

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """Settings of a search, all plain data, so that they can be sent to the sandbox.

    Attributes:
        exploration: c of UCT; values are from 0 to 1.
        width: k of progressive widening: a node of v visits has at most ``k * v**alpha``
            children that can be gone down to, rounded up.
        alpha: the exponent of progressive widening.
        retries: children without a way on after which a node is given up; None for half of N,
            at least 4. A rollout is given up after as many dead ends in a row that lead no
            deeper.
        parallel: rollouts at a time; None for an eighth of N, at least 2 and at most 16.
        depth: steps of a rollout, or None to run each one to the end of its text.
    """

    exploration: float = 0.2
    width: float = 1.2
    alpha: float = 0.5
    retries: int | None = None
    parallel: int | None = None
    depth: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.exploration) and self.exploration >= 0):
            raise UsageError(f"exploration must be at least 0, not {self.exploration}")
        if not (math.isfinite(self.width) and self.width > 1):
            raise UsageError(
                f"width must be above 1, not {self.width}: a node needs a second child"
            )
        if not 0 <= self.alpha <= 1:
            raise UsageError(f"alpha must be from 0 to 1, not {self.alpha}")
        for name in ("retries", "parallel", "depth"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise UsageError(f"{name} must be a whole number from 1 on, not {value!r}")

    def retries_for(self, n: int) -> int:
        """Retries for a budget of ``n`` generations."""
        return self.retries if self.retries is not None else max(4, n // 2)

    def parallel_for(self, n: int) -> int:
        """Rollouts at a time for a budget of ``n`` generations."""
        return min(n, self.parallel if self.parallel is not None else max(2, min(16, n // 8)))
