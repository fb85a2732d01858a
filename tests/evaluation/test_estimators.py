"""Pass@k and smaller budgets, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from disciple_ext.errors import EvaluationError, UsageError
from disciple_ext.evaluation.logs.log import Row, Sample
from disciple_ext.evaluation.scores.estimators import pass_at_budget, pass_at_k, subsampled

LOG2, LOG3 = math.log(2.0), math.log(3.0)


def test_pass_at_k_without_weights_is_unbiased() -> None:
    # Of the six pairs of four samples, three hold the one that passes.
    passed = [True, False, False, False]
    assert pass_at_k([None] * 4, passed, 1) == pytest.approx(1 / 4)
    assert pass_at_k([None] * 4, passed, 2) == pytest.approx(1 / 2)
    assert pass_at_k([None] * 4, passed, 4) == 1.0
    assert pass_at_k([None] * 3, [False] * 3, 3) == 0.0


def test_pass_at_k_with_weights_draws_in_proportion() -> None:
    # 3 of 4 parts of the weight pass: 1 - (1/4)^k.
    assert pass_at_k([0.0, LOG3], [False, True], 1) == pytest.approx(3 / 4)
    assert pass_at_k([0.0, LOG3], [False, True], 2) == pytest.approx(15 / 16)
    assert pass_at_k([-math.inf, -math.inf], [True, True], 8) == 0.0
    assert pass_at_k([], [], 4) == 0.0, "a run that failed"


def test_pass_at_k_refuses_more_than_there_are() -> None:
    with pytest.raises(UsageError, match="choose k from 1 to 2"):
        pass_at_k([None, None], [True, False], 3)
    with pytest.raises(UsageError):
        pass_at_k([0.0], [True], 0)


def test_subsampling_is_exact_where_subsets_are_few() -> None:
    # Weights 1, 2, 3; the first and third pass. Pairs: 1/3, 4/4, 3/5.
    logs, passed = [0.0, LOG2, LOG3], [True, False, True]
    assert subsampled(logs, passed, 2) == pytest.approx((1 / 3 + 1 + 3 / 5) / 3)
    assert subsampled(logs, passed, 1) == pytest.approx(2 / 3)
    assert subsampled(logs, passed, 3) == pytest.approx(4 / 6)
    assert subsampled(logs, passed, 9) == pytest.approx(4 / 6)
    # A dead sample alone is no answer, far-out weights do not vanish.
    assert subsampled([-math.inf, -900.0], [True, True], 1) == pytest.approx(1 / 2)
    assert subsampled([0.0, -2000.0], [False, True], 1) == pytest.approx(1 / 2)
    assert subsampled([None] * 4, [True, False, False, False], 2) == 1 / 4


def test_subsampling_is_a_seeded_average_where_they_are_many() -> None:
    # Equal weights: the expectation is the share that passes, whatever the number.
    logs, passed = [0.0] * 20, [i < 6 for i in range(20)]
    value = subsampled(logs, passed, 10)
    assert value == subsampled(logs, passed, 10)
    assert value == pytest.approx(0.3, abs=0.01)
    assert value != subsampled(logs, passed, 10, seed=1)


def row(method: str, n: int) -> Row:
    samples = tuple(
        Sample("x", weight, None, good, "ended", 1, None)
        for weight, good in ((0.0, True), (LOG2, False), (LOG3, True))
    )
    return Row("a", "sent_01", method, n, 0, 1.0, samples, pass_at_1=4 / 6)


def test_a_smaller_budget_is_refused_to_a_method_that_resamples() -> None:
    assert pass_at_budget(row("is", 3), 2) == pytest.approx((1 / 3 + 1 + 3 / 5) / 3)
    assert pass_at_budget(row("smc", 3), 3) == 4 / 6
    with pytest.raises(EvaluationError, match=r"not a run with n = 2; run it with .* -n 2"):
        pass_at_budget(row("smc", 3), 2)
    with pytest.raises(EvaluationError, match="less than 8"):
        pass_at_budget(row("is", 3), 8)
    failed = replace(row("is", 3), samples=(), pass_at_1=0.0, error={"type": "X", "message": ""})
    assert pass_at_budget(failed, 2) == 0.0
