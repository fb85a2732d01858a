"""A report from logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .costs import cost_table, runs_table, tokens_table
from .failures import confusion_tables, messages_table, retries_table
from .followers import followers_table
from .published import LEVEL_TABLES, paper
from .series import read_series
from .tables import Cell, Report, Table
from .validity import budget_table, coherency_table, nats_table, pass_at_1_table, pass_at_k_table

__all__ = ["build"]


def build(directories: Sequence[str | Path]) -> Report:
    """Make a report from the logs of one or more directories.

    Several logs are compared as they are: each method of each log is a series of its own. Logs
    that differ only in ``n`` are points of one curve in the table of budgets.

    Raises:
        UsageError: no directory, or one of them twice.
        EvaluationError: a log, or its judgements, cannot be read.
    """
    series = read_series(directories)
    tables = [
        runs_table(series),
        pass_at_1_table(series),
        followers_table(series),
        pass_at_k_table(series),
        budget_table(series),
        coherency_table(series),
        nats_table(series),
        *confusion_tables(series),
        retries_table(series),
        messages_table(series),
        tokens_table(series),
        cost_table(series),
        _published(),
    ]
    logs = tuple({s.log.label: s.log for s in series}.values())
    kept = tuple(table for table in tables if table is not None)
    return Report(logs, tuple(series), kept, paper()["source"])


def _published() -> Table:
    """The paper's own results, every method of them."""
    columns = [(level, metric) for level in LEVEL_TABLES for metric in ("pass_at_1", "coherency")]
    found: dict[str, dict[tuple[str, str], Cell]] = {}
    for level, name in LEVEL_TABLES.items():
        table = paper()["tables"][name]
        source = f"{table['caption']} ({table['label']})"
        for row in table["rows"]:
            cells = found.setdefault(f"{row['method']} {row['sampling']}, {row['model']}", {})
            for metric in ("pass_at_1", "coherency"):
                cells[level, metric] = Cell(row[metric][level], digits=2, published=source)
    heads = {"pass_at_1": "Pass@1", "coherency": "coherency"}
    return Table(
        "published",
        "The paper's results",
        f"{paper()['source']}. Planner {paper()['settings']['planner']}, coherency judged by "
        f"{paper()['settings']['judge']}; DisCIPL* was shown the expert program of the target's "
        "own type.",
        "method",
        tuple(f"{level}, {heads[metric]}" for level, metric in columns),
        tuple((name, tuple(c.get(key, Cell()) for key in columns)) for name, c in found.items()),
        folded=True,
    )
