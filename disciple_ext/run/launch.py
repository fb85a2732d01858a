"""Where a program runs: the sandbox level, the worker or this process, and the deadline."""

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
from ..records.task import Task
from ..sandbox.locks.policy import LEVELS
from . import inprocess, loader
from .execution import Setting, describe_sampler, execute

if TYPE_CHECKING:
    from ..sandbox.host.host import Witness

__all__ = ["choose_level", "launch", "make_ready", "on_the_loop", "prestart"]

T = TypeVar("T")


async def launch(program: Program, task: Task, setting: Setting) -> Result:
    """Run a program once, at the level that it gets.

    Raises:
        SandboxUnavailable: see :func:`choose_level`.
        LimitExceeded: a limit ended the run before any particle ended.
        DiscipleError: whatever else :func:`~disciple_ext.run.execution.execute` raises.
    """
    level = await choose_level(program, setting)
    assert setting.follower is not None
    served = setting.services.serve(setting.follower)
    setting = replace(setting, follower=served)
    deadline = time.monotonic() + task.limits.timeout
    work = execute(program, task, setting, level, deadline)
    if level != "none":
        return await on_the_loop(work)
    future = inprocess.start(work, deadline, lambda: served.computing)
    left = deadline + inprocess.PATIENCE - time.monotonic()
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), left)
    except inprocess.Deadline as deadline_passed:
        line = loader.line_of(deadline_passed)
        raise LimitExceeded.timeout(task.limits.timeout, line) from None
    except TimeoutError:  # it sleeps or loops in C code, where no exception reaches it
        busy = inprocess.where()
        line = program_line(busy) if busy is not None else None
        inprocess.abandon()
        raise LimitExceeded.timeout(task.limits.timeout, line) from None
    except asyncio.CancelledError:
        future.cancel()
        raise


async def on_the_loop(work: Coroutine[Any, Any, T]) -> T:
    """Do work of the host's own on the loop that all runs share."""
    return await asyncio.wrap_future(inprocess.submit(work))


def prestart(setting: Setting) -> None:
    """Have the sandbox start while the planner and the follower are made ready."""
    if setting.sandbox != "none" and hasattr(os, "fork"):
        inprocess.submit(_witness(setting))


async def _witness(setting: Setting) -> Witness:
    from ..sandbox.host import host

    return await host.witness(setting.plugins, (describe_sampler(setting.sampler)["module"],))


async def make_ready(program: Program, setting: Setting) -> None:
    """Have the sandbox know the follower's vocabulary, so that the next run begins at once.

    Raises:
        SandboxUnavailable: see :func:`choose_level`.
    """
    level = await choose_level(program, setting)
    if level != "none":
        from ..sandbox.host import host

        assert setting.follower is not None
        sampler = describe_sampler(setting.sampler)
        vocabulary = setting.follower.vocabulary
        await on_the_loop(host.make_ready(sampler, vocabulary, setting.plugins, level))


async def choose_level(program: Program, setting: Setting) -> str:
    """The level at which a program will run.

    Raises:
        SandboxUnavailable: this machine cannot give the level asked for, or nothing was asked for,
            the program is not ours, and the machine has not got the strongest.
    """
    if setting.sandbox == "none":
        return "none"
    if not hasattr(os, "fork"):
        if setting.sandbox is None and program.trusted:
            return "none"
        raise SandboxUnavailable(
            f"{sys.platform} has no sandbox; read the program, and run it with --sandbox none "
            "(sandbox='none') if you trust it, or run it on Linux"
        )
    seen = await on_the_loop(_witness(setting))
    wanted = setting.sandbox or next(iter(LEVELS))
    missing = seen.missing(wanted)
    if not missing:
        return wanted
    if setting.sandbox is None and program.trusted:
        return seen.level
    weaker = [level for level in LEVELS if level != "none" and not seen.missing(level)]
    raise SandboxUnavailable(
        f"the sandbox level {wanted!r} is not to be had here: {missing}. "
        f"To run the program all the same, choose a weaker level yourself: {', '.join(weaker)}, "
        "none (`disciple doctor` says what each control does here; process and none are no "
        "security boundary)"
    )
