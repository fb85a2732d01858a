"""The evaluation log: one line for each instance and method, and what they were made with.

``results.jsonl`` only grows. Each line is written by one call as soon as its run ends, so that a
process that is killed leaves whole lines, at worst with one torn line at the end: readers leave
that out, and the next writer takes it away.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import EvaluationError
from .lines import LineWriter, whole_lines

__all__ = ["LogWriter", "Row", "Sample", "read_lines", "read_log", "read_run", "write_run"]

RESULTS = "results.jsonl"
RUN = "run.json"


@dataclass(frozen=True)
class Sample:
    """One text of a run, with the ground truth's verdict.

    Attributes:
        text: the text (partial where it did not end).
        log_weight: natural log of its weight, or None for a method without weights.
        check: verdict of the program's own ``check``, or None.
        passed: verdict of the ground truth.
        finish_reason: why it ended, as in :class:`disciple_ext.records.result.Particle`.
        tokens: tokens drawn or forced.
        log_prob: nats of the text under the follower's prior prompt, end of text not counted.
    """

    text: str
    log_weight: float | None
    check: bool | None
    passed: bool
    finish_reason: str
    tokens: int
    log_prob: float | None


@dataclass(frozen=True)
class Row:
    """One line of the log: a method on an instance.

    Attributes:
        id: the instance.
        task: its type.
        method: a sampler's spec, its options included, or ``follower``.
        n: samples asked for.
        seed: seed of this run (drawn from the evaluation's seed and the instance's id).
        seconds: wall-clock seconds.
        samples: every sample, dead ones included; none where the run failed.
        pass_at_1: weighted Pass@1 of the samples.
        attempts: the programs tried, as in a result.
        error: None, or ``type`` and ``message`` of the error that ended the run.
        program_hash: SHA-256 of the program that gave the samples, or None.
        usage: tokens and forward passes, as in a result.
        cost: US dollars, or None where a price is unknown.
    """

    id: str
    task: str
    method: str
    n: int
    seed: int
    seconds: float
    samples: tuple[Sample, ...] = ()
    pass_at_1: float = 0.0
    attempts: tuple[dict[str, Any], ...] = ()
    error: dict[str, str] | None = None
    program_hash: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    cost: float | None = None

    def to_json(self) -> str:
        """The row as one line of JSON; minus infinity is the string ``"-inf"``."""
        data = asdict(self)
        for sample in data["samples"]:
            for name in ("log_weight", "log_prob"):
                value = sample[name]
                if value is not None and not math.isfinite(value):
                    sample[name] = str(value)
        return json.dumps(data, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> Row:
        """Read back what :meth:`to_json` wrote; fields of later versions are ignored.

        Raises:
            ValueError: it is no row.
        """
        data = json.loads(line)
        try:
            # [] and not get(): a line without a field is no row, and must not count as an empty
            # one.
            row = {name: data[name] for name in cls.__dataclass_fields__}
            row["samples"] = tuple(_sample(sample) for sample in row["samples"])
            row["attempts"] = tuple(row["attempts"])
            return cls(**row)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def _sample(data: Mapping[str, Any]) -> Sample:
    sample = {name: data[name] for name in Sample.__dataclass_fields__}
    for name in ("log_weight", "log_prob"):
        sample[name] = None if sample[name] is None else float(sample[name])
    return Sample(**sample)


class LogWriter(LineWriter):
    """Appends rows to ``results.jsonl``, each in one write."""

    def __init__(self, directory: Path) -> None:
        """Open the log, and take a torn last line away.

        Raises:
            EvaluationError: the directory or the file cannot be made.
        """
        super().__init__(directory / RESULTS, "go on with --resume")

    def append(self, row: Row) -> None:
        """Write one row.

        Raises:
            EvaluationError: it cannot be written (no space left); the log stays as it was.
        """
        self.write(row.to_json())


def read_log(directory: str | Path) -> list[Row]:
    """Read the rows of a log; a torn last line is left out.

    Raises:
        EvaluationError: there is no log, or a whole line of it is no row.
    """
    return [row for _, row in read_lines(directory)]


def read_lines(directory: str | Path) -> list[tuple[int, Row]]:
    """Read the rows of a log, each with the number of its line, from 1.

    Raises:
        EvaluationError: there is no log, or a whole line of it is no row.
    """
    path = Path(directory) / RESULTS
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EvaluationError(
            f"there is no log {path} ({error.strerror}); `disciple eval SUITE --out {directory}` "
            "makes one"
        ) from error
    lines = data[: whole_lines(data)].split(b"\n")
    rows = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                rows.append((number, Row.from_json(line.decode())))
            except ValueError as error:
                raise EvaluationError(f"{path}:{number} is no row of a log ({error})") from error
    return rows


def read_run(directory: str | Path) -> dict[str, Any] | None:
    """What ``run.json`` says, or None where there is none.

    Raises:
        EvaluationError: it cannot be read.
    """
    path = Path(directory) / RUN
    if not path.exists():
        return None
    try:
        data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EvaluationError(f"{path} cannot be read: {error}") from error
    return data


def write_run(directory: Path, data: Mapping[str, Any]) -> None:
    """Write ``run.json`` (whole or not at all).

    Raises:
        EvaluationError: it cannot be written.
    """
    path = directory / RUN
    part = path.with_suffix(".part")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
        part.replace(path)
    except OSError as error:
        raise EvaluationError(f"{path} cannot be written: {error}") from error
