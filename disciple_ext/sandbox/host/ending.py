"""How a worker's process ended, and what that means for its run."""

from __future__ import annotations

import math
import signal
from dataclasses import dataclass

from ...errors import DiscipleError, LimitExceeded, ProgramCrashed, SandboxError
from ...records.task import Limits

__all__ = ["Exit", "cause"]


@dataclass(frozen=True)
class Exit:
    """How a worker's process ended, as the zygote saw it.

    Attributes:
        code: exit status, or minus the signal's number.
        killed: why the zygote killed it (``deadline``, ``host``), or the empty string.
        cpu: CPU seconds used.
    """

    code: int
    killed: str
    cpu: float


def cause(end: Exit, limits: Limits) -> DiscipleError:
    """The error for a run whose worker ended without a result."""
    cpu = limits.cpu or math.inf
    # First, since such a worker has died by SIGKILL, too.
    if end.killed == "deadline":
        return LimitExceeded.timeout(limits.timeout)
    # SIGKILL comes a second after SIGXCPU, to a program that has ignored it.
    if end.code == -signal.SIGXCPU or (end.code == -signal.SIGKILL and end.cpu >= cpu):
        return LimitExceeded(
            f"the program used more than {cpu:g} s of CPU time",
            kind="cpu",
            value=end.cpu,
            limit=cpu,
        )
    if end.code == -signal.SIGKILL:
        return SandboxError(
            "the worker was killed from outside (by hand, or by the system for want of "
            "memory); run it again, with fewer particles (-n) if memory is short"
        )
    if end.code < 0:
        # Real-time signals have no names.
        known = -end.code in {s.value for s in signal.Signals}
        name = signal.Signals(-end.code).name if known else f"signal {-end.code}"
        return ProgramCrashed(
            f"the program crashed the interpreter ({name}): recursion too deep for C code, or "
            "memory used up"
        )
    return ProgramCrashed(f"the program ended its own process (exit status {end.code})")
