"""A report as one HTML page that needs nothing but itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files

from ..scores.answers import drawn_answer
from .figures import FIGURES
from .series import Line, Series
from .tables import Cell, Report, Table, ranges

__all__ = ["render_page"]

# The page loads nothing; texts are escaped, since 'unsafe-inline' does not tell scripts apart.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Evaluation report</title>
<style>
{css}
</style>
</head>
<body>
{body}
<script>
{js}
</script>
</body>
</html>
"""


def render_page(report: Report, figures: Mapping[str, str]) -> str:
    """The page.

    Every number that comes from a log says on hover which lines it comes from, and a click on it
    shows these runs in the table at the end.

    Args:
        report: what it says.
        figures: SVG by name, as :func:`disciple_ext.evaluation.report.figures.draw` gives it.
    """
    body = [
        "<h1>Evaluation report</h1>",
        _about(report),
        "<p>Hover over a number for the lines of the log that it comes from; click on it to see "
        "these runs.</p>",
        *(_section(table, figures) for table in report.tables),
        _runs(report),
    ]
    return _PAGE.format(
        policy=_POLICY, css=_asset("page.css"), js=_asset("page.js"), body="\n".join(body)
    )


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8").strip()


def _about(report: Report) -> str:
    parts = []
    for log in report.logs:
        settings = escape(json.dumps(dict(log.run), indent=2, ensure_ascii=False))
        head = (
            f"{escape(log.label)}: follower {escape(log.follower)}, planner {escape(log.planner)}"
        )
        parts.append(f"<details><summary>{head}</summary><pre>{settings}</pre></details>")
    return "\n".join(parts)


def _section(table: Table, figures: Mapping[str, str]) -> str:
    drawn = "\n".join(
        f'<figure id="figure-{name}">{figures[name]}</figure>'
        for name, (key, _) in FIGURES.items()
        if key == table.key and name in figures
    )
    head = f"<h2>{escape(table.title)}</h2>\n<p>{escape(table.what)}</p>"
    shown = _table(table)
    if table.folded:
        shown = f"<details><summary>{len(table.rows)} rows</summary>{shown}</details>"
    return f'<section id="{table.key}">\n{head}\n{drawn}\n{shown}\n</section>'


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(h)}</th>' for h in (table.corner, *table.columns))
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(map(_cell, cells))}</tr>'
        for name, cells in table.rows
    )
    return f'<div class="wide"><table>\n<tr>{heads}</tr>\n{rows}\n</table></div>'


def _cell(cell: Cell) -> str:
    if cell.value is None:
        return "<td></td>"
    if isinstance(cell.value, str):
        return f'<td class="text">{escape(cell.value)}</td>'
    number = f"{cell.value:.{cell.digits}f}"
    interval = cell.text.removeprefix(number).strip()
    shown = number + (f" <small>{interval}</small>" if interval else "")
    if cell.published:
        return f'<td class="paper" title="{escape(cell.published)}">{shown}</td>'
    title = f"{len(cell.lines)} lines: {_named(cell)}"
    data = escape(json.dumps(ranges(cell.lines), ensure_ascii=False))
    return f'<td title="{escape(title)}" data-lines="{data}">{shown}</td>'


def _named(cell: Cell) -> str:
    return "; ".join(f"{log} {numbers}" for log, numbers in ranges(cell.lines).items())


def _runs(report: Report) -> str:
    heads = ("line", "method", "instance", "n", "Pass@1", "seconds", "attempts", "error", "answer")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    rows = "\n".join(_run(series, line) for series in report.series for line in series.lines)
    return (
        '<section id="runs-by-line">\n<h2>Every run</h2>\n'
        '<p><span id="shown">All runs.</span> <button type="button" id="all" hidden>Show all'
        "</button></p>\n"
        f'<details id="every"><summary>{sum(len(s.lines) for s in report.series)} runs</summary>'
        f'<div class="wide"><table>\n<tr>{head}</tr>\n{rows}\n</table></div></details>\n</section>'
    )


def _run(series: Series, line: Line) -> str:
    row = line.row
    anchor = f"{line.log}:{line.number}"
    error = "" if row.error is None else f"{row.error['type']}: {row.error['message']}"
    cells = (
        *(series.name, row.id, str(row.n), f"{row.pass_at_1:.3f}", f"{row.seconds:.2f}"),
        *(str(len(row.attempts)), error, drawn_answer(row) or ""),
    )
    shown = "".join(f'<td class="text">{escape(cell)}</td>' for cell in cells)
    link = f'<a href="#{escape(anchor)}">{escape(anchor)}</a>'
    return (
        f'<tr id="{escape(anchor)}" data-log="{escape(line.log)}" data-line="{line.number}">'
        f'<th scope="row">{link}</th>{shown}</tr>'
    )
