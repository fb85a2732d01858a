"""A report as Markdown."""

from __future__ import annotations

import re

from ..scores.metrics import markdown
from .tables import Report, Table, ranges

__all__ = ["render_markdown", "render_table"]


def render_markdown(report: Report) -> str:
    """The whole report, ending with the lines that each method's numbers come from."""
    parts = ["# Evaluation report", _logs(report)]
    for table in report.tables:
        parts += [f"## {table.title}", table.what, render_table(table)]
    parts += [
        "## Log lines",
        "The lines of `results.jsonl` that each method's numbers are computed from, by task.",
        _lines(report),
    ]
    return "\n\n".join(parts) + "\n"


def render_table(table: Table) -> str:
    """One table."""
    body = [[_plain(name), *(_plain(c.text) for c in cells)] for name, cells in table.rows]
    return markdown([table.corner, *map(_plain, table.columns)], body)


def _plain(text: str) -> str:
    """Text that ends no cell, and that is shown as it is."""
    return re.sub(r"([\\|`*<>])", r"\\\1", text)


def _logs(report: Report) -> str:
    body = []
    for log in report.logs:
        version = log.run.get("versions", {}).get("disciple-ext", "?")
        settings = [str(log.run.get(name, "?")) for name in ("started", "seed")]
        body.append(
            [f"`{log.label}`", *map(_plain, (log.follower, log.planner)), *settings, version]
        )
    return markdown(["log", "follower", "planner", "started", "seed", "disciple-ext"], body)


def _lines(report: Report) -> str:
    body = []
    for series in report.series:
        for task in dict.fromkeys(line.row.task for line in series.lines):
            found = ranges(line for line in series.lines if line.row.task == task)
            body += [[series.name, task, f"`{log}`", numbers] for log, numbers in found.items()]
    return markdown(["method", "task", "log", "lines"], body)
