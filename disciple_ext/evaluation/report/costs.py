"""Tables of what the answers cost: tokens, dollars, seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..scores.metrics import LEVELS
from ..scores.spending import Spent, spent
from .published import paper
from .series import Line, Series
from .tables import Cell, Table, means

__all__ = ["cost_table", "runs_table", "tokens_table"]

_TOKENS: dict[str, Callable[[Spent], float]] = {
    "answer": lambda s: s.answer,
    "intermediate": lambda s: s.intermediate,
    "follower": lambda s: s.follower,
    "planner, written": lambda s: s.planner_output,
    "planner, read": lambda s: s.planner_input,
    "planner, from cache": lambda s: s.planner_cached,
}
# The paper's count of "non-cached" prompt tokens holds the cached ones too (its dollars show it),
# and so has no place beside ours of those read at full price.
_PAPER = {
    "answer": "answer",
    "planner, written": "program",
    "planner, from cache": "planner_prompt_cached",
}


def runs_table(series: Sequence[Series]) -> Table:
    """Each method's runs: how many, with errors, and how long they took."""
    rows = []
    for s in series:
        failed = sum(line.row.error is not None for line in s.lines)
        seconds = means(((line, line.row.seconds) for line in s.lines), 2)["all"]
        sizes = sorted({line.row.n for line in s.lines})
        shown = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        counts = (Cell(value, digits=0, lines=s.lines) for value in (len(s.lines), failed))
        about = (Cell(s.log.follower), Cell(s.log.planner), Cell(shown))
        rows.append((s.name, (*about, *counts, seconds)))
    return Table(
        "runs",
        "Runs",
        "Of each method: the models, the samples of a run, the runs, those that ended in an error, "
        "and the mean wall-clock seconds of a run.",
        "method",
        ("follower", "planner", "n", "runs", "errors", "seconds"),
        tuple(rows),
    )


def tokens_table(series: Sequence[Series]) -> Table | None:
    """Tokens of a run, the paper's counts below; None where the log has none."""
    rows = []
    for s in series:
        found = {name: means(_of(s, value), 1) for name, value in _TOKENS.items()}
        rows += [
            (f"{s.name}, {level}", tuple(found[name][level] for name in _TOKENS))
            for level in (*LEVELS, "all")
            if level in found["answer"]
        ]
    if not rows:
        return None
    rows += [
        (f"paper: {row['method']}, sentences", tuple(_published(row, name) for name in _TOKENS))
        for row in paper()["tables"]["tokens"]["rows"]
    ]
    return Table(
        "tokens",
        "Tokens",
        "Mean tokens of a run, where they are logged. Intermediate tokens are those that "
        "either model wrote and that are not in the answer: all samples but the one drawn, texts "
        "given up, and programs. The paper's answer is one particle's; its program, or reasoning, "
        "stands under what the planner wrote.",
        corner="method",
        columns=tuple(_TOKENS),
        rows=tuple(rows),
    )


def _of(series: Series, value: Callable[[Spent], float]) -> list[tuple[Line, float]]:
    return [(line, value(s)) for line in series.lines if (s := spent(line.row)) is not None]


def _published(row: dict[str, Any], name: str) -> Cell:
    found = row.get(_PAPER.get(name, ""))
    if found is None:
        return Cell()
    return Cell(found["mean"], digits=1, published=paper()["tables"]["tokens"]["caption"])


def _dollars(line: Line) -> float | None:
    found = spent(line.row)
    return found.dollars if found is not None else None


def _count(lines: tuple[Line, ...]) -> Cell:
    return Cell(len(lines), digits=0, lines=lines)


def cost_table(series: Sequence[Series]) -> Table | None:
    """US dollars for 100 tasks, the paper's below; None where no run has a price."""
    rows = []
    for s in series:
        # Runs of unknown cost are left out, not taken for zero; the second column says how many
        # count.
        priced = s.values(_dollars)
        cells = means(((line, 100 * cost) for line, cost in priced), 4)
        rows += [
            (f"{s.name}, {level}", (cells[level], _count(cells[level].lines)))
            for level in (*LEVELS, "all")
            if level in cells
        ]
    if not rows:
        return None
    table = paper()["tables"]["dollars"]
    source = f"{table['caption']} ({table['label']})"
    rows += [
        (
            f"paper: {row['method']}, sentences",
            (Cell(row["total"], digits=4, published=source), Cell()),
        )
        for row in table["rows"]
    ]
    return Table(
        "cost",
        "Cost",
        "US dollars for 100 tasks, by the prices that the log was made with; runs without a known "
        "price do not count.",
        corner="method",
        columns=("dollars per 100 tasks", "runs with a price"),
        rows=tuple(rows),
    )
