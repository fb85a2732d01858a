"""A plugin of disciple-ext with a hook of each kind that a single file can show."""

from __future__ import annotations

import sys
from typing import Any

from plain_style_rules import LowerCaseMask, long_words

from disciple_ext import hookimpl

# Worker side: where programs run, inside the sandbox ---------------------------------------------


@hookimpl
def register_masks() -> dict[str, Any]:
    """Programs write ``async with LowerCaseMask(self):``."""
    return {"LowerCaseMask": LowerCaseMask}


@hookimpl
def register_patterns() -> dict[str, Any]:
    """Programs call ``long_words(text)``; the paragraph tells planners of it."""
    return {"long_words": (long_words, "`long_words(text)`: the words of more than 9 letters.")}


# Host side: beside the model, with your rights ---------------------------------------------------


@hookimpl
def observe(event: Any) -> None:
    """Say when particles were copied. Imports are done here, so that loading stays quick."""
    from disciple_ext.records.events import Resampled

    if isinstance(event, Resampled):
        left = len(set(event.ancestors))
        print(f"plain-style: step {event.step}: {left} particles go on", file=sys.stderr)


@hookimpl
def register_suites() -> dict[str, Any]:
    """``disciple eval plain-style`` measures on these tasks."""
    return {"plain-style": suite}


def suite() -> Any:
    """One task, and its ground truth."""
    from disciple_ext.evaluation.suites.base import Budget, Instance, Suite

    short = Budget("short", n=8, timeout=60.0, tokens=32, prior_prompt="Write a sentence.")
    task = "Please generate a sentence with all words having at most 5 characters."
    return Suite(
        name="plain-style",
        budgets={"plain": short},
        instances=lambda path: [Instance("plain/0", "plain", task)],
        verify=lambda instance, text: bool(text) and not long_words(text, 5),
    )


@hookimpl
def register_commands(cli: Any) -> None:
    """``disciple long-words TEXT`` lists the long words of a text."""

    @cli.command("long-words")  # type: ignore[untyped-decorator]
    def command(text: str) -> None:
        """List the words of more than nine letters."""
        print("\n".join(long_words(text)))
