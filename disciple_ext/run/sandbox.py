"""Where a program runs, as the host sees it."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ..records.result import Particle
from ..records.task import Limits
from .job import Job
from .setting import LoadedSetting

__all__ = ["Ran", "Sandbox"]

T = TypeVar("T")


@dataclass(frozen=True)
class Ran:
    """A finished run: the program's claims, and what the host knows.

    Attributes:
        particles: the particles, without shares of the weight.
        log_evidence: natural log of the evidence, or None.
        tokens: follower tokens, counted by the host.
        sandbox: the level witnessed, and what is known of the locks.
        timings: seconds by name, beside those of the run itself.
    """

    particles: tuple[Particle, ...]
    log_evidence: float | None
    tokens: int
    sandbox: dict[str, Any]
    timings: dict[str, float] = field(default_factory=dict)


class Sandbox(Protocol):
    """Where a program runs."""

    async def make_ready(self, setting: LoadedSetting) -> None:
        """Prepare what can be prepared, so that the next run begins at once."""
        ...

    async def supervise(
        self, work: Coroutine[Any, Any, T], setting: LoadedSetting, limits: Limits, deadline: float
    ) -> T:
        """Do the host's work on a run, :meth:`run` included, on the loop that all runs share.

        Args:
            work: the work.
            setting: of the run.
            limits: of the run.
            deadline: ``time.monotonic()`` at which it must be over.

        Raises:
            LimitExceeded: time is up.
        """
        ...

    async def run(self, job: Job, setting: LoadedSetting) -> Ran:
        """Run a job's particles to their end.

        Raises:
            ProgramError: the program failed.
            LimitExceeded: a limit ended the run.
            SandboxError: the worker was killed from outside, or could not be started.
            FollowerError: the model failed.
        """
        ...
