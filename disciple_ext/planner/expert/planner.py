"""The expert planner: offline, deterministic, and only for the tasks that it can read."""

from __future__ import annotations

from collections.abc import Sequence

from ...records.program import Program
from ...records.task import Task
from ..base import Feedback, Plan, Planner
from .constraints import Word, Writing
from .emit_word import emit_word
from .emit_writing import emit_writing
from .language import parse

__all__ = ["ExpertPlanner"]


class ExpertPlanner(Planner):
    """Writes programs that meet COLLIE's constraints, and the four PUZZLES, by construction.

    It uses no model and no network. The same task always gives the same program, so feedback
    changes nothing: a second attempt differs only in its random draws.
    """

    name = "expert"
    listens = False

    def quote(self, task: Task, feedback: Sequence[Feedback]) -> float:
        """It costs nothing."""
        return 0.0

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        """Write the program of a task.

        Args:
            task: what is asked for.
            feedback: failed attempts; not used.

        Raises:
            TaskNotUnderstood: the task is outside the language that this planner reads, or
                contradicts itself.
        """
        # Our own code with the task's words quoted in it: so it is trusted, as no model's program
        # is.
        program = Program(write_program(task.instruction), planner=self.name, trusted=True)
        return Plan(program, cost=0.0)


def write_program(instruction: str) -> str:
    """Source of the expert program for a task in plain language.

    Raises:
        TaskNotUnderstood: the task is outside the language that this planner reads.
    """
    constraints = parse(instruction)
    if isinstance(constraints, Writing):
        return emit_writing(constraints)
    if isinstance(constraints, Word):
        return emit_word(constraints)
    from .emit_puzzles import emit_puzzle

    return emit_puzzle(constraints)
