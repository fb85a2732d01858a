"""Pass@k, and Pass@1 at smaller budgets than the one that was run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...errors import EvaluationError, UsageError
from ..logs.log import Row
from .metrics import pass_at_1

__all__ = ["INDEPENDENT", "pass_at_budget", "pass_at_k", "subsampled"]

INDEPENDENT = frozenset({"follower", "is", "rs", "planner", "cot", "reasoning"})
"""Methods whose samples know nothing of one another, so that some of them are a smaller run."""

_SUBSETS = 1000


def pass_at_k(log_weights: Sequence[float | None], passed: Sequence[bool], k: int) -> float:
    """Probability that one of ``k`` samples passes.

    Without weights it is the unbiased estimate from ``n`` samples of which ``c`` pass,
    ``1 - C(n - c, k) / C(n, k)`` (Chen et al. 2021): ``k`` of them, none twice. With weights the
    ``k`` are drawn in proportion to them, and may repeat: ``1 - (1 - p) ** k``, where ``p`` is the
    weighted Pass@1. (Drawn without replacement, samples of no weight to speak of would count as
    answers as soon as ``k`` comes near ``n``.)

    Args:
        log_weights: as for :func:`disciple_ext.evaluation.scores.metrics.sample_weights`.
        passed: verdict of the ground truth on each sample.
        k: at least 1; without weights no more than there are samples.

    Raises:
        UsageError: ``k`` is out of range.
    """
    n = len(passed)
    weighted = any(value is not None for value in log_weights)
    if k < 1 or (n and k > n and not weighted):
        raise UsageError(f"Pass@{k} cannot be estimated from {n} samples; choose k from 1 to {n}")
    if weighted or not n:
        return 1.0 - (1.0 - pass_at_1(log_weights, passed)) ** k
    failing = n - sum(passed)
    return 1.0 - math.comb(failing, k) / math.comb(n, k)


def subsampled(
    log_weights: Sequence[float | None], passed: Sequence[bool], n: int, *, seed: int = 0
) -> float:
    """Expected weighted Pass@1 of ``n`` of the samples, drawn without replacement.

    Exact without weights, where it is Pass@1 itself, and where there are no more than 1000
    subsets; otherwise the mean over 1000 subsets drawn with ``seed``.

    Args:
        log_weights: as for :func:`~disciple_ext.evaluation.scores.metrics.sample_weights`,
            of samples that were drawn independently.
        passed: verdict of the ground truth on each sample.
        n: samples of a subset; all of them where it is no less than there are.
        seed: seed of the subsets.
    """
    size = len(passed)
    # Without weights, the mean over all subsets is the mean over all samples: nothing to draw.
    if n >= size or all(value is None for value in log_weights):
        return pass_at_1(log_weights, passed)
    if math.comb(size, n) <= _SUBSETS:
        chosen = np.array(list(combinations(range(size), n)))
    else:
        # The n smallest of random numbers are a subset without replacement, all rows at once.
        order = np.random.default_rng(seed).random((_SUBSETS, size))
        chosen = np.argpartition(order, n - 1, axis=1)[:, :n]
    logs = np.array([-np.inf if value is None else value for value in log_weights])
    return float(_pass_at_1(logs[chosen], np.array(passed)[chosen]).mean())


def _pass_at_1(logs: NDArray[np.float64], passed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Weighted Pass@1 of each row of two arrays of shape (subsets, n)."""
    top = logs.max(axis=1, keepdims=True)
    alive = top[:, 0] > -np.inf
    # The largest is taken off, or exp would underflow; where all are dead, -inf - -inf is no
    # number.
    weights = np.exp(logs - np.where(alive[:, None], top, 0.0))
    total = weights.sum(axis=1)
    passing = (weights * passed).sum(axis=1)
    result: NDArray[np.float64] = np.zeros(len(logs))
    np.divide(passing, total, out=result, where=alive)
    return result


def pass_at_budget(row: Row, n: int) -> float:
    """Pass@1 that the row's method would have had with ``n`` samples.

    Raises:
        EvaluationError: the row's samples are of another number, and cannot be subsampled: there
            are fewer of them, or the method resamples, so that its particles are not independent
            and some of them are not a smaller run.
    """
    if n == row.n:
        return row.pass_at_1
    if row.method not in INDEPENDENT:
        raise EvaluationError(
            f"{row.id}: {row.method} ran with n = {row.n}, and a part of its particles is not a "
            f"run with n = {n}; run it with `disciple eval ... -n {n}` into a directory of its own"
        )
    if n > row.n:
        raise EvaluationError(f"{row.id}: {row.method} ran with n = {row.n}, less than {n}")
    return subsampled(
        [s.log_weight for s in row.samples], [s.passed for s in row.samples], n, seed=row.seed
    )
