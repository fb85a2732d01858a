"""What the outer loop has tried: what the planner hears of it, and the best that came of it."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import DiscipleError
from ..planner.base import Feedback, Plan
from ..planner.feedback import Diary, outputs
from ..records.events import AttemptFailed, Event
from ..records.result import Result
from .ledger import Ledger

__all__ = ["Attempts"]


class Attempts:
    """The attempts so far. What is finished is never lost.

    Args:
        ledger: the account that they are entered in.
        emit: told of each attempt that would not do.

    Attributes:
        feedback: what the planner hears of those that would not do.
        best: the best finished result, or None.
    """

    def __init__(self, ledger: Ledger, emit: Callable[[Event], None]) -> None:
        self.feedback: list[Feedback] = []
        self.best: Result | None = None
        self._ledger = ledger
        self._emit = emit

    def failed(
        self,
        number: int,
        plan: Plan,
        error: DiscipleError,
        seconds: float,
        diary: Diary,
        warnings: tuple[str, ...],
    ) -> None:
        """Note an attempt that ended in an error."""
        self._ledger.tried(plan, seconds, error=error)
        self._emit(AttemptFailed(number, str(error), type(error).__name__))
        seen = diary.sentences() if diary.began else ()
        traceback = getattr(error, "traceback", "")
        told = Feedback(plan.program, str(error), traceback, number, seen, warnings, diary.texts())
        self.feedback.append(told)

    def finished(
        self,
        number: int,
        plan: Plan,
        result: Result,
        why: str,
        seconds: float,
        diary: Diary,
        warnings: tuple[str, ...],
    ) -> None:
        """Note an attempt whose run came to its end; ``why`` says what speaks against it, if any.

        Of finished attempts that are equally good the later one is kept: its planner knew more.
        """
        self._ledger.tried(plan, seconds, result=result, why=why)
        if self.best is None or not why or _worth(result) >= _worth(self.best):
            self.best = result
        if why:
            self._emit(AttemptFailed(number, why, "rejected"))
            seen, texts = diary.sentences(), outputs(result.particles)
            self.feedback.append(Feedback(plan.program, why, "", number, seen, warnings, texts))
            self._ledger.result = self.outcome()

    def outcome(self) -> Result:
        """The best finished result, with all attempts and what they cost."""
        assert self.best is not None
        return self._ledger.settled(self.best)


def _worth(result: Result) -> tuple[int, int]:
    rank = {False: 0, None: 1, True: 2}
    return rank[result.verified], rank[result.check]
