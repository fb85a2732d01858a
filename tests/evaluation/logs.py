"""A small log with something of everything, for the report's tests."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from disciple_ext.evaluation.logs.log import LogWriter, Row, Sample, write_run
from disciple_ext.evaluation.scores.metrics import pass_at_1

TASKS = ("sent_01", "sent_04", "para_03", "square_poem")
METHODS = ("smc", "is", "follower")
EVIL = '<script>alert("$x$")</script> | `a` \u202e'
ERROR = {"type": "NoParticleAlive", "message": "no particle alive after 3 steps"}


def write_log(
    directory: Path, *, n: int = 4, follower: str = "hf:meta-llama/Llama-3.2-1B-Instruct"
) -> Path:
    """Three instances of four types under three methods: retries, an error, prices, verdicts."""
    rng = random.Random(n)
    log = LogWriter(directory)
    verdicts = []
    for task in TASKS:
        for number in range(3):
            for method in METHODS:
                row = _row(rng, f"{task}/{number}", task, method, n)
                log.append(row)
                kind = "refusal" if number == 2 else "ok"
                score = None if number == 2 else rng.randint(1, 10)
                verdict = {"id": row.id, "method": method, "score": score, "kind": kind}
                verdicts.append(json.dumps(verdict) + "\n")
    log.append(_row(rng, "sent_01/0", "sent_01", "is", n))  # run twice: the last counts
    log.close()
    (directory / "judgements.jsonl").write_text("".join(verdicts))
    about = {
        "started": "2026-01-02T03:04:05Z",
        "planner": "openai:gpt-4o-2024-08-06",
        "follower": follower,
        "n": n,
        "seed": 0,
        "versions": {"disciple-ext": "1.2.3"},
    }
    write_run(directory, about)
    return directory


def _row(rng: random.Random, name: str, task: str, method: str, n: int) -> Row:
    alone = method == "follower"
    failed = method == "smc" and name == "sent_04/2"
    samples = () if failed else tuple(_sample(rng, alone) for _ in range(n))
    attempts = [] if alone else [_attempt("ok")]
    if method == "smc" and name.endswith("/1"):
        attempts.insert(0, _attempt("ProgramCrashed", f"line {rng.randint(1, 9)}: no 'x{name}'"))
    if failed:
        attempts = [_attempt("ProgramCrashed", "line 1: no 'y'")]
        attempts += [_attempt(ERROR["type"], ERROR["message"])]
    usage = {"follower_tokens": sum(s.tokens for s in samples) + 5, "forwards": 3}
    usage |= {} if alone else {"planner_output": rng.randint(300, 500), "planner_input": 900}
    return Row(
        id=name,
        task=task,
        method=method,
        n=n,
        seed=rng.randint(0, 99),
        seconds=rng.randint(1, 50) / 10,
        samples=samples,
        pass_at_1=pass_at_1([s.log_weight for s in samples], [s.passed for s in samples]),
        attempts=tuple(attempts),
        error=ERROR if failed else None,
        usage={} if failed else usage,
        cost=None if failed else 0.001 * rng.randint(1, 50),
    )


def _sample(rng: random.Random, alone: bool) -> Sample:
    dead = rng.random() < 0.2
    weight = -math.inf if dead else rng.gauss(0, 1)
    return Sample(
        text=EVIL,
        log_weight=None if alone else weight,
        check=None if alone or dead else rng.random() < 0.7,
        passed=rng.random() < 0.6,
        finish_reason="max_tokens" if dead else "ended",
        tokens=rng.randint(3, 20),
        log_prob=-rng.uniform(5, 50),
    )


def _attempt(outcome: str, error: str | None = None) -> dict[str, Any]:
    return {"program": EVIL, "outcome": outcome, "error": error, "traceback": "", "seconds": 0.1}
