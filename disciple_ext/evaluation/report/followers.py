"""Pass@1 by the follower's size and family: the paper's study of scale, and ours beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..logs.model_size import ModelSize
from ..scores.metrics import LEVELS
from .published import FOLLOWERS, LEVEL_TABLES, SIZES, counterpart, paper
from .series import Series
from .tables import Cell, Table, means

__all__ = ["followers_table"]

_SCALES = (*LEVELS, "all")


def followers_table(series: Sequence[Series]) -> Table | None:
    """A row for each method and follower, the smallest follower first; the paper's below.

    None where no follower's size is known.
    """
    ours = [s for s in series if s.log.model.parameters is not None]
    if not ours:
        return None
    ours.sort(key=lambda s: (s.method, s.log.model.parameters or 0))
    names = [f"{s.method}, {_short(s.log.follower)}" for s in ours]
    rows = []
    for s, name in zip(ours, names, strict=True):
        found = means(s.values(lambda line: line.row.pass_at_1))
        about = _about(s.log.model, lines=s.lines)
        cells = tuple(found.get(level, Cell()) for level in _SCALES)
        rows.append((name if names.count(name) == 1 else f"{s.name}, {name}", (*about, *cells)))
    rows += _published(ours)
    return Table(
        "followers",
        "Pass@1 by follower",
        "Weighted Pass@1 by the size and the family of the follower, as in the paper's study of "
        "scale; the paper's planner wrote its programs, and its followers' sizes are those of "
        "their model cards.",
        "method, follower",
        ("family", "million parameters", *_SCALES),
        tuple(rows),
    )


def _about(model: ModelSize, **source: Any) -> tuple[Cell, Cell]:
    millions = (model.parameters or 0) / 1e6
    return Cell(model.family or "?"), Cell(millions, digits=1, **source)


def _short(follower: str) -> str:
    return follower.rstrip("/").split("/")[-1]


def _published(series: Sequence[Series]) -> list[tuple[str, tuple[Cell, ...]]]:
    """The paper's results with each of its followers, for the methods that we ran."""
    keys = [counterpart(s.method, "", "") for s in series]
    rows = []
    for method, sampling, _ in dict.fromkeys(key for key in keys if key is not None):
        for model in FOLLOWERS:
            cells = [_level(method, sampling, model, level) for level in _SCALES]
            if any(cell.value is not None for cell in cells):
                about = _about(SIZES[model], published=f"model card of {model}")
                rows.append((f"paper: {method} {sampling}, {model}", (*about, *cells)))
    return rows


def _level(method: str, sampling: str, model: str, level: str) -> Cell:
    table = paper()["tables"].get(LEVEL_TABLES.get(level, ""))
    for row in table["rows"] if table else ():
        if (row["method"], row["sampling"], row["model"]) == (method, sampling, model):
            source = f"{table['caption']} ({table['label']})"
            return Cell(row["pass_at_1"][level], digits=2, published=source)
    return Cell()
