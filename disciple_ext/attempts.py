"""What the outer loop has tried: its attempts, what the planner hears of them, and the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .errors import DiscipleError
from .planner.base import Feedback
from .planner.feedback import Diary, outputs
from .program import Program
from .result import Attempt, Result, Usage
from .trace.events import AttemptFailed, Event

__all__ = ["Attempts"]


class Attempts:
    """The attempts so far. What is finished is never lost.

    Attributes:
        tried: every program, in order, and what became of it.
        feedback: what the planner hears of those that would not do.
        best: the best finished result, or None.
        usage: what was spent.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self.tried: list[Attempt] = []
        self.feedback: list[Feedback] = []
        self.best: Result | None = None
        self.usage = Usage()
        self._emit = emit

    def failed(
        self,
        number: int,
        error: DiscipleError,
        seconds: float,
        program: Program | None = None,
        diary: Diary | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        """Note an attempt that ended in an error, with its program where there was one."""
        kind, traceback = type(error).__name__, getattr(error, "traceback", "")
        source = program.source if program is not None else ""
        self.tried.append(Attempt(source, kind, str(error), traceback, round(seconds, 3)))
        self._emit(AttemptFailed(number, str(error), kind))
        if program is not None:
            seen = diary.sentences() if diary is not None and diary.began else ()
            texts = diary.texts() if diary is not None else ()
            told = Feedback(program, str(error), traceback, number, seen, warnings, texts)
            self.feedback.append(told)

    def finished(
        self,
        number: int,
        result: Result,
        why: str,
        seconds: float,
        program: Program,
        diary: Diary,
        warnings: tuple[str, ...],
    ) -> None:
        """Note an attempt whose run came to its end; ``why`` says what speaks against it, if any.

        Of finished attempts that are equally good the later one is kept: its planner knew more.
        """
        self.usage += result.usage
        outcome = "rejected" if why else "ok"
        self.tried.append(Attempt(program.source, outcome, why or None, "", round(seconds, 3)))
        if self.best is None or not why or _worth(result) >= _worth(self.best):
            self.best = result
        if why:
            self._emit(AttemptFailed(number, why, outcome))
            seen, texts = diary.sentences(), outputs(result.particles)
            self.feedback.append(Feedback(program, why, "", number, seen, warnings, texts))

    def outcome(self) -> Result:
        """The best finished result, with all attempts and what they cost."""
        assert self.best is not None
        return replace(self.best, attempts=tuple(self.tried), usage=self.usage)


def _worth(result: Result) -> tuple[int, int]:
    rank = {False: 0, None: 1, True: 2}
    return rank[result.verified], rank[result.check]
