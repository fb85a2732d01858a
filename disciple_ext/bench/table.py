"""The figures of a log as Markdown tables: medians, and ratios of medians."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .cases import CASES, Cell
from .log import Measurement
from .synthetic import MODELS

__all__ = ["BEGIN", "END", "Medians", "into_page", "marks", "ratios", "tables"]

BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
"""What the tables go between on a page."""

_RATIOS = {
    "stock / ours": ("stock", "ours"),
    "tuned / ours": ("tuned", "ours"),
    "loop / ours": ("loop", "ours"),
    "loop-shared / ours": ("loop-shared", "ours"),
    "floor / ours": ("floor", "ours"),
    "floor / sandbox": ("floor", "sandbox"),
}
_TIMES = ("ours", "sandbox", "floor", "loop", "loop-shared", "tuned", "stock")
_TITLES = {
    "cpu": "CPU seconds, one thread",
    "wall": "Wall-clock seconds, two threads",
    "memory": "Peak memory of a run, in megabytes beyond the model and the libraries",
}
_SWEPT = ("b", "32k")
_SWEEP_TOKENS, _SWEEP_N = 32, 8


class Medians:
    """Medians of the measurements, by cell, implementation and metric.

    Attributes:
        cells: every cell, in the order of the tables.
    """

    def __init__(self, rows: Sequence[Measurement]) -> None:
        values: dict[tuple[Cell, str, str], list[float]] = {}
        for row in rows:
            if row.value is not None:
                values.setdefault((row.cell, row.implementation, row.metric), []).append(row.value)
        self._median = {key: statistics.median(found) for key, found in values.items()}
        self._count = {key: len(found) for key, found in values.items()}
        self._of_ours: dict[Cell, list[Measurement]] = {}
        for row in rows:
            if row.passes is not None:
                self._of_ours.setdefault(row.cell, []).append(row)
        self.cells = sorted({cell for cell, _, _ in values}, key=_order)

    def get(self, cell: Cell, implementation: str, metric: str) -> float | None:
        """Seconds (or megabytes) of one run, or None where it was not measured."""
        return self._median.get((cell, implementation, metric))

    def counted(self, cell: Cell) -> dict[str, float]:
        """Forward passes of a run of ours, and tokens that each particle drew: medians."""
        found = self._of_ours.get(cell, [])
        if not found:
            return {}
        written = statistics.median((row.written or 0) / cell.n for row in found)
        return {"passes": statistics.median(row.passes or 0 for row in found), "written": written}

    def per_token(self, cell: Cell, implementation: str, metric: str) -> float | None:
        """Seconds for each token of each particle; in (d), seconds of a run.

        Stock writes fewer tokens at 128k: its figure is then that of the shorter text.
        """
        found = self.get(cell, implementation, metric)
        if found is None and implementation in ("stock", "tuned") and cell.model == "128k":
            for other in self.cells:
                same = (other.case, other.model, other.n) == (cell.case, cell.model, cell.n)
                if same and other.tokens < cell.tokens:
                    cell, found = other, self.get(other, implementation, metric)
        # In (d) the program decides how many tokens: tokens is 0, and the figure is that of a run.
        return None if found is None else found / (cell.n * cell.tokens or 1)

    def repeats(self) -> tuple[int, int]:
        """The fewest and the most measurements that a time is the median of."""
        counts = [n for (_, _, metric), n in self._count.items() if metric != "memory"]
        return min(counts, default=0), max(counts, default=0)


def ratios(rows: Sequence[Measurement]) -> list[dict[str, Any]]:
    """For each cell and metric: seconds a token by implementation, and the ratios."""
    medians = Medians(rows)
    out = []
    for cell in medians.cells:
        for metric in ("cpu", "wall"):
            times = {name: medians.per_token(cell, name, metric) for name in _TIMES}
            if times["ours"] is None and times["sandbox"] is None:
                continue
            out.append(
                {
                    "case": cell.case,
                    "model": cell.model,
                    "n": cell.n,
                    "tokens": cell.tokens,
                    "metric": metric,
                    "seconds_per_token": times,
                    **medians.counted(cell),
                    "ratios": {k: _ratio(times[a], times[b]) for k, (a, b) in _RATIOS.items()},
                }
            )
    return out


def tables(rows: Sequence[Measurement], machine: dict[str, Any], level: int = 2) -> str:
    """All tables, as Markdown under headings of a level."""
    found = ratios(rows)
    medians = Medians(rows)
    least, most = medians.repeats()
    about = ", ".join(f"{name} {value}" for name, value in machine.items())
    parts = [f"Measured on: {about}. Each time is the median of {least} to {most} runs."]
    sweeps = [
        *_sweep(medians, "N", lambda c: c.tokens == _SWEEP_TOKENS, lambda c: c.n),
        *_sweep(medians, "T", lambda c: c.n == _SWEEP_N, lambda c: c.tokens),
    ]
    for metric in ("cpu", "wall"):
        here = [f for f in found if f["metric"] == metric]
        main = [f for f in here if not f["case"].startswith("d") and not _swept_only(f, sweeps)]
        collie = [f for f in here if f["case"].startswith("d")]
        parts += _section(f"## {_TITLES[metric]}", "ms/token", 1e3, main, _TIMES)
        parts += _section(
            f"## Case d, {CASES['d']}: {_TITLES[metric]}",
            "s",
            1.0,
            collie,
            ("ours", "sandbox", "floor"),
        )
    parts += [*_memory(medians), *sweeps]
    return "\n\n".join("#" * (level - 2) * part.startswith("## ") + part for part in parts)


def marks(part: str | None) -> tuple[str, str]:
    """What the tables of a part of the page go between."""
    if part is None:
        return BEGIN, END
    return f"<!-- benchmarks {part}: begin -->", f"<!-- benchmarks {part}: end -->"


def into_page(page: Path, text: str, begin: str = BEGIN, end: str = END) -> None:
    """Put text between the markers of a page.

    Args:
        page: the page.
        text: what goes there.
        begin: the marker before it.
        end: the marker after it.

    Raises:
        UsageError: the page is not there, or has no markers.
    """
    try:
        old = page.read_text("utf-8")
        head, found, rest = old.partition(begin)
        _, closed, tail = rest.partition(end)
        if not found or not closed:
            raise UsageError(f"{page} lacks the markers {begin} and {end}")
        page.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}", "utf-8")
    except OSError as error:
        raise UsageError(f"the page {page} cannot be written: {error}") from error


def _section(
    title: str, unit: str, scale: float, found: Sequence[dict[str, Any]], times: Sequence[str]
) -> list[str]:
    if not found:
        return []
    known = [t for t in times if any(f["seconds_per_token"][t] is not None for f in found)]
    compared = [r for r in _RATIOS if any(f["ratios"][r] is not None for f in found)]
    head = ["case", "model", "N", "T", *(f"{t}, {unit}" for t in known), *compared]
    counted = unit == "s" and any("passes" in f for f in found)
    if counted:
        head += ["passes", "tokens", "passes a token"]
    fast = unit == "ms/token" and found[0]["metric"] == "wall"
    if fast:
        head.append("ours, tokens/s")
    lines = []
    for f in found:
        seconds = f["seconds_per_token"]
        line = [f["case"], f["model"], str(f["n"]), str(f["tokens"] or "")]
        line += [_shown(seconds[t], scale) for t in known]
        line += [_shown(f["ratios"][r]) for r in compared]
        if counted:
            passes, written = f.get("passes"), f.get("written")
            line += [_shown(passes), _shown(written), _shown(_ratio(passes, written))]
        if fast:
            line.append(f"{1 / seconds['ours']:,.0f}" if seconds["ours"] else "")
        lines.append(line)
    return [title, _markdown(head, lines)]


def _swept_only(found: dict[str, Any], sweeps: Sequence[str]) -> bool:
    """Whether a cell has a place in the sweeps' tables alone (they leave the sandbox out)."""
    swept = bool(sweeps) and (found["case"], found["model"]) == _SWEPT
    return swept and found["seconds_per_token"]["sandbox"] is None


