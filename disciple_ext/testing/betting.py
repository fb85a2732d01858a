"""Sequential tests of a mean by betting: valid at whatever moment one looks.

Whoever bets at each observation x, a fraction b of what he has, that the mean exceeds m, has
multiplied his wealth by 1 + b (x - m) / (m - low), where low bounds x from below. If the mean is
at most m, the wealth is a nonnegative supermartingale, and so the probability that it ever
reaches 1/a is at most a (Ville 1939). Betting several fractions at once and averaging the wealth
keeps that. Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by
betting", J. R. Stat. Soc. B 86(1), arXiv 2010.09686, sections 3 and 4.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Bet", "MeanTest"]

_FRACTIONS = np.array([0.9, 0.6, 0.4, 0.25, 0.16, 0.1, 0.06, 0.04, 0.025, 0.015, 0.01, 0.005])


class Bet:
    """A bet that the mean of observations above ``low`` exceeds ``mean``.

    Attributes:
        log_wealth: natural log of the largest wealth so far, from 1 at the start.
    """

    def __init__(self, mean: float, low: float) -> None:
        self.mean, self.low = mean, low
        self.log_wealth = 0.0
        self._logs = np.zeros(len(_FRACTIONS))

    def add(self, values: ArrayLike) -> None:
        """Bet on further observations, in their order."""
        stakes = _FRACTIONS / (self.mean - self.low)
        off = np.asarray(values, dtype=np.float64)[:, None] - self.mean
        # A bet risks 0.9 at most; the bound is for values that fall below `low`, against log(0).
        logs = self._logs + np.log1p(np.maximum(stakes * off, -0.999)).cumsum(0)
        self._logs = logs[-1]
        wealth = np.logaddexp.reduce(logs, axis=1) - math.log(len(_FRACTIONS))
        # The largest so far: Ville's inequality bounds the probability that it is ever reached.
        self.log_wealth = max(self.log_wealth, float(wealth.max()))


class MeanTest:
    """Is the mean of independent observations in [0, high] equal to ``mean``?

    Attributes:
        mean: the mean that is claimed, at least 0.
    """

    def __init__(self, mean: float, high: float, tolerance: float) -> None:
        # A wider range is a valid one, and keeps rounding from looking like an outcome.
        low, high = -1e-3 * tolerance, max(high, mean + tolerance) + 0.01 * tolerance
        self.mean = mean
        self._tolerance = tolerance
        self._above, self._below = Bet(mean, low), Bet(-mean, -high)
        self._off: list[float] = []

    def add(self, values: ArrayLike) -> None:
        """Take in further observations."""
        x = np.asarray(values, dtype=np.float64)
        self._above.add(x)
        self._below.add(-x)
        self._off.extend(x - self.mean)

    @property
    def log_evidence(self) -> float:
        """Natural log of the wealth of the better bet against the claim."""
        return max(self._above.log_wealth, self._below.log_wealth)

    @property
    def close(self) -> bool:
        """Whether the claim is within the tolerance of the mean by three standard errors.

        By the normal approximation: it decides when to stop, and can raise no false alarm.
        """
        error = float(np.std(self._off)) / math.sqrt(len(self._off))
        return abs(float(np.mean(self._off))) + 3.0 * error < self._tolerance
