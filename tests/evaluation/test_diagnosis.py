"""Confusion, errors by retry, messages, tokens and verdicts, by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from disciple_ext.errors import EvaluationError
from disciple_ext.evaluation.logs.judgements import read_judgements
from disciple_ext.evaluation.logs.log import LogWriter, Row, Sample
from disciple_ext.evaluation.report.build import build
from disciple_ext.evaluation.scores.diagnosis import (
    confusion,
    messages,
    outcomes,
    weighted_confusion,
)
from disciple_ext.evaluation.scores.metrics import nats_per_token
from disciple_ext.evaluation.scores.spending import spent


def sample(log_weight: float | None, check: bool | None, passed: bool, tokens: int = 4) -> Sample:
    return Sample("x", log_weight, check, passed, "ended", tokens, -2.0 * tokens)


def row(*samples: Sample, **about: Any) -> Row:
    return Row("a", "sent_01", "smc", len(samples), 0, 1.0, samples, **about)


def attempt(outcome: str, error: str | None = None) -> dict[str, Any]:
    return {"program": "", "outcome": outcome, "error": error, "traceback": "", "seconds": 0.0}


# Weights 1, 3, 4 and a dead sample.
MIXED = row(
    sample(0.0, True, True),
    sample(math.log(3.0), True, False),
    sample(math.log(4.0), None, False),
    sample(-math.inf, False, True),
)


def test_confusion_in_counts_and_by_weight() -> None:
    counts = {key: value for key, value in confusion(MIXED).items() if value}
    assert counts == {
        ("passes", "valid"): 1,
        ("passes", "invalid"): 1,
        ("silent", "invalid"): 1,
        ("fails", "valid"): 1,
    }
    shares = weighted_confusion(MIXED)
    assert shares["passes", "valid"] == pytest.approx(1 / 8)
    assert shares["passes", "invalid"] == pytest.approx(3 / 8)
    assert shares["silent", "invalid"] == pytest.approx(4 / 8)
    assert shares["fails", "valid"] == 0.0, "it is dead"
    assert not any(weighted_confusion(row(sample(-math.inf, True, True))).values())


def test_outcomes_of_each_attempt() -> None:
    good = row(pass_at_1=0.75, attempts=(attempt("ProgramCrashed", "no"), attempt("ok")))
    assert outcomes(good) == ({"ProgramCrashed": 1.0}, {"valid": 0.75, "invalid": 0.25})
    error = {"type": "NoParticleAlive", "message": "none"}
    failed = row(error=error, attempts=(attempt("ProgramRejected"), attempt("NoParticleAlive")))
    assert outcomes(failed) == ({"ProgramRejected": 1.0}, {"NoParticleAlive": 1.0})
    assert outcomes(row(error={"type": "PlannerError", "message": ""})) == ({"PlannerError": 1.0},)
    assert outcomes(row(pass_at_1=1.0)) == ({"valid": 1.0, "invalid": 0.0},), "no planner"


def test_messages_of_one_kind_are_one() -> None:
    error = {"type": "NoParticleAlive", "message": "said once"}
    failed = row(
        error=error,
        attempts=(
            attempt("ProgramCrashed", "line 12: no 'it\\'s 3' at 0x7f2a\nmore"),
            attempt("ProgramCrashed", 'line 3: no "4" at 17.5'),
            attempt("ok"),
        ),
    )
    assert messages(failed) == ["line N: no '…' at N", "line N: no '…' at N", "said once"]
    both = replace(failed, attempts=(attempt("NoParticleAlive", "said once"),))
    assert messages(both) == ["said once"], "not counted twice"
    assert messages(row(attempts=(attempt("ok"),))) == []


def test_intermediate_tokens_are_those_outside_the_answer() -> None:
    usage = {"follower_tokens": 50, "planner_output": 400, "planner_input": 7, "planner_cached": 9}
    found = spent(row(sample(0.0, True, True, 12), usage=usage, cost=0.25))
    assert found is not None
    assert (found.answer, found.follower, found.intermediate) == (12, 50, 50 - 12 + 400)
    assert (found.planner_input, found.planner_cached, found.dollars) == (7, 9, 0.25)
    assert spent(row()) is None
    nothing = spent(row(sample(-math.inf, True, True, 12), usage={"follower_tokens": 30}))
    assert nothing is not None and (nothing.answer, nothing.intermediate) == (0, 30)


def test_a_failed_run_spent_what_its_attempts_did() -> None:
    error = {"type": "ProgramCrashed", "message": "no"}
    tries = [
        attempt("ProgramCrashed", "no") | {"usage": u, "cost": c}
        for u, c in (
            ({"planner_output": 300, "follower_tokens": 20}, 0.5),
            ({"planner_output": 100}, 0.25),
        )
    ]
    found = spent(row(error=error, attempts=tuple(tries)))
    assert found is not None
    assert (found.planner_output, found.follower, found.intermediate) == (400, 20, 420)
    assert found.dollars == 0.75
    unknown = spent(row(error=error, attempts=(*tries, attempt("PlannerError"))))
    assert unknown is not None and unknown.dollars is None, "one of its prices is unknown"
    assert spent(row(error=error, attempts=(attempt("PlannerError"),))) is None


def test_nats_per_token_by_weight() -> None:
    texts = (Sample("x", 0.0, None, True, "ended", 4, -8.0),)
    texts += (Sample("y", math.log(3.0), None, True, "ended", 2, -2.0),)
    assert nats_per_token(row(*texts)) == pytest.approx((-2.0 + 3 * -1.0) / 4)
    assert nats_per_token(row(sample(-math.inf, None, True))) is None


def test_the_last_verdict_counts(tmp_path: Path) -> None:
    lines = [("smc", 3, "ok"), ("smc", 7.5, "ok"), ("is", None, "refusal")]
    text = "".join(
        json.dumps({"id": "a", "method": m, "score": s, "kind": k, "later": 1}) + "\n"
        for m, s, k in lines
    )
    (tmp_path / "judgements.jsonl").write_text(text + '{"id": "torn')
    found = read_judgements(tmp_path)
    assert found["a", "smc"].score == 7.5
    assert (found["a", "is"].score, found["a", "is"].kind) == (None, "refusal")
    assert read_judgements(tmp_path / "none") == {}


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "a", "method": "smc", "score": 11, "kind": "ok"}',
        '{"id": "a", "method": "smc", "score": null, "kind": "ok"}',
        '{"id": "a", "method": "smc", "score": 1, "kind": "good"}',
        '{"id": "a"}',
        "[]",
    ],
)
def test_a_line_that_is_no_verdict_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "judgements.jsonl").write_text(line + "\n")
    with pytest.raises(EvaluationError, match=r"judgements.jsonl:1 is no verdict"):
        read_judgements(tmp_path)


def test_coherency_is_the_mean_of_the_scores_and_counts_what_has_none(tmp_path: Path) -> None:
    verdicts = {"a/0": (4, "ok"), "a/1": (6, "ok"), "a/2": (None, "refusal"), "b/0": (8, "ok")}
    verdicts["b/1"] = (None, "unparsable")
    log = LogWriter(tmp_path)
    for name in verdicts:
        log.append(Row(name, name[0], "smc", 1, 0, 1.0))
    log.close()
    (tmp_path / "judgements.jsonl").write_text(
        "".join(
            json.dumps({"id": name, "method": "smc", "score": score, "kind": kind}) + "\n"
            for name, (score, kind) in verdicts.items()
        )
    )
    table = build([tmp_path]).table("coherency")
    assert table is not None
    # (4 + 6) / 2 = 5 and 8, and the mean over the two types is 6.5.
    assert [(name, cell.value) for name, cell in table.column("smc")] == [
        ("a", 5.0),
        ("b", 8.0),
        ("all", 6.5),
    ]
    assert "Of 5 verdicts 1 were refusals and 1 could not be read" in table.what
