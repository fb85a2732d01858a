"""Weighted Pass@1 and its means, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from disciple_ext.evaluation.logs.log import Row
from disciple_ext.evaluation.scores.metrics import (
    mean_by_task,
    pass_at_1,
    sample_weights,
    summarise,
)

LOG3 = math.log(3.0)


@pytest.mark.parametrize(
    ("log_weights", "passed", "expected"),
    [
        # Weights 1, 3, 4: the second and third pass, 7 of 8.
        ([0.0, LOG3, math.log(4.0)], [False, True, True], 7 / 8),
        # The scale does not matter, however far out it is.
        ([-2000.0, -2000.0 + LOG3], [True, False], 1 / 4),
        ([900.0, 900.0 + LOG3], [True, False], 1 / 4),
        # Without weights all count alike.
        ([None, None, None, None], [True, False, False, False], 1 / 4),
        # Dead samples have weight zero, whatever the verdict on them.
        ([-math.inf, 0.0], [True, False], 0.0),
        ([-math.inf, 0.0], [False, True], 1.0),
        # An undefined weight among defined ones is zero.
        ([None, 0.0], [True, False], 0.0),
        # Nothing was answered.
        ([-math.inf, -math.inf], [True, True], 0.0),
        ([], [], 0.0),
    ],
)
def test_pass_at_1(log_weights: list[float | None], passed: list[bool], expected: float) -> None:
    assert pass_at_1(log_weights, passed) == pytest.approx(expected)


def test_pass_at_1_is_one_when_all_pass() -> None:
    assert pass_at_1([0.1 * i for i in range(10)], [True] * 10) == 1.0


def test_weights_sum_to_one_or_are_zero() -> None:
    assert sample_weights([0.0, LOG3]) == pytest.approx([1 / 4, 3 / 4])
    assert sample_weights([-math.inf, -math.inf]) == [0.0, 0.0]


def test_the_mean_is_over_types_of_the_mean_over_instances() -> None:
    means = mean_by_task(
        [("para_02", 0.5), ("sent_01", 1.0), ("sent_01", 0.0), ("sent_01", 0.5), ("sent_04", 1.0)]
    )
    assert means == {
        "sent_01": 0.5,
        "sent_04": 1.0,
        "para_02": 0.5,
        "sentences": 0.75,
        "paragraphs": 0.5,
        "all": pytest.approx(2 / 3),
    }
    assert list(means)[:3] == ["sent_01", "sent_04", "para_02"]
    assert mean_by_task([]) == {}


def row(name: str, task: str, method: str, value: float) -> Row:
    return Row(id=name, task=task, method=method, n=2, seed=0, seconds=1.0, pass_at_1=value)


def test_the_table_has_tasks_down_and_methods_across() -> None:
    failed = replace(row("b", "sent_01", "smc", 0.0), error={"type": "X", "message": "no"})
    summary = summarise(
        [
            row("a", "sent_01", "smc", 0.0),  # logged again below: the last row counts
            row("a", "sent_01", "smc", 1.0),
            failed,
            row("c", "para_05", "smc", 1.0),
            row("a", "sent_01", "follower", 0.25),
        ]
    )
    assert summary.table() == (
        "| task | instances | smc | follower |\n"
        "| --- | --: | --: | --: |\n"
        "| sent_01 | 2 | 0.500 | 0.250 |\n"
        "| para_05 | 1 | 1.000 |  |\n"
        "| sentences |  | 0.500 | 0.250 |\n"
        "| paragraphs |  | 1.000 |  |\n"
        "| all |  | 0.750 | 0.250 |\n"
        "| errors |  | 1 | 0 |"
    )
    assert summary.to_dict()["errors"] == {"smc": 1, "follower": 0}
