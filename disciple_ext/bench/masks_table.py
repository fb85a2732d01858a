"""The figures of ``disciple bench masks`` as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .log import Measurement

__all__ = ["BEGIN", "END", "figures", "table"]

BEGIN, END = "<!-- masks: begin -->", "<!-- masks: end -->"
"""What the table goes between on a page."""
_THEIRS = ("awrs-aligned", "awrs-flat", "weights")


def figures(rows: Iterable[Measurement]) -> list[dict[str, Any]]:
    """For each vocabulary and case: seconds by name, and ratios of theirs to ours."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row.value is not None:
            place = found.setdefault((row.model, row.case), {})
            place[f"{row.implementation} {row.metric}"] = row.value
    out = []
    for (size, case), values in found.items():
        ours = values["ours p50"]
        ratios = {name: values[f"{name} p50"] / ours for name in _THEIRS if f"{name} p50" in values}
        out.append({"vocabulary": size, "case": case, "seconds": values, "ratios": ratios})
    return out


def table(rows: Iterable[Measurement], machine: dict[str, Any]) -> str:
    """The table, and what it was measured on."""
    head = (
        "vocabulary | case | built, ms | step p50, us | p99, us | AWRS aligned, ms | AWRS flat, ms "
        "| all weights, ms | AWRS aligned / ours | AWRS flat / ours | all weights / ours"
    )
    lines = [f"| {head} |", "|" + " --- |" * (head.count("|") + 1)]
    for figure in figures(rows):
        at, ratios = figure["seconds"], figure["ratios"]
        cells = [
            figure["vocabulary"],
            figure["case"],
            _number(at.get("ours build"), 1e3),
            _number(at.get("ours p50"), 1e6),
            _number(at.get("ours p99"), 1e6),
            *(_number(at.get(f"{name} p50"), 1e3) for name in _THEIRS),
            *(_number(ratios.get(name), 1.0) for name in _THEIRS),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    said = ", ".join(f"{name} {value}" for name, value in machine.items())
    return "\n".join([*lines, "", f"Measured on: {said}."])


def _number(value: float | None, scale: float) -> str:
    if value is None:
        return "-"
    scaled = value * scale
    return f"{scaled:,.0f}" if scaled >= 10 else f"{scaled:.2g}"
