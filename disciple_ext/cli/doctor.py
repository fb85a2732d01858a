"""``disciple doctor``: what this machine offers, and how to get what is missing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ..doctor import diagnose
from .console import answer, answer_json

__all__ = ["EXAMPLES", "doctor"]

EXAMPLES = ("disciple doctor", "disciple doctor --json")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the conditions as JSON.")] = False,
) -> None:
    """Show what this machine offers: versions, model, key, data.

    Exits with 4 where something is missing without which nothing runs.
    """
    conditions = diagnose()
    if as_json:
        answer_json([asdict(condition) for condition in conditions])
    else:
        for condition in conditions:
            state = "ok" if condition.ok else ("MISSING" if condition.needed else "no")
            answer(f"{state:<8}{condition.name:<19}{condition.detail}")
            if condition.fix:
                answer(f"{'':<27}-> {condition.fix}")
    if any(condition.needed and not condition.ok for condition in conditions):
        raise typer.Exit(4)
