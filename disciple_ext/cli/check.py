"""``disciple check``: likely mistakes of a program, without running it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ..sandbox.check.check import check as find
from .console import answer, answer_json, note
from .files import read_program

__all__ = ["EXAMPLES", "check"]

EXAMPLES = ("disciple check program.py", "disciple plan TASK | disciple check -")


def check(
    program: Annotated[str, typer.Argument(help="A program's file, or - for standard input.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Report likely mistakes of a program, with their lines.

    The program is not run.
    Exits with 1 where the program cannot work as it is; warnings alone exit with 0. This helps to
    write programs. It is not a security boundary.
    """
    source = read_program(program)
    found = find(source)
    if as_json:
        answer_json([asdict(finding) for finding in found])
    else:
        for finding in found:
            kind = "error" if finding.fatal else "warning"
            answer(f"{program}:{finding.line}: {kind}: {finding.message}; {finding.suggestion}")
        if not found:
            note("no findings")
    if any(finding.fatal for finding in found):
        raise typer.Exit(1)
