"""One trial of the outer loop: a program is inspected, rehearsed, run and judged."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from ..errors import DiscipleError, LimitExceeded, ProgramError
from ..planner.base import Feedback, Plan
from ..planner.feedback import Diagnosis, judge, outputs
from ..records.result import Result
from ..records.task import Task
from ..run.launch import launch
from ..run.rehearsal import inspect_source, rehearse
from ..run.setting import LoadedSetting
from ..run.verify import verified

__all__ = ["Outcome", "Trial"]

_SEED_STEP = 1_000_003
"""Another attempt with the same program must not repeat the same draws."""


@dataclass(frozen=True)
class Outcome:
    """What became of a trial.

    Attributes:
        seconds: how long it took, from the last step that passed.
        result: of a run that came to its end; beside an error, one that could not be verified.
        why: what speaks against the result, or the empty string.
        error: what ended the trial, or None.
        retry: whether another trial may do better.
    """

    seconds: float
    result: Result | None = None
    why: str = ""
    error: DiscipleError | None = None
    retry: bool = True

    @property
    def accepted(self) -> bool:
        """Whether the run came to its end, and nothing speaks against it."""
        return self.error is None and not self.why

    @property
    def final(self) -> bool:
        """Whether an error ended it for which no program is to blame: the loop ends with it."""
        return self.error is not None and not isinstance(self.error, ProgramError | LimitExceeded)

    @property
    def passed(self) -> bool | None:
        """Whether the program passed a check or a verifier; None where it is not to blame.

        A limit may be the machine's fault.
        """
        if self.error is not None:
            return False if isinstance(self.error, ProgramError) else None
        assert self.result is not None
        return self.accepted and bool(self.result.check or self.result.verified)


class Trial:
    """One program on its way to a result.

    Args:
        number: of the attempt, from 1.
        plan: with the program.
        by_model: whether a model wrote it: such a program is inspected and rehearsed first.
        listens: whether its planner would write another one, knowing what was wrong.

    Attributes:
        number: the same.
        plan: the same.
        rehearsing: seconds of its dry run.
    """

    def __init__(self, number: int, plan: Plan, *, by_model: bool, listens: bool) -> None:
        self.number = number
        self.plan = plan
        self.rehearsing = 0.0
        self._by_model = by_model
        # A model's programs may differ each time; the expert would write the same again.
        self._mendable = listens or by_model
        self._diagnosis = Diagnosis(plan.program.source)
        self._findings: tuple[str, ...] = ()
        self._warnings: tuple[str, ...] = ()
        self._begun = time.monotonic()

    async def run(
        self, task: Task, load: Callable[[], Awaitable[LoadedSetting]], *, dry_run: bool
    ) -> Outcome:
        """Inspect, rehearse and run the program, and judge what came of it.

        Args:
            task: what is asked for.
            load: gives the setting once there is something to run.
            dry_run: whether a model's program is rehearsed.

        Raises:
            DiscipleError: whatever ``load`` raises: that is no outcome of this program.
        """
        program, result = self.plan.program, None
        self._begun = time.monotonic()
        try:
            if self._by_model:
                # Before `load`: a program that cannot work should not have a model loaded for it.
                self._findings = self._warnings = inspect_source(program)
        except DiscipleError as error:
            return self._ended(error)
        # Loading the model is no part of the attempt, so the clock starts again below.
        setting = await load()
        self._begun = time.monotonic()
        try:
            if self._by_model and dry_run:
                await self._rehearse(task, setting)
            result = await launch(program, task, self._own(setting))
            result = verified(result, task)
        except DiscipleError as error:
            return self._ended(error, result)
        # The caller's seed, not the attempt's own: that one gives the whole result again.
        result, why = replace(result, seed=setting.seed), ""
        # The expert would write the same again: only the user's verifier is worth other draws.
        if self._mendable or result.verified is False:
            why = judge(result, program.source, self._findings)
        return Outcome(self._seconds(), result, why)

    def feedback(self, outcome: Outcome) -> Feedback:
        """What the planner hears of the trial."""
        program, error, diagnosis = self.plan.program, outcome.error, self._diagnosis
        if error is None:
            assert outcome.result is not None
            seen, texts = diagnosis.sentences(), outputs(outcome.result.particles)
            return Feedback(program, outcome.why, "", self.number, seen, self._warnings, texts)
        traceback = error.traceback if isinstance(error, ProgramError) else ""
        # If the run never began, the diagnosis saw nothing, and would blame the follower for it.
        seen = diagnosis.sentences() if diagnosis.began else ()
        texts = diagnosis.texts()
        return Feedback(program, str(error), traceback, self.number, seen, self._warnings, texts)

    def _ended(self, error: DiscipleError, result: Result | None = None) -> Outcome:
        """The outcome of a trial that an error ended."""
        # Without another program, a limit would be reached again.
        retry = isinstance(error, ProgramError) or (
            isinstance(error, LimitExceeded) and self._mendable
        )
        return Outcome(self._seconds(), result, error=error, retry=retry)

    async def _rehearse(self, task: Task, setting: LoadedSetting) -> None:
        self._warnings += await rehearse(self.plan.program, task, setting)
        self.rehearsing = self._seconds()
        self._begun = time.monotonic()

    def _own(self, setting: LoadedSetting) -> LoadedSetting:
        """The setting with the trial's seed, and with its diagnosis listening."""
        observers = setting.observers
        # A diagnosis that nobody will read would only cost the sending of events.
        if self._mendable:
            observers = (*observers, self._diagnosis)
        seed = setting.seed + _SEED_STEP * (self.number - 1)
        return replace(setting, seed=seed, observers=observers)

    def _seconds(self) -> float:
        return time.monotonic() - self._begun
