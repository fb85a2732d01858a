"""One log from the logs of several shards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import EvaluationError, UsageError
from ..logs.judgements import JUDGEMENTS, read_judgements
from ..logs.lines import LineWriter
from ..logs.log import RESULTS, LogWriter, Row, read_log, read_run, write_run
from ..logs.provenance import mismatch

__all__ = ["merge", "without_times"]


def merge(out: str | Path, directories: Sequence[str | Path]) -> list[Row]:
    """Merge logs made with the same settings, their rows sorted by instance and method.

    Judges' verdicts are merged, too.

    Args:
        out: directory of the new log.
        directories: the logs; where two hold a row of one instance and method, it must be the
            same but for times.

    Returns:
        The rows.

    Raises:
        UsageError: there is a log in ``out`` already, or nothing to merge.
        EvaluationError: a log cannot be read, settings differ, or rows do.
    """
    out = Path(out)
    if not directories:
        raise UsageError("name at least one log to merge")
    if (out / RESULTS).exists():
        raise UsageError(f"there is a log in {out} already; name another directory")
    abouts = [_about(Path(directory)) for directory in directories]
    rows: dict[tuple[str, str], Row] = {}
    for about, directory in zip(abouts, map(Path, directories), strict=True):
        mismatch(abouts[0], about, Path(directories[0]))
        # As a dict: of rows of one instance and method in one log the last counts.
        own = {(row.id, row.method): row for row in read_log(directory)}
        for key, row in own.items():
            if without_times(rows.setdefault(key, row)) != without_times(row):
                raise EvaluationError(
                    f"{directory} and a log before it have different rows of {key[0]!r} and "
                    f"{key[1]!r}; leave one of the logs out"
                )
    verdicts = [line for directory in directories for line in _verdicts(Path(directory))]
    # Nothing is written before everything is read: a log that is refused leaves no half of a merge.
    write_run(out, {**abouts[0], "shard": None, "merged": abouts})
    log = LogWriter(out)
    for key in sorted(rows):
        log.append(rows[key])
    log.close()
    if verdicts:
        lines = LineWriter(out / JUDGEMENTS, "merge again")
        for line in verdicts:
            lines.write(line)
        lines.close()
    return read_log(out)


def without_times(row: Row) -> dict[str, Any]:
    """A row as JSON-safe data without its seconds: what two runs of the same thing share."""
    data: dict[str, Any] = json.loads(row.to_json())
    del data["seconds"]
    for attempt in data["attempts"]:
        attempt.pop("seconds", None)
    return data


def _about(directory: Path) -> Mapping[str, Any]:
    about = read_run(directory)
    if about is None:
        raise EvaluationError(
            f"there is no run.json in {directory}, so nobody knows how its log was made"
        )
    return about


def _verdicts(directory: Path) -> list[str]:
    if not read_judgements(directory):  # it is there, and sound
        return []
    lines = (directory / JUDGEMENTS).read_text("utf-8").splitlines(keepends=True)
    return [line.rstrip("\n") for line in lines if line.endswith("\n") and line.strip()]
