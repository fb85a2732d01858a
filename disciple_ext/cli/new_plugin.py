"""``disciple new-plugin``: a plugin package to begin with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from .console import answer, answer_json, examples, note

__all__ = ["EXAMPLES", "app", "sampler"]

EXAMPLES = (
    "disciple new-plugin sampler tempered-smc",
    "disciple new-plugin sampler tempered-smc --out plugins/tempered --json",
)

app = typer.Typer(
    help="Write a plugin package whose tests pass, to begin with.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _kinds() -> None:
    """Write a plugin package whose tests pass, to begin with."""


@app.command("sampler", epilog=examples(*EXAMPLES))
def sampler(
    name: Annotated[
        str, typer.Argument(help="The sampler's name: lower-case letters, digits, dashes.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Directory, new or empty; default: ./disciple-NAME."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Write a package with a sampler: sequential Monte Carlo in about twenty lines, and its tests.

    Prints the directory. Nothing is overwritten.
    """
    from ..scaffold.new_plugin import new_sampler  # loads plugins

    made = new_sampler(name, out)
    steps = [
        f"cd {shlex.quote(str(made.directory))}",
        "pip install -e '.[test]'",
        "pytest",
        "disciple samplers",
    ]
    if as_json:
        answer_json(
            {
                "name": made.names.name,
                "distribution": made.names.distribution,
                "module": made.names.module,
                "class": made.names.cls,
                "directory": str(made.directory),
                "files": list(made.files),
                "next": steps,
            }
        )
        return
    answer(str(made.directory))
    note(f"wrote {len(made.files)} files; {made.names.module}/sampler.py holds the sampler. Next:")
    for step in steps:
        note(f"  {step}")
