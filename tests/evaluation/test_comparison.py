"""Methods side by side, by hand, and equal tokens for each."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from disciple_ext.errors import UsageError
from disciple_ext.evaluation.logs.log import Row, Sample
from disciple_ext.evaluation.methods.budget import EqualTokens, tokens
from disciple_ext.evaluation.run import evaluate
from disciple_ext.evaluation.scores.comparison import compare, comparison_table
from disciple_ext.testing import ToyFollower


def row(name: str, method: str, n: int, used: int, task: str = "sent_01") -> Row:
    return Row(name, task, method, n, 0, 1.0, usage={"follower_tokens": used})


def sample(log_weight: float | None, log_prob: float, length: int) -> Sample:
    return Sample("x", log_weight, True, True, "ended", length, log_prob)


def test_samples_are_what_takes_the_tokens_of_the_first_method() -> None:
    budget = EqualTokens("smc")
    budget.add(row("a", "smc", 32, 960))  # 30 tokens a sample
    assert budget.knows("sent_01", "smc") and not budget.knows("sent_01", "is")
    assert budget.samples("sent_01", "is", 32) == 32, "nothing is known yet"
    budget.pilot(row("a", "is", 32, 480))  # 15 tokens a sample: twice as many fit
    assert budget.samples("sent_01", "is", 32) == 64
    budget.add(row("a", "is", 64, 640))  # the pilot misled: 10 a sample
    assert budget.knows("sent_01", "is")
    assert budget.samples("sent_01", "is", 32) == 96
    assert budget.samples("para_05", "is", 8) == 8, "other types are asked for themselves"
    budget.add(row("b", "smc", 8, 80))
    budget.add(row("b", "is", 8, 160))  # now 30 tokens a sample in sum, against 40
    assert budget.samples("sent_01", "is", 30) == 40


def test_a_log_that_is_gone_on_with_gives_the_same_samples() -> None:
    rows = [row("a", "is", 64, 640), row("a", "smc", 32, 960)]  # in any order
    assert EqualTokens("smc", rows).samples("sent_01", "is", 32) == 96


def test_failed_runs_teach_nothing() -> None:
    budget = EqualTokens("smc", [row("a", "smc", 32, 960)])
    budget.add(replace(row("a", "is", 32, 0), error={"type": "X", "message": ""}, usage={}))
    assert not budget.knows("sent_01", "is")


def test_means_are_over_types_and_only_of_instances_that_all_methods_have() -> None:
    half = (sample(0.0, -4.0, 2), sample(0.0, -2.0, 2))  # -2 and -1 nats per token
    first = [
        replace(row("a", "smc", 2, 100), pass_at_1=1.0, samples=half),
        replace(row("b", "smc", 2, 300), pass_at_1=0.0, samples=half, seconds=3.0),
        replace(row("c", "smc", 2, 50, "para_05"), pass_at_1=1.0, samples=half[:1]),
        replace(row("d", "smc", 2, 9999), pass_at_1=1.0, samples=half),  # not in the other
    ]
    dead = (sample(-math.inf, -4.0, 2),)
    second = [replace(r, method="is", samples=dead, pass_at_1=0.0) for r in first[:3]]
    smc, other = compare(first + second)
    assert (smc.method, smc.instances, smc.errors) == ("smc", 3, 0)
    assert smc.pass_at_1 == pytest.approx((0.5 + 1.0) / 2)
    assert smc.nats == pytest.approx((-1.5 - 2.0) / 2)
    assert smc.tokens == pytest.approx((200 + 50) / 2)
    assert smc.seconds == pytest.approx((2.0 + 1.0) / 2)
    assert other.nats is None and other.pass_at_1 == 0.0
    assert comparison_table([smc, other]).splitlines()[2:] == [
        "| smc | 3 | 0.750 | -1.75 | 125 | 1.50 | 0 |",
        "| is | 3 | 0.000 |  | 125 | 1.50 | 0 |",
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    prompt = (
        "Please generate a sentence with exactly 12 characters. Include whitespace into your "
        "character count."
    )
    names = [f's/{i}", "corpus": "", "example": "", "prompt": "{prompt}' for i in range(2)]
    lines = [f'{{"id": "{name}", "task": "sent_01", "targets": 12}}' for name in names]
    (tmp_path / "wiki.jsonl").write_text("\n".join(lines))
    return tmp_path / "wiki.jsonl"


@pytest.mark.slow
def test_an_evaluation_with_equal_tokens(data: Path, tmp_path: Path) -> None:
    rows = evaluate(
        ["smc", "smc-steer"], out=tmp_path / "out", data=data, n=16, equal_tokens=True, limit=2
    )
    used = {r.method: sum(tokens(q) for q in rows if q.method == r.method) for r in rows}
    assert 0.6 < used["smc-steer"] / used["smc"] < 1.5
    assert {r.n for r in rows if r.method == "smc"} == {16}
    assert all(r.n < 16 for r in rows if r.method == "smc-steer"), "it steps three of each"


def test_equal_tokens_and_concurrency_exclude_one_another(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="concurrency"):
        evaluate(
            ["smc"],
            out=tmp_path / "out",
            data=data,
            follower=ToyFollower(["a", "b"]),
            equal_tokens=True,
            concurrency=2,
        )
