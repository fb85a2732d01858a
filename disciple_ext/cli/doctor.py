"""``disciple doctor``: what this machine offers, and how to get what is missing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ..doctor import Control, diagnose
from .console import answer, answer_json, visible

__all__ = ["EXAMPLES", "doctor"]

EXAMPLES = ("disciple doctor", "disciple doctor --json")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the conditions as JSON.")] = False,
) -> None:
    """Show what this machine offers: versions, model, sandbox, key, data.

    The sandbox is tried out: probe processes do harmless things before and after they lock
    themselves. Exits with 4 where something is missing without which nothing runs.
    """
    conditions = diagnose()
    if as_json:
        answer_json([asdict(condition) for condition in conditions])
    else:
        for condition in conditions:
            state = "ok" if condition.ok else ("MISSING" if condition.needed else "no")
            answer(f"{state:<8}{condition.name:<19}{visible(condition.detail)}")
            if condition.fix:
                answer(f"{'':<27}-> {visible(condition.fix)}")
            for control in condition.controls:
                answer(f"{'':<27}{_tried(control)}")
    if any(condition.needed and not condition.ok for condition in conditions):
        raise typer.Exit(4)


def _tried(control: Control) -> str:
    """One control: what it tried, what happened before and after the lock, and the verdict."""
    before, after = ("works" if done else "fails" for done in (control.before, control.after))
    return f"{control.name:<24}before {before}, after {after}: {control.verdict}"
