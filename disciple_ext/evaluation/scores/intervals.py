"""Bootstrap confidence intervals of means over task types of means over instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .metrics import levels, mean_by_task

__all__ = ["DRAWS", "LEVEL", "Interval", "intervals"]

DRAWS = 10_000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean and its percentile interval.

    Attributes:
        value: the mean.
        low: lower end, or None where a type has a single instance: one instance says nothing of
            how instances differ.
        high: upper end, or None likewise.
    """

    value: float
    low: float | None = None
    high: float | None = None


def intervals(
    values: Iterable[tuple[str, float]], *, draws: int = DRAWS, level: float = LEVEL, seed: int = 0
) -> dict[str, Interval]:
    """Means as :func:`mean_by_task` gives them, each with its stratified bootstrap interval.

    Each type's instances are drawn anew from themselves, with replacement and as many as there
    are; a level's mean is the mean of its types' means in the same draw. So types count alike,
    however many instances they have, and are held fixed: the interval is about other instances of
    these types, not about other types (Efron and Tibshirani 1993, percentile interval).

    Args:
        values: (task, value of one instance) pairs.
        draws: bootstrap draws.
        level: probability that the interval is to hold.
        seed: seed of the draws; each type has its own stream, whatever other types there are.
    """
    found: dict[str, list[float]] = {}
    for task, value in values:
        found.setdefault(task, []).append(value)
    means = mean_by_task((task, value) for task in found for value in found[task])
    drawn = {task: _drawn(task, np.array(found[task]), draws, seed) for task in found}
    return {name: _interval(means[name], drawn, levels(name, found), level) for name in means}


def _drawn(task: str, values: NDArray[np.float64], draws: int, seed: int) -> NDArray[np.float64]:
    """Means of the drawn instances, of shape (draws,)."""
    if len(values) < 2:
        # NaN goes on into every mean over this type, which then has no interval either.
        return np.full(draws, np.nan)
    mean: NDArray[np.float64] = _shares(task, len(values), draws, seed) @ values
    return mean


@lru_cache(maxsize=64)  # a report asks for many means over the same instances
def _shares(task: str, size: int, draws: int, seed: int) -> NDArray[np.float64]:
    """How often each instance was drawn, as a share of the draw: shape (draws, size)."""
    # By task, so that another task in the log does not change this one's interval.
    rng = np.random.default_rng([seed, *task.encode()])
    # Each draw in a range of its own, so that one bincount counts all of them.
    chosen = rng.integers(size, size=(draws, size)) + size * np.arange(draws)[:, None]
    return np.bincount(chosen.ravel(), minlength=draws * size).reshape(draws, size) / size


def _interval(
    value: float, drawn: Mapping[str, NDArray[np.float64]], tasks: Iterable[str], level: float
) -> Interval:
    means = np.mean([drawn[task] for task in tasks], axis=0)
    if np.isnan(means).any():
        return Interval(value)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))
