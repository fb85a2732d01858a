"""What a planner is: a task, and what went wrong before, to a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..records.program import Program
from ..records.result import Usage
from ..records.task import Task

__all__ = ["Feedback", "Plan", "Planner"]


@dataclass(frozen=True)
class Feedback:
    """One failed attempt, as the planner is told of it.

    Attributes:
        program: the program that failed.
        error: what happened, in one or a few lines.
        traceback: the traceback cut to the program's own lines, or the empty string.
        attempt: number of the attempt, from 1.
        diagnosis: what the run showed, one sentence each (see ``planner.feedback``).
        warnings: likely mistakes that were seen before the run, one sentence each.
        outputs: some of the texts, each with what became of it.
    """

    program: Program
    error: str
    traceback: str
    attempt: int
    diagnosis: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Plan:
    """A planner's answer.

    Attributes:
        program: the program to run.
        usage: the planner's tokens.
        cost: US dollars, or None where the tokens or their price are unknown.
        cached_answer: whether the answer came from a cache or a recording.
        asked: False where the program was at hand (a library's): it is none of the R programs.
    """

    program: Program
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    cached_answer: bool = False
    asked: bool = True


class Planner(Protocol):
    """Writes inference programs.

    Attributes:
        name: such as ``"expert"`` or ``"openai:gpt-4o"``; kept with each program.

    A planner may also have

    - ``trusted = False``: it is not asked where its program could not be run, and its programs are
      checked and rehearsed before a follower runs them;
    - ``paragraphs``: it is told there what plugins say of their masks and patterns;
    - ``quote(task, feedback) -> float | None``: US dollars that the next call of :meth:`plan` may
      cost at most, None where a price is unknown; without it there is no limit on the cost;
    - ``bind(follower, run) -> Planner``: for planners that ask the follower itself. ``run`` takes
      a coroutine, and awaits it on the event loop that the follower's other work is on;
    - ``learn(task, program, passed)``: it is told what became of each program.
    """

    name: str

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        """Write a program for ``task``.

        Args:
            task: what is asked for.
            feedback: the failed attempts so far, oldest first.

        Raises:
            PlannerError: there is no program to be had.
            TaskNotUnderstood: this planner cannot read the task.
        """
        ...
