"""From matplotlib's figures to SVG that lives inside a page: no network, either colour scheme."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

from ...errors import UsageError

__all__ = ["COLOURS", "canvas", "inline", "log_x", "style"]

COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#8c8c8c")
"""Readable on white and on black."""


def style() -> Any:
    """A context in which figures are drawn: our colours, text as text, dollars as dollars.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        import matplotlib
        from cycler import cycler
    except ImportError as error:
        raise UsageError(
            "the figures need matplotlib: pip install 'disciple-ext[bench]', or ask for --markdown"
        ) from error
    cycle = cycler(color=COLOURS)
    settings: Any = {"axes.prop_cycle": cycle, "svg.fonttype": "none", "text.parse_math": False}
    return matplotlib.rc_context(settings)


def canvas(title: str, panels: int = 1, height: float = 3.2) -> tuple[Any, list[Any]]:
    """A figure of that many inches, and its axes side by side."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    # Not pyplot: its figures live in a global table until they are closed.
    figure = Figure(figsize=(max(8, 2 * panels), height), layout="constrained")
    FigureCanvasSVG(figure)
    figure.set_label(title)
    axes = list(figure.subplots(1, panels, squeeze=False)[0])
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def log_x(axes: Any, base: int = 10) -> None:
    """A logarithmic axis whose numbers are plain: matplotlib's own are mathematics, or too many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log", base=base)
    if base == 10:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.15g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def inline(figure: Any) -> str:
    """The figure as an ``svg`` element; the same figure gives the same text.

    Black follows the text's colour, the ground is the page's, and names are unique to the figure,
    since a page has several.
    """
    from matplotlib import rc_context

    out = io.StringIO()
    title = figure.get_label()
    # matplotlib's ids are random otherwise, and the same report would differ each time.
    with rc_context({"svg.hashsalt": title}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r'\sxmlns(?::xlink)?="[^"]*"', "", text)
    text = text.replace("xlink:href", "href").replace("#000000", "currentColor")
    return re.sub(
        r'<svg width="[^"]*" height="[^"]*"',
        f'<svg role="img" aria-label="{escape(title)}"',
        text.strip(),
        count=1,
    )
