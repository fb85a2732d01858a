"""A planner that asks the library first."""

from __future__ import annotations

from collections.abc import Sequence

from ..program import Program
from ..task import Task
from .base import Feedback, Plan, Planner
from .library import Library

__all__ = ["LibraryPlanner"]

TRIED = 2
"""Programs of the library tried on a task, at most, before the planner is asked."""


class LibraryPlanner:
    """Gives a program that solved such tasks before, and asks the planner where there is none.

    Args:
        inner: the planner to ask.
        library: programs that passed.
        writable: whether programs that pass now are kept, too.
        hold_out: whether entries of the task's own family are left alone, as an evaluation wants.
    """

    trusted = False

    def __init__(
        self, inner: Planner, library: Library, *, writable: bool, hold_out: bool = False
    ) -> None:
        self.name = inner.name
        self._inner = inner
        self._library = library
        self._writable = writable
        self._hold_out = hold_out

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        """A program of the library that was not tried yet, else one of the planner's.

        The planner hears nothing of the library's programs that failed: it did not write them.

        Raises:
            PlannerError: there is no program to be had.
        """
        own = [failed for failed in feedback if not is_from_library(failed.program)]
        tried = {failed.program.hash for failed in feedback}
        if not own and len(tried) < TRIED:
            hold_out = task.family if self._hold_out else None
            found = self._library.candidates(task.instruction, tried=tried, hold_out=hold_out)
            if found:
                return Plan(found[0].program, asked=False)
        return await self._inner.plan(task, own)

    def learn(self, task: Task, program: Program, passed: bool) -> None:
        """Keep what became of a program.

        Raises:
            UsageError: the library cannot be written.
        """
        if self._writable:
            self._library.record(program, task.instruction, passed, family=task.family)


def is_from_library(program: Program) -> bool:
    """Whether a program is an entry of a library."""
    return program.planner.startswith("library:")
