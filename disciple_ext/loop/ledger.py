"""The account of an outer loop: what was tried, what it cost, and what is left to spend."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ..errors import DiscipleError, PlannerError
from ..planner.base import Feedback, Plan, Planner
from ..planner.notices import heard_by
from ..planner.purse import Purse
from ..records.events import Listener
from ..records.program import Program
from ..records.result import Attempt, Result, Usage
from ..records.task import Task

__all__ = ["Ledger"]


class Ledger:
    """Keeps every attempt with its cost, and asks the planner only what can be paid for.

    Args:
        max_cost: US dollars that the planner's calls may cost in all, a purse that this run
            shares with others, or None for no limit.

    Attributes:
        attempts: the attempts so far.
        usage: what they used, planner and follower.
        cost: US dollars of the planner's calls, or None where one's is unknown.
        result: the best finished result that would not quite do, or None.

    Raises:
        UsageError: the limit is no amount of money.
    """

    def __init__(self, max_cost: float | Purse | None = None) -> None:
        self.attempts: list[Attempt] = []
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.result: Result | None = None
        self._purse = Purse(max_cost) if isinstance(max_cost, float | int) else max_cost

    async def ask(
        self, planner: Planner, task: Task, feedback: Sequence[Feedback], listener: Listener
    ) -> Plan:
        """Ask a planner for a program, unless that may cost more than is left.

        Raises:
            LimitExceeded: it may; its kind is ``"cost"``.
            UsageError: there is a limit, and nobody knows what the call may cost.
            DiscipleError: whatever the planner raises. Each of these carries the attempts so far
                and their cost.
        """
        begun = time.monotonic()
        quote = 0.0
        try:
            if self._purse is not None:
                price = getattr(planner, "quote", None)
                quote = self._purse.reserve(
                    planner.name, price(task, feedback) if price is not None else None
                )
            with heard_by(listener):
                plan = await planner.plan(task, feedback)
        except DiscipleError as error:
            failed = _failed(error)
            self._pay(failed.usage, failed.cost, quote)
            if isinstance(error, PlannerError):
                self.tried(failed, time.monotonic() - begun, error=error)
            self.close(error)
            raise
        self._pay(plan.usage, plan.cost, quote)
        return plan

    def tried(
        self,
        plan: Plan,
        seconds: float,
        *,
        error: DiscipleError | None = None,
        result: Result | None = None,
        why: str = "",
    ) -> None:
        """Enter an attempt: its plan, and the error or the result that it ended in.

        Args:
            plan: what was run.
            seconds: how long.
            error: what ended the run.
            result: what came of it.
            why: what speaks against the result, if anything does.
        """
        used = result.usage if result is not None else Usage()
        self.usage += used
        self.attempts.append(
            Attempt(
                program=plan.program.source,
                outcome=type(error).__name__ if error else "rejected" if why else "ok",
                error=str(error) if error else why or None,
                traceback=getattr(error, "traceback", ""),
                seconds=round(seconds, 3),
                usage=plan.usage + used,
                cost=plan.cost,
                cached_answer=plan.cached_answer,
            )
        )

    def settled(self, result: Result) -> Result:
        """A result with all attempts, and what they took together."""
        attempts = tuple(self.attempts)
        return replace(result, attempts=attempts, usage=self.usage, cost=self.cost)

    def close(self, error: DiscipleError) -> None:
        """Have an error carry all attempts, and what they took together."""
        error.attempts = tuple(self.attempts)
        error.usage, error.cost, error.result = self.usage, self.cost, self.result

    def _pay(self, usage: Usage, cost: float | None, quote: float) -> None:
        self.usage += usage
        if self._purse is not None:
            self._purse.settle(quote, cost)
        self.cost = None if cost is None or self.cost is None else self.cost + cost


def _failed(error: DiscipleError) -> Plan:
    """The plan of a call that ended in an error: no program, but it may have cost something.

    Only a planner that was asked leaves an unknown cost behind.
    """
    cost = error.cost if isinstance(error, PlannerError) else error.cost or 0.0
    return Plan(Program(""), error.usage or Usage(), cost)
