"""Where a program runs: in this process or in a locked worker, at the level that it gets."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import LimitExceeded, SandboxUnavailable
from ..model.stops import program_line
from ..records.program import Program
from ..records.result import Result
from ..records.task import Limits, Task
from ..sandbox.locks.policy import LEVELS
from . import inprocess, loader
from .execution import Metered, execute
from .job import Job, describe_sampler
from .particles import run_particles
from .sandbox import Ran, Sandbox
from .setting import LoadedSetting, Setting

if TYPE_CHECKING:
    from ..sandbox.host.host import Witness

__all__ = ["InProcess", "InWorker", "choose_sandbox", "launch", "on_the_loop", "prestart"]

T = TypeVar("T")


async def launch(program: Program, task: Task, setting: LoadedSetting) -> Result:
    """Run a program once, in the sandbox that it gets.

    Raises:
        SandboxUnavailable: see :func:`choose_sandbox`.
        LimitExceeded: a limit ended the run before any particle ended.
        DiscipleError: whatever else :func:`~disciple_ext.run.execution.execute` raises.
    """
    sandbox = await choose_sandbox(program, setting)
    served = setting.services.serve(setting.follower)
    setting = replace(setting, follower=served)
    # After the sandbox was chosen: its start is not taken from the program's time.
    deadline = time.monotonic() + task.limits.timeout
    work = execute(program, task, setting, sandbox, deadline)
    return await sandbox.supervise(work, setting, task.limits, deadline)


class InProcess:
    """This process: the level ``none``, which is no security boundary."""

    async def make_ready(self, setting: LoadedSetting) -> None:
        """There is nothing to prepare."""

    async def supervise(
        self, work: Coroutine[Any, Any, T], setting: LoadedSetting, limits: Limits, deadline: float
    ) -> T:
        """See :meth:`Sandbox.supervise`: a watchdog holds the program to its deadline."""
        follower = setting.follower
        future = inprocess.start(work, deadline, lambda: follower.computing)
        # The patience is for the watchdog, which needs a moment to interrupt and to unwind.
        left = deadline + inprocess.PATIENCE - time.monotonic()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), left)
        except inprocess.Deadline as deadline_passed:
            line = loader.line_of(deadline_passed)
            raise LimitExceeded.timeout(limits.timeout, line) from None
        except TimeoutError:  # it sleeps or loops in C code, where no exception reaches it
            # Asked before the loop is given up: then nobody knows its thread any more.
            busy = inprocess.where()
            line = program_line(busy) if busy is not None else None
            inprocess.abandon()
            raise LimitExceeded.timeout(limits.timeout, line) from None
        except asyncio.CancelledError:
            future.cancel()
            raise

    async def run(self, job: Job, setting: LoadedSetting) -> Ran:
        """See :meth:`Sandbox.run`."""
        metered = Metered(setting.follower)
        particles, log_evidence = await run_particles(
            job, metered, setting.sampler, setting.patterns, setting.observers
        )
        return Ran(particles, log_evidence, metered.tokens, {"witnessed": "none"})


class InWorker:
    """A process of its own, behind the locks of a level.

    Args:
        level: one that this machine has.
    """

    def __init__(self, level: str) -> None:
        self._level = level

    async def make_ready(self, setting: LoadedSetting) -> None:
        """Have the sandbox know the follower's vocabulary."""
        from ..sandbox.host import host

        sampler = describe_sampler(setting.sampler)
        vocabulary = setting.follower.vocabulary
        await on_the_loop(host.make_ready(sampler, vocabulary, setting.plugins, self._level))

    async def supervise(
        self, work: Coroutine[Any, Any, T], setting: LoadedSetting, limits: Limits, deadline: float
    ) -> T:
        """See :meth:`Sandbox.supervise`: the zygote keeps the deadline."""
        return await on_the_loop(work)

    async def run(self, job: Job, setting: LoadedSetting) -> Ran:
        """See :meth:`Sandbox.run`."""
        from ..sandbox.host import host

        done = await host.run(
            job.to_dict(),
            describe_sampler(setting.sampler),
            follower=setting.follower,
            plugins=setting.plugins,
            level=self._level,
            emit=setting.emit if setting.observers else None,
            detailed=any(observer.detail for observer in setting.observers),
        )
        timings = {"ready": round(done.ready, 4)}
        return Ran(done.particles, done.log_evidence, done.tokens, done.sandbox, timings)


async def on_the_loop(work: Coroutine[Any, Any, T]) -> T:
    """Do work of the host's own on the loop that all runs share."""
    return await asyncio.wrap_future(inprocess.submit(work))


def prestart(setting: Setting) -> None:
    """Have the sandbox start while the planner and the follower are made ready."""
    # What it finds is kept; if it fails, `choose_sandbox` meets the same error and raises it.
    if setting.sandbox != "none" and hasattr(os, "fork"):
        inprocess.submit(_witness(setting))


async def _witness(setting: Setting) -> Witness:
    from ..sandbox.host import host

    return await host.witness(setting.plugins, (describe_sampler(setting.sampler)["module"],))


async def choose_sandbox(program: Program, setting: Setting) -> Sandbox:
    """Where a program will run.

    Raises:
        SandboxUnavailable: this machine cannot give the level asked for, or nothing was asked for,
            the program is not ours, and the machine has not got the strongest.
    """
    if setting.sandbox == "none":
        return InProcess()
    if not hasattr(os, "fork"):
        if setting.sandbox is None and program.trusted:
            return InProcess()
        raise SandboxUnavailable(
            f"{sys.platform} has no sandbox; read the program, and run it with --sandbox none "
            "(sandbox='none') if you trust it, or run it on Linux"
        )
    seen = await on_the_loop(_witness(setting))
    # LEVELS goes from strong to weak, so the first is the default.
    wanted = setting.sandbox or next(iter(LEVELS))
    missing = seen.missing(wanted)
    if not missing:
        return InWorker(wanted)
    if setting.sandbox is None and program.trusted:
        # For our own programs alone: for any other, a weaker level is the user's choice, never
        # ours.
        return InWorker(seen.level)
    weaker = [level for level in LEVELS if level != "none" and not seen.missing(level)]
    raise SandboxUnavailable(
        f"the sandbox level {wanted!r} is not to be had here: {missing}. "
        f"To run the program all the same, choose a weaker level yourself: {', '.join(weaker)}, "
        "none (`disciple doctor` says what each control does here; process and none are no "
        "security boundary)"
    )
