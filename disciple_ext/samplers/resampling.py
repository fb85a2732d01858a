"""Resampling: ancestors drawn in proportion to weights.

Every scheme here is unbiased: particle i has n * w_i offspring in expectation. Particles of
zero weight are never drawn. See Douc, Cappe and Moulines (2005), arXiv cs/0507025.
:func:`fearnhead_clifford` draws without replacement, and so gives new weights too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "SCHEMES",
    "fearnhead_clifford",
    "inclusion",
    "multinomial",
    "residual",
    "stratified",
    "systematic",
]

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


def inclusion(log_weights: ArrayLike, n: int) -> tuple[float, Weights]:
    """The threshold c with sum_i min(1, w_i / c) = n, and those inclusion probabilities.

    Fearnhead and Clifford (2003), "On-line inference for hidden Markov models via particle
    filters", J. R. Stat. Soc. B 65(4), section 3: of all unbiased choices of n among the
    particles, this one changes the weights least in mean square.

    Args:
        log_weights: natural logs of weights; they need not be normalised.
        n: how many to keep, at least 1.

    Returns:
        Natural log of c (-inf where no more than n weights are positive), and the probability of
        keeping each particle, in linear space.

    Raises:
        ValueError: a weight is NaN or infinite, or n is below 1.
    """
    w = np.asarray(log_weights, dtype=np.float64)
    if np.isnan(w).any() or (w == np.inf).any():
        raise ValueError(f"log weights must be below infinity and not NaN: {w}")
    if n < 1:
        raise ValueError(f"at least one particle must be kept, not {n}")
    alive = np.sort(w[w > -np.inf])[::-1]
    if len(alive) <= n:
        return -math.inf, (w > -np.inf).astype(np.float64)
    # With the k largest kept as they are, c is what is left over n - k places. In log space
    # throughout: the small weights may be nothing beside the largest, and still share places.
    left = np.logaddexp.accumulate(alive[::-1])[::-1][:n]
    log_c = left - np.log(n - np.arange(n))
    k = int(np.argmax(alive[:n] <= log_c))
    return float(log_c[k]), np.exp(np.minimum(w - log_c[k], 0.0))


def fearnhead_clifford(
    rng: np.random.Generator, log_weights: ArrayLike, n: int
) -> tuple[Ancestors, Weights]:
    """Keep n particles, none of them twice: optimal resampling without replacement.

    Weights above the threshold c of :func:`inclusion` stay as they are. Of the others, one
    uniform picks the rest of the places (the stratified algorithm of Fearnhead and Clifford 2003,
    appendix), each with probability w / c, and they get weight c. So for every particle, the
    expectation of its new weight (zero where it goes) is its old one, and the sum of the weights
    does not change.

    Args:
        rng: source of the one uniform.
        log_weights: natural logs of weights; they need not be normalised.
        n: how many to keep, at least 1.

    Returns:
        Indices of the survivors in ascending order, and their new log weights: exactly n, or
        all of positive weight where there are no more than n. Zero weights never survive.

    Raises:
        ValueError: a weight is NaN or infinite, or n is below 1.
    """
    w = np.asarray(log_weights, dtype=np.float64)
    log_c, shares = inclusion(w, n)
    if log_c == -math.inf:
        kept = np.flatnonzero(shares)
        return kept, w[kept]
    certain = w > log_c
    rest = np.flatnonzero(~certain & (w > -np.inf))
    places = n - int(certain.sum())
    cdf = np.cumsum(shares[rest])
    j = np.arange(places)
    found = np.searchsorted(cdf * (places / cdf[-1]), rng.random() + j, side="right")
    # No share exceeds 1, so no two points meet in one; rounding must not make them.
    found = np.minimum(np.maximum.accumulate(found - j) + j, len(rest) - places + j)
    kept = np.sort(np.concatenate([np.flatnonzero(certain), rest[found]]))
    return kept, np.maximum(w[kept], log_c)


def _invert(weights: Weights, points: Weights) -> Ancestors:
    cdf = np.cumsum(weights)
    # `right`: a point of exactly 0 must not fall to a first particle of zero weight.
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
