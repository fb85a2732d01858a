"""``disciple report``: tables, figures and pages from evaluation logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import DiscipleError, UsageError
from .console import answer, answer_json, note
from .progress import hush

if TYPE_CHECKING:
    from ..evaluation.report.tables import Report

__all__ = ["EXAMPLES", "report"]

EXAMPLES = (
    "disciple report runs/first",
    "disciple report runs/first --html report.html --markdown report.md",
    "disciple report runs/n8 runs/n16 runs/n32 --html budgets.html",
    "disciple report runs/samplers --methods",
    "disciple report runs/first --quality --words /usr/share/dict/words",
    "disciple report runs/first --inspect runs/inspect",
)


def report(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR", help="Logs' directories.")],
    html: Annotated[
        Path | None, typer.Option("--html", help="Write one page with tables and figures.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write the tables as Markdown.")
    ] = None,
    inspect: Annotated[
        Path | None,
        typer.Option("--inspect", metavar="DIR", help="Write logs that Inspect's viewer opens."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="With --inspect or --quality: the suite's instances."),
    ] = None,
    quality: Annotated[
        bool,
        typer.Option("--quality", help="How fluent the answers are, beside unconstrained samples."),
    ] = False,
    methods: Annotated[
        bool,
        typer.Option("--methods", help="Methods side by side: Pass@1, nats, tokens, seconds."),
    ] = False,
    method: Annotated[
        str | None, typer.Option("--method", help="With --quality: whose answers; default smc.")
    ] = None,
    words: Annotated[
        Path | None, typer.Option("--words", help="With --quality: a list of words, one a line.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Pass@1 by task and level with 95 % intervals, the paper's numbers beside it.

    The page and the Markdown also have Pass@k, budgets, coherency, checks against the ground
    truth, errors by retry, tokens and cost; each number names the lines it comes from.
    """
    from ..evaluation.report.series import logs_in

    logs = [log for directory in directories for log in logs_in(directory)]
    _usable(len(logs), inspect, data, quality, methods, method, words)
    from ..evaluation.report.build import build

    made = build(logs)
    measured: Any = None
    if quality:  # before anything is written: it may find that it cannot be measured
        hush()
        from ..evaluation.scores.quality import measure

        measured = measure(logs[0], method=method or "smc", words=words, data=data)
    if html is not None:
        from ..evaluation.report.figures import draw
        from ..evaluation.report.page import render_page

        _write(html, render_page(made, draw(made)))
    if markdown is not None:
        from ..evaluation.report.markdown import render_markdown

        _write(markdown, render_markdown(made))
    if inspect is not None:
        _inspect(made, data, inspect)
    if methods:
        _methods(logs[0], as_json)
    elif as_json:
        shown: dict[str, Any] = {"report": made.to_dict()}
        if len(logs) == 1:
            shown = _summary(logs[0]) | shown
        answer_json(shown | ({"quality": measured.to_dict()} if measured else {}))
    elif measured or not (html or markdown or inspect):
        from ..evaluation.report.markdown import render_table

        tables = [made.table("pass_at_1"), made.table("runs")]
        parts = [render_table(table) for table in tables if table is not None]
        answer("\n\n".join([*parts, *([measured.report()] if measured else [])]))


def _usable(
    logs: int,
    inspect: Path | None,
    data: Path | None,
    quality: bool,
    methods: bool,
    method: str | None,
    words: Path | None,
) -> None:
    """Refuse options that would be ignored."""
    if methods and quality:
        raise UsageError("choose --methods or --quality")
    if (methods or quality) and logs > 1:
        raise UsageError(f"--{'methods' if methods else 'quality'} takes a single log")
    if data is not None and not (inspect or quality):
        raise UsageError("--data goes with --inspect or --quality")
    for name, value in (("method", method), ("words", words)):
        if value is not None and not quality:
            raise UsageError(f"--{name} goes with --quality")


def _methods(directory: Path, as_json: bool) -> None:
    from ..evaluation.logs.log import read_log
    from ..evaluation.scores.comparison import compare, comparison_table

    standings = compare(read_log(directory))
    if as_json:
        answer_json([standing.to_dict() for standing in standings])
    else:
        answer(comparison_table(standings))


def _summary(directory: Path) -> dict[str, Any]:
    from ..evaluation.logs.log import read_log
    from ..evaluation.scores.metrics import summarise

    return summarise(read_log(directory)).to_dict()


def _inspect(made: Report, data: Path | None, directory: Path) -> None:
    from ..evaluation.report.inspect_log import write_inspect
    from ..evaluation.suites.puzzles import PUZZLES
    from ..registry.plugins import load_plugins

    tasks = {line.row.id: line.row.task for series in made.series for line in series.lines}
    prompts = {key: PUZZLES[task].prompt for key, task in tasks.items() if task in PUZZLES}
    for name in dict.fromkeys(log.suite for log in made.logs):
        try:
            suite = load_plugins().make("suites", name)
            prompts |= {instance.id: instance.prompt for instance in suite.instances(data)}
        except DiscipleError as error:
            if data is not None:
                raise
            if not set(tasks) <= set(prompts):
                note(f"instances are shown by their ids: {error}")
    for series in made.series:
        note(f"wrote {write_inspect(series, prompts, directory)}")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A model's text may hold half of a surrogate pair: one must not lose the whole report.
        path.write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
    note(f"wrote {path}")
