"""A planner that needs no model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import PlannerError
from ..planner.base import Feedback, Plan
from ..records.program import Program
from ..records.task import Task

__all__ = ["ReplayPlanner"]


class ReplayPlanner:
    """A planner that gives ready programs, one after the other.

    Attributes:
        programs: what is left to give.
        feedback: the feedback of each call so far.
    """

    name = "replay"

    def __init__(self, programs: Iterable[str | Program]) -> None:
        self.programs = [
            p if isinstance(p, Program) else Program(p, planner=self.name) for p in programs
        ]
        self.feedback: list[tuple[Feedback, ...]] = []

    def quote(self, task: Task, feedback: Sequence[Feedback]) -> float:
        """It costs nothing."""
        return 0.0

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        """The next program.

        Raises:
            PlannerError: there is none left.
        """
        self.feedback.append(tuple(feedback))
        if not self.programs:
            empty = PlannerError(f"the replay planner has no program for call {len(self.feedback)}")
            empty.cost = 0.0
            raise empty
        return Plan(self.programs.pop(0), cost=0.0)
