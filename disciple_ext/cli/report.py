"""``disciple report``: tables from an evaluation log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import answer, answer_json
from .progress import hush

__all__ = ["EXAMPLES", "report"]

EXAMPLES = (
    "disciple report runs/first",
    "disciple report runs/samplers --methods",
    "disciple report runs/first --quality --words /usr/share/dict/words",
)


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A log's directory.")],
    quality: Annotated[
        bool,
        typer.Option("--quality", help="How fluent the answers are, beside unconstrained samples."),
    ] = False,
    methods: Annotated[
        bool,
        typer.Option("--methods", help="Methods side by side: Pass@1, nats, tokens, seconds."),
    ] = False,
    method: Annotated[str, typer.Option("--method", help="With --quality: whose answers.")] = "smc",
    words: Annotated[
        Path | None, typer.Option("--words", help="With --quality: a list of words, one a line.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Weighted Pass@1 by task; with --quality also fluency, and 20 unselected answers."""
    from ..evaluation.comparison import compare, comparison_table
    from ..evaluation.log import read_log
    from ..evaluation.metrics import summarise

    rows = read_log(directory)
    if methods:
        standings = compare(rows)
        if as_json:
            answer_json([standing.to_dict() for standing in standings])
        else:
            answer(comparison_table(standings))
        return
    summary = summarise(rows)
    if not quality:
        answer_json(summary.to_dict()) if as_json else answer(summary.table())
        return
    hush()
    from ..evaluation.quality import measure

    measured = measure(directory, method=method, words=words)
    if as_json:
        answer_json(summary.to_dict() | {"quality": measured.to_dict()})
    else:
        answer(f"{summary.table()}\n\n{measured.report()}")
