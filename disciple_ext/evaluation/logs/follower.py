"""Which follower an evaluation has where nobody names one: that of the log that goes on."""

from __future__ import annotations

from pathlib import Path

from ...models.default import named_follower
from .log import read_run

__all__ = ["follower_spec"]


def follower_spec(named: str | None, out: Path, *, resume: bool) -> str:
    """The follower that was named, else that of the log in ``out`` if it goes on, else the default.

    Raises:
        EvaluationError: the log's ``run.json`` cannot be read.
    """
    # The default may have changed since, when a model was added: one log cannot mix the two.
    before = read_run(out) if named is None and resume else None
    return named_follower(named if before is None else str(before["follower"]))
