"""The figure of a log: ratios by case, and how cost grows. It needs matplotlib (``[bench]``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .log import Measurement
from .table import Medians, ratios

__all__ = ["draw"]

_N = 32
_BARS = ("stock / ours", "tuned / ours", "loop / ours")
_SHARES = ("floor / ours", "floor / sandbox")
_LINES = ("stock", "tuned", "loop", "ours", "floor")


def draw(rows: Sequence[Measurement], path: Path) -> None:
    """Write the figure as SVG.

    Raises:
        UsageError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise UsageError(
            "the figure needs matplotlib: pip install 'disciple-ext[bench]', or leave --figure out"
        ) from error
    # No display is needed; the default backend may look for one.
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "disciple"  # the same log, the same file
    from matplotlib import pyplot

    found = [r for r in ratios(rows) if r["metric"] == "cpu" and not r["case"].startswith("d")]
    found = found or [r for r in ratios(rows) if r["metric"] == "wall"]
    at = _N if any(r["n"] == _N for r in found) else min((r["n"] for r in found), default=0)
    shown = [r for r in found if r["n"] == at]
    if shown:
        longest = max(shown, key=lambda r: sum(o["tokens"] == r["tokens"] for o in shown))["tokens"]
        shown = [r for r in shown if r["tokens"] == longest]
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(15, 5))
    _bars(left, shown, _BARS, f"times slower than ours, N = {at}")
    left.set_yscale("log")
    left.axhline(1.0, color="black", linewidth=0.8)
    _bars(middle, shown, _SHARES, f"share of the floor, N = {at}")
    middle.axhline(0.75, color="black", linewidth=0.8, linestyle="dashed")
    _growth(right, Medians(rows))
    figure.tight_layout()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None})
    except OSError as error:
        raise UsageError(f"the figure {path} cannot be written: {error}") from error
    finally:
        pyplot.close(figure)


def _bars(axes: Any, found: Sequence[dict[str, Any]], names: Sequence[str], title: str) -> None:
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        places = [k for k, r in enumerate(found) if r["ratios"][name] is not None]
        heights = [found[k]["ratios"][name] for k in places]
        axes.bar([k + i * width for k in places], heights, width, label=name)
    labels = [f"{r['case']} {r['model']}" for r in found]
    axes.set_xticks([k + 0.4 - width / 2 for k in range(len(found))], labels, rotation=90)
    axes.set_title(title)
    axes.legend()


def _growth(axes: Any, medians: Medians) -> None:
    cells = [c for c in medians.cells if (c.case, c.model, c.tokens) == ("b", "32k", 32)]
    for name in _LINES:
        points = [(c.n, medians.per_token(c, name, "cpu")) for c in cells]
        known = [(n, 1e3 * value) for n, value in points if value is not None]
        if known:
            axes.plot([n for n, _ in known], [v for _, v in known], marker="o", label=name)
    if axes.lines:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.legend()
    axes.set_xlabel("N")
    axes.set_title("CPU ms a token (case b, 32k)")
