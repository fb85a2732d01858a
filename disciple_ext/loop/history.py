"""The history of an outer loop: what was tried, what it cost, and what the planner hears of it."""

from __future__ import annotations

import time
from dataclasses import replace

from ..errors import DiscipleError, PlannerError, ProgramError
from ..planner.base import Feedback, Plan, Planner
from ..planner.events import observed_by
from ..planner.purse import Purse
from ..records.events import AttemptFailed, Listener
from ..records.program import Program
from ..records.result import Attempt, Result, Usage
from ..records.task import Task
from .trial import Outcome, Trial

__all__ = ["History"]


class History:
    """Every attempt with its cost; the planner is asked only what can be paid for.

    Args:
        max_cost: US dollars that the planner's calls may cost in all, a purse that this run
            shares with others, or None for no limit.
        emit: called with the planner's events, and with each attempt that would not do.

    Attributes:
        attempts: the attempts so far.
        usage: what they used, planner and follower.
        cost: US dollars of the planner's calls, or None where one's is unknown.
        asked: programs that the planner was asked for, of the R that it may be.
        feedback: what the planner hears of the attempts that would not do.
        best: the best finished result, or None.

    Raises:
        UsageError: the limit is no amount of money.
    """

    def __init__(self, max_cost: float | Purse | None = None, emit: Listener | None = None) -> None:
        self.attempts: list[Attempt] = []
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.asked = 0
        self.feedback: list[Feedback] = []
        self.best: Result | None = None
        self._kept: Result | None = None  # what an error carries
        self._planning = self._rehearsing = 0.0
        self._emit = emit or (lambda event: None)
        self._purse = Purse(max_cost) if isinstance(max_cost, float | int) else max_cost

    async def ask(self, planner: Planner, task: Task) -> Plan:
        """Ask a planner for a program, unless that may cost more than is left.

        Raises:
            LimitExceeded: it may; its kind is ``"cost"``.
            UsageError: there is a limit, and nobody knows what the call may cost.
            DiscipleError: whatever the planner raises. Each of these carries the attempts so far
                and their cost.
        """
        begun = time.monotonic()
        quote, feedback = 0.0, tuple(self.feedback)
        try:
            if self._purse is not None:
                # Before the call: runs that share a purse must not spend the same dollars twice.
                quote = self._purse.reserve(planner.name, planner.quote(task, feedback))
            with observed_by(self._emit):
                plan = await planner.plan(task, feedback)
        except DiscipleError as error:
            failed = _failed(error)
            # A call that failed is billed all the same, and what was reserved for it must be freed.
            self._pay(failed.usage, failed.cost, quote)
            # A refusal for want of money is no attempt: nobody was asked.
            if isinstance(error, PlannerError):
                self.tried(failed, time.monotonic() - begun, error=error)
            self.close(error)
            raise
        self._pay(plan.usage, plan.cost, quote)
        # A library's program counts 0: it costs no call, so it uses up none of the R.
        self.asked += plan.asked
        self._planning += time.monotonic() - begun
        return plan

    def add(self, trial: Trial, outcome: Outcome) -> None:
        """Enter what became of a trial. What is finished is never lost.

        Of finished attempts that are equally good the later one is kept: its planner knew more.
        """
        self._rehearsing += trial.rehearsing
        result = outcome.result
        if outcome.error is not None:
            if result is not None and self._kept is None:  # it ran well, and the verifier failed
                self._kept = self.settled(result)
            self.tried(trial.plan, outcome.seconds, error=outcome.error)
            self._reject(trial, outcome)
            return
        assert result is not None
        self.tried(trial.plan, outcome.seconds, result=result, why=outcome.why)
        if self.best is None or outcome.accepted or _worth(result) >= _worth(self.best):
            self.best = self._timed(result)
        if not outcome.accepted:
            self._reject(trial, outcome)
            self._kept = self.settled(self.best)

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
                traceback=error.traceback if isinstance(error, ProgramError) else "",
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
        error.usage, error.cost, error.result = self.usage, self.cost, self._kept

    def _reject(self, trial: Trial, outcome: Outcome) -> None:
        """Have observers and the planner hear of an attempt that would not do."""
        heard = trial.feedback(outcome)
        reason = "rejected" if outcome.error is None else type(outcome.error).__name__
        self._emit(AttemptFailed(trial.number, heard.error, reason))
        self.feedback.append(heard)

    def _timed(self, result: Result) -> Result:
        # Planning and dry runs are those of all attempts so far; the rest is the kept run's own.
        timings = {"planning": round(self._planning, 3), **result.timings}
        if self._rehearsing:
            timings["dry_run"] = round(self._rehearsing, 3)
        return replace(result, timings=timings)

    def _pay(self, usage: Usage, cost: float | None, quote: float) -> None:
        self.usage += usage
        if self._purse is not None:
            self._purse.settle(quote, cost)
        # One unknown part makes the sum unknown; a sum of the known parts would look like all of
        # it.
        self.cost = None if cost is None or self.cost is None else self.cost + cost


def _failed(error: DiscipleError) -> Plan:
    """The plan of a call that ended in an error: no program, but it may have cost something.

    Only a planner that was asked leaves an unknown cost behind.
    """
    cost = error.cost if isinstance(error, PlannerError) else error.cost or 0.0
    return Plan(Program(""), error.usage or Usage(), cost)


def _worth(result: Result) -> tuple[int, int]:
    # The user's verifier outranks the program's own check, which a model wrote.
    rank = {False: 0, None: 1, True: 2}
    return rank[result.verified], rank[result.check]
