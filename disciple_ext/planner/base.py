"""What a planner is: a task, and what went wrong before, to a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..protocol.follower import BaseFollower
from ..records.program import Program
from ..records.result import Usage
from ..records.task import Task

__all__ = ["Feedback", "Plan", "Planner", "PlannerLike", "Runner", "as_planner"]

Runner = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
"""Awaits a coroutine on the event loop that the follower's other work is on."""


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


class PlannerLike(Protocol):
    """The least that a planner is: a name, and :meth:`Planner.plan`.

    Such an object may have any of the other attributes and methods of :class:`Planner`, too; one
    with ``bind`` needs a follower.
    """

    @property
    def name(self) -> str:
        """Such as ``"expert"`` or ``"openai:gpt-4o"``."""
        ...

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        """Write a program for ``task``."""
        ...


class Planner(ABC):
    """Writes inference programs.

    Attributes:
        name: such as ``"expert"`` or ``"openai:gpt-4o"``; kept with each program.
        trusted: where False, the planner is not asked where its program could not be run, and its
            programs are checked and rehearsed before a follower runs them.
        listens: whether feedback changes what it writes. Where it does not, another attempt
            differs in its random draws only.
        needs_follower: whether it asks the follower itself: :meth:`bind` comes before the rest.
        paragraphs: set to what plugins say of their masks and patterns.
        library: set to the user's library of programs where one is in use: the nearest of them
            may be examples.
        examples: which expert programs it is shown, or None for a planner that has no use for any.
        chat: the chat model behind it, which an evaluation may ask for a text itself, or None.
    """

    name: str
    trusted: bool = True
    listens: bool = True
    needs_follower: bool = False
    paragraphs: Sequence[str] = ()
    # The types of these two stand on this module.
    library: Any = None
    chat: Any = None
    examples: str | None = None

    @abstractmethod
    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        """Write a program for ``task``.

        Args:
            task: what is asked for.
            feedback: the failed attempts so far, oldest first.

        Raises:
            PlannerError: there is no program to be had.
            TaskNotUnderstood: this planner cannot read the task.
        """

    def quote(self, task: Task, feedback: Sequence[Feedback]) -> float | None:
        """US dollars that the next call of :meth:`plan` may cost at most.

        None where a price is unknown: then the cost cannot be limited.
        """
        return None

    def bind(self, follower: BaseFollower, run: Runner | None = None) -> Planner:
        """The planner that asks this follower; itself where it needs none.

        Args:
            follower: the follower.
            run: where its work is done, or None for the loop that asks.
        """
        return self

    def learn(self, task: Task, program: Program, passed: bool) -> None:  # noqa: B027
        """Hear what became of a program.

        Raises:
            UsageError: it cannot be kept; the answer is given all the same.
        """


def as_planner(planner: PlannerLike) -> Planner:
    """A planner with the whole contract: the object itself, or one around it.

    What the object does not have is as :class:`Planner` has it, except that one named ``expert``
    does not listen.
    """
    return planner if isinstance(planner, Planner) else _Adapted(planner)


class _Own:
    """An attribute that is the adapted object's where it has it, and else the contract's."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, adapter: _Adapted, owner: type) -> Any:
        return getattr(adapter.given, self._name, getattr(Planner, self._name))

    def __set__(self, adapter: _Adapted, value: Any) -> None:
        # What the object has no use for is not put on it: it is a third party's.
        if hasattr(adapter.given, self._name):
            setattr(adapter.given, self._name, value)


class _Adapted(Planner):
    """A third party's object with a name and ``plan``: the only place that looks at what it has."""

    paragraphs, library, chat, examples = _Own(), _Own(), _Own(), _Own()

    def __init__(self, given: PlannerLike) -> None:
        self.given: Any = given
        self.name = given.name
        # Only False itself counts: an object that says nothing is as `Planner` is, the user's own.
        self.trusted = getattr(given, "trusted", None) is not False
        # An object around the expert takes its name, and would be asked for the same program again.
        self.listens = getattr(given, "listens", given.name != "expert")
        self.needs_follower = hasattr(given, "bind")

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        return await self.given.plan(task, feedback)  # type: ignore[no-any-return]

    def quote(self, task: Task, feedback: Sequence[Feedback]) -> float | None:
        if not hasattr(self.given, "quote"):
            return None
        return self.given.quote(task, feedback)  # type: ignore[no-any-return]

    def bind(self, follower: BaseFollower, run: Runner | None = None) -> Planner:
        return as_planner(self.given.bind(follower, run)) if self.needs_follower else self

    def learn(self, task: Task, program: Program, passed: bool) -> None:
        if hasattr(self.given, "learn"):
            self.given.learn(task, program, passed)
