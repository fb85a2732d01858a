"""The figures of a report, drawn from the cells of its tables and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..scores.metrics import LEVELS
from .svg import COLOURS, canvas, inline, log_x, style
from .tables import Cell, Report

__all__ = ["FIGURES", "draw"]

_OVERALL = (*LEVELS, "all")


def draw(report: Report) -> dict[str, str]:
    """Every figure that the report has numbers for, as SVG by name.

    Raises:
        UsageError: matplotlib is not installed.
    """
    with style():
        found = {name: figure(report) for name, (_, figure) in FIGURES.items()}
        return {name: inline(figure) for name, figure in found.items() if figure is not None}


def _pass_at_1(report: Report) -> Any:
    return _by_method(report, "pass_at_1", "Pass@1 by method")


def _by_method(report: Report, key: str, title: str) -> Any:
    """Levels across, a bar for each method with its interval; the paper's numbers as diamonds."""
    table = report.table(key)
    if table is None:
        return None
    figure, (axes,) = canvas(title)
    levels = [name for name, _ in table.rows if name in _OVERALL]
    names = [name for name in table.columns if name != "instances"]
    # 0.2 of each group stays free, to part it from the next.
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        cells = dict(table.column(name))
        drawn = [(k + i * width, cells[v]) for k, v in enumerate(levels) if _number(cells[v])]
        if _paper(name):
            places = [x for x, _ in drawn]
            axes.plot(places, [c.value for _, c in drawn], "D", color=_grey(i), label=name)
        else:
            _bars(axes, drawn, width, name, i)
    axes.set_xticks([k + 0.4 - width / 2 for k in range(len(levels))], levels)
    axes.set_ylim(0, 1.02)
    axes.set_ylabel(table.title)
    _legend(figure, axes, 2)
    return figure


def _budget(report: Report) -> Any:
    table = report.table("budget")
    if table is None:
        return None
    budgets = [int(head.removeprefix("n=")) for head in table.columns]
    levels = [v for v in _OVERALL if any(name.endswith(f", {v}") for name, _ in table.rows)]
    figure, panels = canvas("Pass@1 against budget", len(levels))
    for axes, level in zip(panels, levels, strict=True):
        for name, cells in table.rows:
            points = [(n, c) for n, c in zip(budgets, cells, strict=True) if _number(c)]
            if name.endswith(f", {level}") and points:
                x = [n for n, _ in points]
                line = axes.plot(
                    x, [c.value for _, c in points], "o-", label=name[: -len(level) - 2]
                )
                known = [(n, c) for n, c in points if c.low is not None]
                axes.fill_between(
                    [n for n, _ in known],
                    [c.low for _, c in known],
                    [c.high for _, c in known],
                    color=line[0].get_color(),
                    alpha=0.15,
                    linewidth=0,
                )
        log_x(axes, base=2)
        axes.set_ylim(0, 1.02)
        axes.set_title(level)
        axes.set_xlabel("samples")
    panels[0].set_ylabel("Pass@1")
    _legend(figure, panels[0])
    return figure


def _followers(report: Report) -> Any:
    """Pass@1 by size: a colour for each method, a mark for each family, the paper's hollow."""
    table = report.table("followers")
    if table is None:
        return None
    levels = [v for v in LEVELS if any(_number(c) for n, c in table.column(v) if not _paper(n))]
    levels = levels or ["all"]
    figure, panels = canvas("Pass@1 by follower size and family", len(levels), height=3.8)
    methods = list(dict.fromkeys(name.rpartition(", ")[0] for name, _ in table.rows))
    families = list(dict.fromkeys(cells[0].text for _, cells in table.rows))
    for axes, level in zip(panels, levels, strict=True):
        place = table.columns.index(level)
        for method in methods:
            for family in families:
                points = [
                    (float(cells[1].value or 0), cells[place])
                    for name, cells in table.rows
                    if name.rpartition(", ")[0] == method and cells[0].text == family
                ]
                known = [(x, cell) for x, cell in points if _number(cell)]
                look = _look(methods.index(method), families.index(family), _paper(method))
                axes.plot([x for x, _ in known], [c.value for _, c in known], **look)
                for x, c in known:
                    if c.low is not None:
                        axes.plot([x, x], [c.low, c.high], color=look["color"], linewidth=1)
        log_x(axes)
        axes.set_ylim(-0.02, 1.02)
        axes.set_title(level)
        axes.set_xlabel("million parameters")
    for i, method in enumerate(methods):
        panels[0].plot([], [], **_look(i, 0, _paper(method)) | {"marker": ""}, label=method)
    for k, family in enumerate(families):
        panels[0].plot([], [], _MARKS[k % len(_MARKS)], color="#8c8c8c", label=family)
    panels[0].set_ylabel("Pass@1")
    _legend(figure, panels[0], 3)
    return figure


