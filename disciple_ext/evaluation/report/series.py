"""Logs as series: one method of one log, each run with the line it stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import EvaluationError, UsageError
from ..logs.judgements import Judgement, read_judgements
from ..logs.log import RESULTS, Row, read_lines, read_run
from ..logs.model_size import ModelSize, named_size

__all__ = ["Line", "Log", "Series", "logs_in", "read_series"]


@dataclass(frozen=True)
class Line:
    """A run, and where it stands.

    Attributes:
        log: label of its log.
        number: its line in ``results.jsonl``, from 1.
        row: the run.
        judgement: the judge's verdict on its answer, or None.
    """

    log: str
    number: int
    row: Row
    judgement: Judgement | None = None


@dataclass(frozen=True)
class Log:
    """A log's directory.

    Attributes:
        label: its short name in the report.
        directory: where it lies, as it was given.
        run: what ``run.json`` says, empty where there is none.
    """

    label: str
    directory: str
    run: Mapping[str, Any]

    @property
    def follower(self) -> str:
        """The follower's name, or ``?`` where the log does not say."""
        return str(self.run.get("follower", "?"))

    @property
    def suite(self) -> str:
        """The suite's name; older logs are COLLIE's."""
        return str(self.run.get("suite", "collie"))

    @property
    def model(self) -> ModelSize:
        """The follower's size and family; what its name says where the log does not."""
        known = self.run.get("model")
        if not isinstance(known, Mapping):
            return named_size(self.follower)
        return ModelSize(known.get("parameters"), known.get("family"))

    @property
    def planner(self) -> str:
        """The planner's name, or ``?`` where the log does not say."""
        return str(self.run.get("planner", "?"))


@dataclass(frozen=True)
class Series:
    """The runs of one method in one log; of an instance run twice the last counts.

    Attributes:
        name: unique in a report.
        method: as in the log.
        log: the log.
        lines: its runs, in the order in which instances came first.
    """

    name: str
    method: str
    log: Log
    lines: tuple[Line, ...]

    def values(self, value: Callable[[Line], float | None]) -> list[tuple[Line, float]]:
        """The lines that have a value, with it."""
        return [(line, found) for line in self.lines if (found := value(line)) is not None]


def read_series(directories: Sequence[str | Path]) -> list[Series]:
    """Read logs: series by log, then by method in the order of their first runs.

    A directory that holds no log but directories that do stands for these.

    Raises:
        UsageError: no directory, or one of them twice.
        EvaluationError: a log cannot be read, or has no run.
    """
    places = [place for directory in directories for place in logs_in(directory)]
    found = []
    for label, directory in zip(_labels(places), places, strict=True):
        log = Log(label, directory.as_posix(), read_run(directory) or {})
        lines = _lines(label, directory)
        if not lines:
            raise EvaluationError(f"the log in {directory} has no run yet")
        for method in dict.fromkeys(line.row.method for line in lines):
            name = method if len(places) == 1 else f"{method} ({label})"
            mine = tuple(line for line in lines if line.row.method == method)
            found.append(Series(name, method, log, mine))
    return found


def logs_in(directory: str | Path) -> list[Path]:
    """The directory itself, or the directories in it with logs where it has none of its own."""
    place = Path(directory)
    inside = [] if (place / RESULTS).exists() else sorted(place.glob(f"*/{RESULTS}"))
    return [path.parent for path in inside] or [place]


def _lines(label: str, directory: Path) -> list[Line]:
    verdicts = read_judgements(directory)
    last: dict[tuple[str, str], Line] = {}
    for number, row in read_lines(directory):
        # The row that stands last in the log counts, as everywhere.
        key = row.id, row.method
        last[key] = Line(label, number, row, verdicts.get(key))
    return list(last.values())


def _labels(directories: Iterable[Path]) -> list[str]:
    """The directories' names; their paths where two share a name."""
    paths = list(directories)
    if not paths or len({path.resolve() for path in paths}) < len(paths):
        raise UsageError("name at least one log's directory, and each of them once")
    names = [path.resolve().name for path in paths]
    return [
        name if names.count(name) == 1 else path.as_posix()
        for name, path in zip(names, paths, strict=True)
    ]