def _memory(medians: Medians) -> list[str]:
    lines = []
    for cell in medians.cells:
        found = [medians.get(cell, name, "memory") for name in _TIMES]
        if any(f is not None for f in found):
            line = [cell.case, cell.model, str(cell.n), str(cell.tokens or "")]
            lines.append([*line, *("" if f is None else f"{f:,.0f}" for f in found)])
    if not lines:
        return []
    return [f"## {_TITLES['memory']}", _markdown(["case", "model", "N", "T", *_TIMES], lines)]


def _sweep(
    medians: Medians, name: str, chosen: Callable[[Cell], bool], along: Callable[[Cell], int]
) -> list[str]:
    cells = [c for c in medians.cells if (c.case, c.model) == _SWEPT and chosen(c)]
    cells.sort(key=along)
    if len({along(c) for c in cells}) < 4:  # no sweep was made
        return []
    lines = [
        [str(along(c)), *(_shown(medians.per_token(c, i, "cpu"), 1e3) for i in _TIMES)]
        for c in cells
    ]
    fixed = f"T = {_SWEEP_TOKENS}" if name == "N" else f"N = {_SWEEP_N}"
    title = f"## How cost grows with {name} (case b, 32k, {fixed}): CPU ms/token, one thread"
    return [title, _markdown([name, *_TIMES], lines)]


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---" if name in ("case", "model") else "--:" for name in head]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _shown(value: float | None, scale: float = 1.0) -> str:
    if value is None:
        return ""
    value *= scale
    digits = 2 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 4)}f}"


def _order(cell: Cell) -> tuple[str, int, int, int]:
    return (cell.case, MODELS.index(cell.model), cell.n, cell.tokens)
