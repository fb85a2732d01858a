"""A log in the format of Inspect (``inspect_ai``), so that its viewer opens it.

The format is the JSON form of Inspect's ``EvalLog``, version 2 (github.com/UKGovernmentBEIS/
inspect_ai, ``log/_log.py``). Inspect has one model, one solver and one sample for each instance;
so each of our methods is a log of its own, whose solver is the method, and whose samples are its
runs with their drawn answers. Particles, programs and seeds are in the samples' metadata.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...errors import EvaluationError
from ..logs.log import Row
from ..scores.answers import drawn_sample
from .series import Line, Series
from .tables import Cell, means
from .validity import score

__all__ = ["inspect_log", "write_inspect"]

_STOP = {"ended": "stop", "max_tokens": "max_tokens", "max_steps": "max_tokens"}
_UNDATED = "1970-01-01T00:00:00+00:00"


def write_inspect(series: Series, prompts: Mapping[str, str], directory: Path) -> Path:
    """Write a series as a log of Inspect's, under a name by which its viewer lists it.

    Args:
        series: the runs of a method.
        prompts: the tasks in words by instance; an instance that is missing is shown by its id.
        directory: where to write it; made where it is not there.

    Raises:
        EvaluationError: it cannot be written.
    """
    data = inspect_log(series, prompts)
    about = data["eval"]
    # The viewer lists JSON files only if their names begin with a time; underscores part fields.
    parts = (about["created"], about["task"], about["solver"], about["task_id"])
    time, task, solver, key = (re.sub(r"[^0-9A-Za-z+-]", "-", part) for part in parts)
    path = directory / f"{time}_{task}-{solver}_{key}.json"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", "utf-8")
    except OSError as error:
        raise EvaluationError(f"{path} cannot be written: {error}") from error
    return path


def inspect_log(series: Series, prompts: Mapping[str, str]) -> dict[str, Any]:
    """A series as Inspect's ``EvalLog``."""
    run = dict(series.log.run)
    # Inspect wants an offset in figures.
    created = str(run.get("started", _UNDATED)).replace("Z", "+00:00")
    # From what the series is, not at random: the same log gives the same file again.
    key = hashlib.sha256(f"{series.log.label}/{series.method}/{created}".encode()).hexdigest()[:22]
    task = series.log.suite
    scores = {
        "pass_at_1": means(series.values(lambda line: line.row.pass_at_1)),
        "coherency": means(series.values(score)),
    }
    failed = sum(line.row.error is not None for line in series.lines)
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": key,
            "run_id": key,
            "created": created,
            "task": task,
            "task_id": key,
            "task_version": 0,
            "task_args": {"n": run.get("n"), "seed": run.get("seed")},
            "solver": series.method,
            "solver_args": {"planner": series.log.planner},
            "dataset": {
                "name": task,
                "samples": len(series.lines),
                "sample_ids": [line.row.id for line in series.lines],
                "shuffled": False,
            },
            "model": series.log.follower,
            "model_args": {},
            "config": {"epochs": 1},
            "packages": run.get("versions", {}),
            "metadata": run,
        },
        "plan": {"name": "plan", "steps": [{"solver": series.method, "params": {}}], "config": {}},
        "results": {
            "total_samples": len(series.lines),
            "completed_samples": len(series.lines) - failed,
            "scores": [_result(name, cells) for name, cells in scores.items() if cells],
        },
        "stats": {"started_at": created, "completed_at": "", "model_usage": {}},
        "samples": [_sample(series, line, prompts) for line in series.lines],
    }


def _result(name: str, cells: Mapping[str, Cell]) -> dict[str, Any]:
    """A metric for each task and level, the mean over all types first."""
    order = ["all", *(name for name in cells if name != "all")]
    metrics = {
        level: {
            "name": level,
            "value": cells[level].value,
            "params": {},
            "metadata": {"low": cells[level].low, "high": cells[level].high},
        }
        for level in order
    }
    scored = len(cells["all"].lines)
    return {
        "name": name,
        "scorer": name,
        "scored_samples": scored,
        "params": {},
        "metrics": metrics,
    }


def _sample(series: Series, line: Line, prompts: Mapping[str, str]) -> dict[str, Any]:
    """A run as Inspect's ``EvalSample``."""
    row, model = line.row, series.log.follower
    prompt = prompts.get(row.id, row.id)
    drawn = drawn_sample(row)
    said = [{"role": "assistant", "content": drawn.text, "source": "generate"}] if drawn else []
    scores: dict[str, Any] = {
        "pass_at_1": {"value": row.pass_at_1, "answer": drawn.text if drawn else None}
    }
    if line.judgement is not None and line.judgement.score is not None:
        scores["coherency"] = {"value": line.judgement.score}
    sample: dict[str, Any] = {
        "id": row.id,
        "epoch": 1,
        "input": prompt,
        "choices": None,
        "target": "",  # what passes is a rule, not a text
        "messages": [{"role": "user", "content": prompt, "source": "input"}, *said],
        "output": {
            "model": model,
            "choices": [
                {"message": message, "stop_reason": _STOP.get(drawn.finish_reason, "unknown")}
                for message in said
                if drawn is not None
            ],
            "time": row.seconds,
        },
        "scores": scores,
        "metadata": _metadata(line),
        "store": {},
        "events": [],
        "model_usage": _usage(row, model, series.log.planner),
        "total_time": row.seconds,
        "attachments": {},
    }
    if row.error is not None:
        last = row.attempts[-1]["traceback"] if row.attempts else ""
        sample["error"] = _error(f"{row.error['type']}: {row.error['message']}", last)
    earlier = row.attempts[:-1]
    if earlier:
        sample["error_retries"] = [_error(a["error"] or "", a["traceback"]) for a in earlier]
    return sample


def _metadata(line: Line) -> dict[str, Any]:
    row = line.row
    samples = [asdict(sample) for sample in row.samples]
    for sample in samples:
        for name in ("log_weight", "log_prob"):
            if sample[name] is not None and abs(sample[name]) == float("inf"):
                # JSON has no infinity, and Inspect's viewer would refuse the file.
                sample[name] = str(sample[name])
    return {
        "task": row.task,
        "log": line.log,
        "line": line.number,
        "n": row.n,
        "seed": row.seed,
        "program": row.attempts[-1]["program"] if row.attempts else None,
        "samples": samples,
    }


def _usage(row: Row, follower: str, planner: str) -> dict[str, Any]:
    """Tokens by model, in Inspect's classes."""
    used = row.usage
    drawn = used.get("follower_tokens", 0)
    found = {follower: {"input_tokens": 0, "output_tokens": drawn, "total_tokens": drawn}}
    counts = [used.get(f"planner_{name}", 0) for name in ("input", "cached", "output")]
    if any(counts):
        found[planner] = {
            "input_tokens": counts[0],
            "input_tokens_cache_read": counts[1],
            "output_tokens": counts[2],
            "total_tokens": sum(counts),
        }
    return found if used else {}


def _error(message: str, traceback: str) -> dict[str, str]:
    return {"message": message, "traceback": traceback, "traceback_ansi": traceback}
