"""What a command shows when an error ends it: what was done and paid for is not lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from ..errors import DiscipleError
from ..records.result import SCHEMA
from .console import answer_json, note, visible

__all__ = ["cost", "failing"]


@contextmanager
def failing(*, as_json: bool, quiet: bool) -> Iterator[None]:
    """Show what an error carries, before it ends the command."""
    try:
        yield
    except DiscipleError as error:
        if as_json:
            answer_json(_data(error))
        elif error.attempts and not quiet:  # each one's error was told when it came
            tried = ", ".join(attempt.outcome for attempt in error.attempts)
            note(f"attempts: {tried}; cost: {cost(error.cost)}")
            if error.result is not None and error.result.text is not None:
                note(f"the best answer, which was rejected: {visible(error.result.text)}")
        raise


def cost(dollars: float | None) -> str:
    """An amount of money, for a person."""
    if dollars is None:
        return "unknown (no price of the model, or no count of its tokens; see --prices)"
    return f"${dollars:.4f}"


def _data(error: DiscipleError) -> dict[str, Any]:
    """The error as JSON-safe data, with the attempts before it."""
    return {
        "schema": SCHEMA,
        "error": {"type": type(error).__name__, "message": str(error)},
        "attempts": [asdict(attempt) for attempt in error.attempts],
        "usage": None if error.usage is None else asdict(error.usage),
        "cost": error.cost,
        "result": None if error.result is None else error.result.to_dict(),
    }