_MARKS = "osD^vP*"


def _paper(name: str) -> bool:
    return name.startswith("paper:")


def _look(method: int, family: int, published: bool) -> dict[str, Any]:
    return {
        "color": COLOURS[method % len(COLOURS)],
        "marker": _MARKS[family % len(_MARKS)],
        "linestyle": ":" if published else "-",
        "fillstyle": "none" if published else "full",
        "linewidth": 1,
    }


def _coherency(report: Report) -> Any:
    """Validity across, coherency up: ours as dots with intervals, the paper's as diamonds."""
    valid, fluent = report.table("pass_at_1"), report.table("coherency")
    if valid is None or fluent is None:
        return None
    levels = [v for v in LEVELS if v in dict(fluent.rows)] or ["all"]
    figure, panels = canvas("Coherency against validity", len(levels))
    for axes, level in zip(panels, levels, strict=True):
        for i, name in enumerate(name for name in fluent.columns):
            x = dict(valid.column(name)).get(level, Cell())
            y = dict(fluent.column(name)).get(level, Cell())
            if _number(x) and _number(y):
                published = _paper(name)
                colour = _grey(i) if published else COLOURS[i % len(COLOURS)]
                mark = "D" if published else "o"
                axes.plot(x.value, y.value, mark, color=colour, label=name)
                if x.low is not None and y.low is not None:
                    axes.plot([x.low, x.high], [y.value, y.value], color=colour, linewidth=1)
                    axes.plot([x.value, x.value], [y.low, y.high], color=colour, linewidth=1)
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(0, 10.2)
        axes.set_title(level)
        axes.set_xlabel("Pass@1")
    panels[0].set_ylabel("coherency")
    _legend(figure, panels[0], 2)
    return figure


def _confusion(report: Report) -> Any:
    """One square for each method: check across, ground truth down, shares of the weight."""
    table = report.table("confusion")
    if table is None:
        return None
    rows = [(name, cells) for name, cells in table.rows if name.endswith(", all")]
    checks = ("passes", "fails", "silent")
    figure, panels = canvas("check() against the ground truth", len(rows), height=2.6)
    for axes, (name, cells) in zip(panels, rows, strict=True):
        shares = {head: float(c.value or 0) for head, c in zip(table.columns, cells, strict=True)}
        square = [[shares[f"check {c}, {truth}"] for c in checks] for truth in ("invalid", "valid")]
        axes.pcolormesh(square, cmap="Blues", vmin=0, vmax=1, edgecolors="face")
        for y, line in enumerate(square):
            for x, share in enumerate(line):
                ink = "white" if share > 0.5 else "#303030"
                axes.text(x + 0.5, y + 0.5, f"{share:.2f}", ha="center", va="center", color=ink)
        axes.set_xticks([0.5, 1.5, 2.5], checks)
        axes.set_yticks([0.5, 1.5], ["invalid", "valid"], rotation=90, va="center")
        axes.set_title(f"{name.removesuffix(', all')} (null {shares['null']:.2f})")
        axes.set_xlabel("check()")
    return figure


