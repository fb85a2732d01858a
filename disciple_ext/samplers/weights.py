"""Arithmetic of log weights: pure functions, natural logs, arrays in and out."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ess", "log_mean", "log_sum", "normalise"]

Floats = NDArray[np.float64]


def log_sum(log_weights: ArrayLike) -> float:
    """Log of the sum of weights given as logs; -inf for none or all zero.

    Raises:
        ValueError: a weight is NaN or infinite.
    """
    w = np.asarray(log_weights, dtype=np.float64)
    if np.isnan(w).any() or (w == np.inf).any():
        raise ValueError(f"log weights must be below infinity and not NaN: {w}")
    top = w.max(initial=-np.inf)
    if top == -np.inf:
        return -math.inf
    return float(top + np.log(np.exp(w - top).sum()))


def log_mean(log_weights: ArrayLike) -> float:
    """Log of the mean weight, over all of them, the zero ones included."""
    w = np.asarray(log_weights, dtype=np.float64)
    return log_sum(w) - math.log(len(w)) if len(w) else -math.inf


def normalise(log_weights: ArrayLike) -> Floats:
    """Weights in linear space that sum to 1; all zero where every weight is zero."""
    w = np.asarray(log_weights, dtype=np.float64)
    total = log_sum(w)
    if total == -math.inf:
        return np.zeros_like(w)
    p = np.exp(w - total)
    # Again: after rounding, the sum may be off 1 in its last digits.
    return np.asarray(p / p.sum())


def ess(log_weights: ArrayLike) -> float:
    """Effective sample size, 1 / sum of squared normalised weights, in [0, n].

    Kish's estimate, as in line 9 of the paper's Algorithm 2; 0 where every weight is zero.
    """
    p = normalise(log_weights)
    square = float((p**2).sum())
    return 1.0 / square if square > 0 else 0.0
