"""Every error that disciple-ext raises on purpose.

    DiscipleError
    ├── UsageError             an argument or a file of the user's is wrong
    │   └── TaskNotUnderstood  the planner cannot read this task (the message says what it can)
    ├── PlannerError           the planner gave no program
    ├── ProgramError           a program is at fault; its feedback goes to the planner
    │   ├── ProgramRejected    it does not parse, or defines no InferenceModel
    │   ├── ProgramCrashed     it raised while running
    │   ├── NoParticleAlive    it ran, but no particle ended with positive weight
    │   └── WrongFamily        it was written for another family of tasks
    ├── SandboxError           the sandbox, not the program, failed
    │   └── SandboxUnavailable this machine cannot give the level that was asked for
    ├── FollowerError          a model cannot be loaded or evaluated
    ├── ServiceError           a service that a program called failed on the host
    ├── LimitExceeded          a step, token, time or money limit ended the work
    ├── SamplerError           a sampler broke its contract (NaN weights, a stepped dead particle)
    ├── PluginError            a plugin is broken, or two share a name
    └── EvaluationError        data, instances or logs of an evaluation are unusable

Each message says what happened, where, and what to do next; attributes carry the same facts.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "DiscipleError",
    "EvaluationError",
    "FollowerError",
    "LimitExceeded",
    "NoParticleAlive",
    "PlannerError",
    "PluginError",
    "ProgramCrashed",
    "ProgramError",
    "ProgramRejected",
    "SamplerError",
    "SandboxError",
    "SandboxUnavailable",
    "ServiceError",
    "TaskNotUnderstood",
    "UsageError",
    "WrongFamily",
]


class DiscipleError(Exception):
    """Base of every error raised on purpose by disciple-ext.

    Attributes:
        exit_code: what the command line exits with when this error ends it.
        attempts: the attempts of the outer loop that led to it (:class:`Attempt`), if any.
        usage: what was spent on them (:class:`Usage`), or None where nothing is known of it.
        cost: US dollars of the planner's calls, or None where that is unknown.
        result: the :class:`Result` of the last attempt that gave an answer, which the task's
            verifier rejected, or None.
    """

    exit_code = 1
    attempts: tuple[Any, ...] = ()
    usage: Any = None
    cost: float | None = None
    result: Any = None


class UsageError(DiscipleError):
    """An argument, option or file that the user gave is wrong."""

    exit_code = 2


class TaskNotUnderstood(UsageError):
    """The planner cannot read this task. The message lists what it can read."""


class PlannerError(DiscipleError):
    """The planner gave no program (refusal, endpoint down, no code in its answer)."""

    exit_code = 3


class ProgramError(DiscipleError):
    """A program is at fault.

    Attributes:
        line: line of the program (1-based), or None when not known.
        traceback: the traceback cut to the program's own lines, or the empty string.
        particle: index of the particle that failed, or None.
        step: the step it failed in (1-based), or None.
        text: the particle's text so far, or None.
        exception: name of the exception's class where the program raised one, or the empty string.
        of_none: whether that exception says that a value (not one awaited) was None.
    """

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        traceback: str = "",
        particle: int | None = None,
        step: int | None = None,
        text: str | None = None,
        exception: str = "",
        of_none: bool = False,
    ) -> None:
        super().__init__(message)
        self.exception = exception
        self.of_none = of_none
        self.line = line
        self.traceback = traceback
        self.particle = particle
        self.step = step
        self.text = text


class ProgramRejected(ProgramError):
    """The program does not parse, or does not define a usable ``InferenceModel``."""


class ProgramCrashed(ProgramError):
    """The program raised an exception while it ran."""


class NoParticleAlive(ProgramError):
    """The program ran, but no particle ended with positive weight."""


class WrongFamily(ProgramError):
    """The program's ``arguments(task)`` says that it was written for another family of tasks."""


class SandboxError(DiscipleError):
    """The sandbox itself failed; the program is not to blame."""

    exit_code = 4


class SandboxUnavailable(SandboxError):
    """This machine cannot give the sandbox level that was asked for."""


class FollowerError(DiscipleError):
    """A follower model cannot be loaded or evaluated."""

    exit_code = 4


class ServiceError(DiscipleError):
    """A service that a program called failed, or gave no reply in time.

    Attributes:
        service: name of the service.
    """

    exit_code = 4

    def __init__(self, message: str, *, service: str = "") -> None:
        super().__init__(message)
        self.service = service


class LimitExceeded(DiscipleError):
    """A limit ended the work before there was an answer.

    Attributes:
        kind: which limit: ``"timeout"``, ``"cpu"``, ``"tokens"``, ``"output"`` or ``"cost"``.
        value: what was used.
        limit: what was allowed.
        line: line of the program that did not give way (1-based), or None.
    """

    exit_code = 124

    def __init__(
        self, message: str, *, kind: str, value: float, limit: float, line: int | None = None
    ) -> None:
        super().__init__(message)
        self.line = line
        self.kind = kind
        self.value = value
        self.limit = limit

    @classmethod
    def timeout(cls, seconds: float, line: int | None = None) -> LimitExceeded:
        """The error for a run whose time passed before any particle ended.

        Args:
            seconds: the limit.
            line: the line of the program in which it computed on without awaiting anything.
        """
        advice = "allow more time (--timeout), fewer particles (-n), or a smaller task"
        if line is not None:
            advice = (
                f"the program was busy in line {line} and awaited nothing: give the loop there an "
                "end, or have it await a token or a word"
            )
        return cls(
            f"the time limit of {seconds:g} s passed before any particle ended; {advice}",
            kind="timeout",
            value=seconds,
            limit=seconds,
            line=line,
        )


class SamplerError(DiscipleError):
    """A sampler broke its contract."""


class PluginError(DiscipleError):
    """A plugin cannot be loaded, breaks a hook's contract, or shares its name with another."""

    exit_code = 4


class EvaluationError(DiscipleError):
    """The data, an instance or a log of an evaluation cannot be used."""

    exit_code = 2