def _retries(report: Report) -> Any:
    """Stacked shares of what became of each attempt; errors in greys."""
    table = report.table("retries")
    assert table is not None, "every report has it"
    figure, (axes,) = canvas("Errors by retry")
    kinds = [kind for kind in table.columns if kind != "runs"]
    base = [0.0] * len(table.rows)
    for i, kind in enumerate(kinds):
        shares = [float(cell.value or 0.0) for _, cell in table.column(kind)]
        colour = {"valid": COLOURS[2], "invalid": COLOURS[4]}.get(kind, _grey(i))
        axes.bar(range(len(shares)), shares, 0.7, bottom=base, label=kind, color=colour)
        base = [low + share for low, share in zip(base, shares, strict=True)]
    axes.set_xticks(range(len(base)), [name for name, _ in table.rows], rotation=45, ha="right")
    axes.set_ylabel("share of runs")
    _legend(figure, axes)
    return figure


def _tokens(report: Report) -> Any:
    """Tokens on the way to an answer: what the planner wrote, and the rest, by method."""
    table = report.table("tokens")
    if table is None:
        return None
    planner, total = dict(table.column("planner, written")), dict(table.column("intermediate"))
    rows = [name for name, _ in table.rows if _number(planner[name])]
    figure, (axes,) = canvas("Intermediate tokens", height=1 + 0.22 * len(rows))
    wrote = [float(planner[name].value or 0) for name in rows]
    rest = [
        max(0.0, float(total[name].value or 0) - own) for name, own in zip(rows, wrote, strict=True)
    ]
    places = range(len(rows))
    axes.barh(places, wrote, label="written by the planner (paper: program, reasoning)")
    axes.barh(places, rest, left=wrote, label="follower's tokens that are not in the answer")
    axes.set_yticks(places, rows)
    axes.invert_yaxis()
    axes.set_xlabel("tokens of a run")
    _legend(figure, axes, 1)
    return figure


def _cost(report: Report) -> Any:
    """US dollars for 100 tasks, on a logarithmic scale."""
    table = report.table("cost")
    if table is None:
        return None
    cells = [(name, c) for name, c in table.column("dollars per 100 tasks") if c.value]
    if not cells:
        return None
    figure, (axes,) = canvas("Cost", height=1 + 0.22 * len(cells))
    for k, (name, cell) in enumerate(cells):
        axes.barh(k, cell.value, color=COLOURS[7 if _paper(name) else 0])
    axes.set_yticks(range(len(cells)), [name for name, _ in cells])
    log_x(axes)
    axes.invert_yaxis()
    axes.set_xlabel("US dollars for 100 tasks")
    return figure


FIGURES: dict[str, tuple[str, Callable[[Report], Any]]] = {
    "pass_at_1": ("pass_at_1", _pass_at_1),
    "followers": ("followers", _followers),
    "budget": ("budget", _budget),
    "coherency": ("coherency", _coherency),
    "confusion": ("confusion", _confusion),
    "retries": ("retries", _retries),
    "tokens": ("tokens", _tokens),
    "cost": ("cost", _cost),
}
"""Figures by name: the table below which each stands, and how it is drawn."""


def _bars(axes: Any, drawn: Sequence[tuple[float, Cell]], width: float, label: str, i: int) -> None:
    """Bars with their intervals."""
    colour = COLOURS[i % len(COLOURS)]
    axes.bar([x for x, _ in drawn], [c.value for _, c in drawn], width, label=label, color=colour)
    for x, cell in drawn:
        if cell.low is not None:
            axes.plot([x, x], [cell.low, cell.high], color="black", linewidth=1)


def _number(cell: Cell) -> bool:
    return isinstance(cell.value, int | float)


def _grey(i: int) -> str:
    return ("#8c8c8c", "#6f6f6f", "#a6a6a6")[i % 3]


def _legend(figure: Any, axes: Any, columns: int = 3) -> None:
    """A legend below the panels, and room for it."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(labels) // columns))
        place = {"loc": "outside lower center", "ncols": columns}
        figure.legend(handles, labels, fontsize="small", frameon=False, **place)
