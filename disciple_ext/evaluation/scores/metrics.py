"""Weighted Pass@1 (the paper's appendix C) and its means by task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..logs.log import Row
from ..suites.collie import TASKS, WORD_TASKS
from ..suites.puzzles import PUZZLES

__all__ = [
    *("ORDER", "Summary", "levels", "markdown", "mean_by_task", "nats_per_token", "pass_at_1"),
    *("sample_weights", "summarise"),
]

ORDER = (*TASKS, *WORD_TASKS, "pass_01", *PUZZLES)
"""The task types: the paper's in its order, with COLLIE's other ones before the puzzles."""

LEVELS = {
    "sentences": tuple(task for task in TASKS if task.startswith("sent_")),
    "paragraphs": tuple(task for task in TASKS if task.startswith("para_")),
    "words": WORD_TASKS,
    "puzzles": tuple(PUZZLES),
}


def sample_weights(log_weights: Sequence[float | None]) -> list[float]:
    """Weights that sum to 1, or are all zero where no sample has any.

    Args:
        log_weights: natural logs; ``-inf`` for a dead sample. None for every sample means a
            method without weights: all count alike. A single None counts as a weight of zero
            (the paper's "undefined").
    """
    if not log_weights:
        return []
    if all(value is None for value in log_weights):
        return [1.0 / len(log_weights)] * len(log_weights)
    logs = [-math.inf if value is None else value for value in log_weights]
    top = max(logs)
    if top == -math.inf:
        return [0.0] * len(logs)
    # With the largest taken off: log weights of long texts are far below what exp can give.
    scaled = [math.exp(value - top) for value in logs]
    total = math.fsum(scaled)
    return [value / total for value in scaled]


def pass_at_1(log_weights: Sequence[float | None], passed: Sequence[bool]) -> float:
    """Probability that one sample, drawn in proportion to the weights, passes (appendix C).

    It is 0 where there is no sample, or where every weight is zero: nothing was answered.

    Args:
        log_weights: as for :func:`sample_weights`.
        passed: verdict of the ground truth on each sample.
    """
    weights = sample_weights(log_weights)
    judged = list(zip(weights, passed, strict=True))
    passing = math.fsum(weight for weight, good in judged if good)
    failing = math.fsum(weight for weight, good in judged if not good)
    # Not the sum of weights, which rounding can keep from 1.
    return passing / (passing + failing) if passing else 0.0  # exactly 1 where all pass


def mean_by_task(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Mean over instances for each task, then the mean over tasks for each level.

    Args:
        values: (task, value of one instance) pairs.

    Returns:
        Means by task in the paper's order; then ``sentences``, ``paragraphs`` and ``puzzles``, as
        far as there are tasks of that level, and ``all``, the mean over all the tasks.
    """
    found: dict[str, list[float]] = {}
    for task, value in values:
        found.setdefault(task, []).append(value)
    order = _in_order(found)
    means = {task: math.fsum(found[task]) / len(found[task]) for task in order}
    above = {}
    for name in (*LEVELS, "all"):
        if inside := levels(name, order):
            above[name] = math.fsum(means[task] for task in inside) / len(inside)
    return means | above


def levels(name: str, tasks: Iterable[str]) -> list[str]:
    """Those of ``tasks`` over which the mean with this name goes: a task's own, a level's, all."""
    wanted = LEVELS.get(name, (name,))
    return [task for task in _in_order(tasks) if name == "all" or task in wanted]


def nats_per_token(row: Row) -> float | None:
    """Mean over samples, by weight, of nats per token; None where nothing was answered.

    It is each sample's ``log_prob`` (under the follower's prior prompt, end of text left out) by
    its ``tokens``, forced ones included.
    """
    shares = sample_weights([s.log_weight for s in row.samples])
    known = [
        (share, s.log_prob / s.tokens)
        for share, s in zip(shares, row.samples, strict=True)
        if share > 0 and s.log_prob is not None and s.tokens
    ]
    total = math.fsum(share for share, _ in known)
    return math.fsum(share * value for share, value in known) / total if total else None


@dataclass(frozen=True)
class Summary:
    """Pass@1 of each method by task.

    Attributes:
        scores: for each method, :func:`mean_by_task` of its Pass@1.
        instances: instances logged, by method and task.
        errors: runs that ended in an error, by method.
        seconds: mean wall-clock seconds of a run, by method and task.
    """

    scores: dict[str, dict[str, float]]
    instances: dict[str, dict[str, int]]
    errors: dict[str, int]
    seconds: dict[str, dict[str, float]]

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON-safe data."""
        return {
            "pass_at_1": self.scores,
            "instances": self.instances,
            "errors": self.errors,
            "seconds": self.seconds,
        }

    def table(self) -> str:
        """A markdown table: tasks down, methods across; the last rows are means over tasks."""
        methods = list(self.scores)
        tasks = _ordered(self.scores)
        body = []
        for task in tasks:
            count = max((self.instances[m].get(task, 0) for m in methods), default=0)
            cells = [_cell(self.scores[m].get(task)) for m in methods]
            body.append([task, str(count) if count else "", *cells])
        body.append(["errors", "", *(str(self.errors[m]) for m in methods)])
        return markdown(["task", "instances", *methods], body)


def summarise(rows: Iterable[Row]) -> Summary:
    """Summarise a log; of rows with one instance and method the last counts."""
    last = {(row.method, row.id): row for row in rows}
    methods: dict[str, list[Row]] = {}
    for (method, _), row in last.items():
        methods.setdefault(method, []).append(row)
    return Summary(
        scores={m: mean_by_task((r.task, r.pass_at_1) for r in rs) for m, rs in methods.items()},
        instances={m: _by_task(rs, lambda r: 1, sum) for m, rs in methods.items()},
        errors={m: sum(r.error is not None for r in rs) for m, rs in methods.items()},
        seconds={m: _by_task(rs, lambda r: r.seconds, _mean) for m, rs in methods.items()},
    )


def _by_task(
    rows: Iterable[Row], value: Callable[[Row], Any], fold: Callable[[list[Any]], Any]
) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.task, []).append(value(row))
    return {task: fold(values) for task, values in found.items()}


def _mean(values: Sequence[float]) -> float:
    return round(math.fsum(values) / len(values), 3)


def _ordered(scores: Mapping[str, Mapping[str, float]]) -> list[str]:
    seen = {task for means in scores.values() for task in means}
    tail = [name for name in (*LEVELS, "all") if name in seen]
    return _in_order(seen - set(tail)) + tail


def _in_order(tasks: Iterable[str]) -> list[str]:
    """The paper's tasks in its order, then any others."""
    found = set(tasks)
    return [task for task in ORDER if task in found] + sorted(found - set(ORDER))


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A markdown table; all columns but the first are aligned to the right."""
    rule = ["---", *("--:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [list(head), rule, *body])
