"""Tables whose every number says where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..scores.intervals import intervals
from ..scores.metrics import levels
from .series import Line, Log, Series

__all__ = ["Cell", "Report", "Table", "means", "ranges"]


@dataclass(frozen=True)
class Cell:
    """A number, or a text, of a table.

    Attributes:
        value: the number; None for an empty cell.
        low: lower end of the 95 % interval, or None.
        high: upper end, or None.
        digits: decimals to show.
        lines: the runs that the number was computed from.
        published: for a number of the paper's, its table; else empty.
    """

    value: float | str | None = None
    low: float | None = None
    high: float | None = None
    digits: int = 3
    lines: tuple[Line, ...] = ()
    published: str = ""

    @property
    def text(self) -> str:
        """The cell as it is shown: the number, and its interval in brackets."""
        if self.value is None or isinstance(self.value, str):
            return self.value or ""
        shown = f"{self.value:.{self.digits}f}"
        if self.low is None or self.high is None:
            return shown
        return f"{shown} [{self.low:.{self.digits}f}, {self.high:.{self.digits}f}]"


@dataclass(frozen=True)
class Table:
    """A table of a report.

    Attributes:
        key: its name in JSON, and its anchor.
        title: for people.
        what: what the numbers are, in a sentence or two.
        corner: head of the first column.
        columns: heads of the others.
        rows: each with its name.
        folded: shown only on demand.
    """

    key: str
    title: str
    what: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    folded: bool = False

    def column(self, name: str) -> list[tuple[str, Cell]]:
        """A column's cells with the names of their rows."""
        place = self.columns.index(name)
        return [(row, cells[place]) for row, cells in self.rows]


@dataclass(frozen=True)
class Report:
    """What a report says, before it is given a form.

    Attributes:
        logs: the logs it is made from.
        series: their methods.
        tables: those that the logs have numbers for.
        source: the paper that the published numbers are from.
    """

    logs: tuple[Log, ...]
    series: tuple[Series, ...]
    tables: tuple[Table, ...]
    source: str = field(default="")

    def table(self, key: str) -> Table | None:
        """The table of that name, or None where the logs have no numbers for it."""
        return next((table for table in self.tables if table.key == key), None)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-safe data, schema 1.

        Each cell that has lines names an entry of ``sources``, which gives the lines' numbers in
        each log's ``results.jsonl`` as ranges, such as ``1-38,40``.
        """
        sources: dict[str, str] = {}
        given: dict[str, dict[str, str]] = {}

        def source(lines: Sequence[Line]) -> str:
            found = ranges(lines)
            # Many cells share their lines: named once, the JSON stays small.
            key = repr(found)
            if key not in sources:
                sources[key] = f"L{len(sources) + 1}"
                given[sources[key]] = found
            return sources[key]

        tables = [_table(table, source) for table in self.tables]
        return {
            "schema": 1,
            "paper": self.source,
            "logs": [
                {"label": log.label, "directory": log.directory, "run": dict(log.run)}
                for log in self.logs
            ],
            "series": [
                {
                    "name": series.name,
                    "method": series.method,
                    "log": series.log.label,
                    "follower": series.log.follower,
                    "planner": series.log.planner,
                }
                for series in self.series
            ],
            "tables": tables,
            "sources": given,
        }


def _table(table: Table, source: Any) -> dict[str, Any]:
    def cell(cell: Cell) -> dict[str, Any]:
        data: dict[str, Any] = {"value": cell.value}
        if cell.low is not None:
            data |= {"low": cell.low, "high": cell.high}
        if cell.lines:
            data["source"] = source(cell.lines)
        if cell.published:
            data["published"] = cell.published
        return data

    return {
        "key": table.key,
        "title": table.title,
        "what": table.what,
        "columns": list(table.columns),
        "rows": [{"name": name, "cells": [cell(c) for c in cells]} for name, cells in table.rows],
    }


def means(pairs: Iterable[tuple[Line, float]], digits: int = 3) -> dict[str, Cell]:
    """Means by task and level with intervals (:func:`intervals`), each with its lines."""
    # By instance, so that the bootstrap draws two methods on the same instances alike.
    known = sorted(pairs, key=lambda pair: pair[0].row.id)
    found = intervals((line.row.task, value) for line, value in known)
    tasks = {line.row.task for line, _ in known}
    cells = {}
    for name, mean in found.items():
        inside = set(levels(name, tasks))
        lines = tuple(line for line, _ in known if line.row.task in inside)
        cells[name] = Cell(mean.value, mean.low, mean.high, digits, lines)
    return cells


def ranges(lines: Iterable[Line]) -> dict[str, str]:
    """The numbers of lines by log, as ranges: ``1-3,5``."""
    numbers: dict[str, list[int]] = {}
    for line in lines:
        numbers.setdefault(line.log, []).append(line.number)
    return {log: _ranges(sorted(set(found))) for log, found in numbers.items()}


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
