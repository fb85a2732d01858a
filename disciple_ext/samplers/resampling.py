"""Resampling: ancestors drawn in proportion to weights.

Every scheme here is unbiased: particle i has n * w_i offspring in expectation. Particles of
zero weight are never drawn. See Douc, Cappe and Moulines (2005), arXiv cs/0507025.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["SCHEMES", "multinomial", "residual", "stratified", "systematic"]

Weights = NDArray[np.float64]
Ancestors = NDArray[np.int64]
Scheme = Callable[[np.random.Generator, Weights, int], Ancestors]


def multinomial(rng: np.random.Generator, weights: Weights, n: int) -> Ancestors:
    """Independent draws: Categorical(w), as in the paper's Algorithm 2."""
    return _invert(weights, np.sort(rng.random(n)))


def stratified(rng: np.random.Generator, weights: Weights, n: int) -> Ancestors:
    """One uniform in each of n equal strata."""
    return _invert(weights, (np.arange(n) + rng.random(n)) / n)


def systematic(rng: np.random.Generator, weights: Weights, n: int) -> Ancestors:
    """One uniform for all n equal strata."""
    return _invert(weights, (np.arange(n) + rng.random()) / n)


def residual(rng: np.random.Generator, weights: Weights, n: int) -> Ancestors:
    """floor(n w_i) copies each, and the rest by independent draws from what is left."""
    copies = np.floor(n * weights).astype(np.int64)
    left = n - int(copies.sum())
    kept = np.repeat(np.arange(len(weights)), copies)
    if left == 0:
        return kept
    rest = n * weights - copies
    return np.sort(np.concatenate([kept, multinomial(rng, rest / rest.sum(), left)]))


def _invert(weights: Weights, points: Weights) -> Ancestors:
    cdf = np.cumsum(weights)
    found = np.searchsorted(cdf / cdf[-1], points, side="right")
    # Rounding at the top end must not pick a particle of zero weight.
    last = int(np.flatnonzero(weights)[-1])
    return np.asarray(np.minimum(found, last), dtype=np.int64)


SCHEMES: dict[str, Scheme] = {
    "multinomial": multinomial,
    "stratified": stratified,
    "systematic": systematic,
    "residual": residual,
}
