"""A planner that asks the library first."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import UsageError
from ...records.program import Program
from ...records.task import Task
from ..base import Feedback, Plan, Planner, PlannerLike, as_planner
from .store import Entry, Library, default_folder

__all__ = ["MODES", "LibraryPlanner", "with_library"]

MODES = ("off", "read", "on")
"""How a library is used; see :func:`with_library`."""

TRIED = 2
"""Programs of the library tried on a task, at most, before the planner is asked."""


class LibraryPlanner(Planner):
    """Gives a program that solved such tasks before, and asks the planner where there is none.

    Args:
        inner: the planner to ask.
        library: programs that passed.
        writable: whether programs that pass now are kept, too.
        hold_out: whether entries of the task's own family are left alone, as an evaluation wants.
    """

    trusted = False

    def __init__(
        self, inner: PlannerLike, library: Library, *, writable: bool, hold_out: bool = False
    ) -> None:
        self._inner = as_planner(inner)
        # The planner's name: prices, messages and logs are about what is asked and paid for.
        self.name, self.listens = self._inner.name, self._inner.listens
        self._library = library
        self._writable = writable
        self._hold_out = hold_out

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        """A program of the library that was not tried yet, else one of the planner's.

        The planner hears nothing of the library's programs that failed: it did not write them.

        Raises:
            PlannerError: there is no program to be had.
        """
        entry = self._candidate(task, feedback)
        if entry is not None:
            return Plan(entry.program, cost=0.0, asked=False)
        return await self._inner.plan(task, _own(feedback))

    def quote(self, task: Task, feedback: Sequence[Feedback]) -> float | None:
        """US dollars that the next call may cost at most: none where a program is at hand."""
        if self._candidate(task, feedback) is not None:
            return 0.0
        return self._inner.quote(task, _own(feedback))

    def learn(self, task: Task, program: Program, passed: bool) -> None:
        """Keep what became of a program.

        Raises:
            UsageError: the library cannot be written.
        """
        if self._writable:
            self._library.record(program, task.instruction, passed, family=task.family)

    def _candidate(self, task: Task, feedback: Sequence[Feedback]) -> Entry | None:
        tried = {failed.program.hash for failed in feedback}
        # Once the planner was asked, the library is done: its programs would not learn from the
        # feedback.
        if _own(feedback) or len(tried) >= TRIED:
            return None
        hold_out = task.family if self._hold_out else None
        found = self._library.candidates(task.instruction, tried=tried, hold_out=hold_out)
        return found[0] if found else None


def _own(feedback: Sequence[Feedback]) -> list[Feedback]:
    """What the planner hears: of its own programs."""
    return [failed for failed in feedback if not is_from_library(failed.program)]


def with_library(planner: Planner, mode: str) -> Planner:
    """A planner behind the user's library.

    Args:
        planner: the planner to ask where the library has nothing.
        mode: ``"on"``; ``"read"``, which keeps no programs; or ``"off"``: the planner itself.

    Raises:
        UsageError: there is no such mode.
    """
    if mode not in MODES:
        raise UsageError(f"--library is one of {', '.join(MODES)}, not {mode!r}")
    if mode == "off":
        return planner
    library = Library(default_folder())
    planner.library = library  # the nearest programs are its examples
    return LibraryPlanner(planner, library, writable=mode == "on")


def is_from_library(program: Program) -> bool:
    """Whether a program is an entry of a library."""
    return program.planner.startswith("library:")
