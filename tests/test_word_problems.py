"""The example of a step scorer: its problems, its scorer, and what it is good for."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from disciple_ext.sandbox.check.check import check

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "word_problems.py"))


def test_the_problems_have_their_answers_and_the_program_reads_them(
    example: dict[str, Any],
) -> None:
    assert check(example["PROGRAM"]) == []
    names: dict[str, Any] = {"re": re, "BaseModel": object}
    exec(example["PROGRAM"], names)
    for seed in range(50):
        task, answer = example["problem"](seed)
        read = names["arguments"](task)
        total = int(read["first"])
        for sign, number in read["moves"]:
            total += int(number) if sign == "+" else -int(number)
        assert total == answer, task
    assert names["arguments"]("Write a poem.") is None


def test_the_scorer_finds_wrong_arithmetic(example: dict[str, Any]) -> None:
    right, steps = example["right"], example["steps"]
    assert [right(line) for line in ("7 + 5 = 12", "12 - 3 = 8", "Answer: 9")] == [0, -1, 0]
    text = {"text": "7 + 5 = 12\n12 - 3 = 8\n8 + 8 = 17", "ended": False}
    assert steps.batch([text]) == pytest.approx([-10.0])
    assert steps.batch([{**text, "ended": True}]) == pytest.approx([-20.0])


@pytest.mark.slow
def test_the_step_scorer_solves_what_the_follower_alone_does_not(example: dict[str, Any]) -> None:
    solved, Score = example["solved"], example["Score"]
    alone = solved({"steps": Score(lambda text: 0.0)})
    assert solved({"steps": example["steps"]}) > alone + 0.3
