"""What both samplers share: how many beams, how many copies of each, and who is copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llamppl.modeling import Model

from disciple_ext import UsageError

__all__ = ["ancestors", "checked", "shape"]


def checked(copies: int) -> int:
    """The number of copies, if it is one.

    Raises:
        UsageError: it is no whole number from 1 on.
    """
    if not isinstance(copies, int) or isinstance(copies, bool) or copies < 1:
        raise UsageError(f"copies must be a whole number of at least 1, not {copies!r}")
    return copies


def shape(n: int, copies: int) -> tuple[int, int]:
    """Beams M and copies K with M x K <= n: the work of a step is at most that of n particles.

    K is lowered where n is small, so that there are two beams if n allows them.
    """
    copies = max(1, min(copies, n // 2))
    return n // copies, copies


def ancestors(particles: Sequence[Model], kept: Iterable[int], copies: int) -> list[int]:
    """Every kept index once if its particle has finished, else ``copies`` times."""
    return [i for i in kept for _ in range(1 if particles[i].done_stepping() else copies)]
