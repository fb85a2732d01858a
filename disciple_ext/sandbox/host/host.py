"""Runs in workers, from the host's side."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import SandboxError, SandboxUnavailable
from ...protocol.follower import BaseFollower
from ...protocol.vocabulary import Vocabulary
from ...records.events import Event
from ...records.result import Particle
from ...records.task import Limits
from ..locks.policy import LEVELS
from ..locks.witness import Witness
from .pool import Zygote, the_pool

__all__ = ["GRACE", "Done", "Witness", "make_ready", "run", "witness"]

GRACE = 0.25
"""Seconds after its deadline that a worker has to give back what it holds."""


@dataclass(frozen=True)
class Done:
    """A finished run: the worker's claims, and what the host knows.

    Attributes:
        particles: the particles, as the worker gave them.
        log_evidence: natural log of the evidence, as the worker gave it.
        tokens: follower tokens, counted by the host.
        sandbox: the level witnessed, and what is known of the locks.
        ready: seconds from the order to fork until the worker was locked.
    """

    particles: tuple[Particle, ...]
    log_evidence: float | None
    tokens: int
    sandbox: dict[str, Any]
    ready: float


async def witness(plugins: Sequence[str] = (), modules: Sequence[str] = ()) -> Witness:
    """What this machine's locks are worth. It starts the zygote that the next run will need."""
    return (await the_pool().prepared(tuple(plugins), _others(modules), True)).witness


async def make_ready(
    sampler: dict[str, Any], vocabulary: Vocabulary, plugins: Sequence[str], level: str
) -> Zygote:
    """The zygote that forks the workers of such a run, with everything they need."""
    layers = LEVELS[level]
    assert layers is not None
    modules = _others((sampler["module"],))
    return await the_pool().assigned(tuple(plugins), modules, layers.confine, vocabulary)


async def run(
    job: dict[str, Any],
    sampler: dict[str, Any],
    *,
    follower: BaseFollower,
    plugins: Sequence[str],
    level: str,
    emit: Callable[[Event], None] | None,
    detailed: bool = False,
) -> Done:
    """Run a job in a worker of its own.

    Args:
        job: the run as data (:class:`disciple_ext.run.job.Job`, which the sandbox does not import).
        sampler: the sampler as data.
        follower: what answers the worker's requests.
        plugins: names of the plugins that the worker needs.
        level: the sandbox level.
        emit: called with each event, or None where nobody listens.
        detailed: whether the events say where each change of a weight comes from.

    Raises:
        SandboxUnavailable: the level is not witnessed on this machine.
        SandboxError: the worker or the zygote was killed from outside, or cannot be started.
        ProgramError: the program failed.
        LimitExceeded: a limit ended the run.
        FollowerError: the model failed.
    """
    layers = LEVELS[level]
    assert layers is not None
    limits = Limits(**job["limits"])
    zygote = await make_ready(sampler, follower.vocabulary, plugins, level)
    missing = zygote.witness.missing(level)
    if missing:
        raise SandboxUnavailable(f"the sandbox level {level!r} is not to be had here: {missing}")
    kill_at = job["deadline"] + GRACE
    order = {
        "landlock": layers.landlock,
        "seccomp": layers.seccomp,
        "limits": layers.limits,
        "memory": limits.memory * 2**20,
        # The kernel counts CPU time in whole seconds.
        "cpu": math.ceil(limits.cpu if limits.cpu is not None else limits.timeout + 5),
        "kill_at": kill_at,
        "follower": follower.name,
        "max_context": follower.max_context,
        "measure": follower.measure.to_dict(),
    }
    forked = time.monotonic()
    session = zygote.fork(order, follower, limits, emit)
    try:
        # Past the zygote: what it had read would lie in the memory of each worker after this one.
        session.start({**job, "sampler": sampler, "events": emit is not None, "detailed": detailed})
        # The zygote keeps the deadline; if it does not, something holds the zygote.
        late = max(0.0, kill_at - time.monotonic()) + 5.0
        try:
            outcome = await asyncio.wait_for(asyncio.shield(session.done), late)
        except TimeoutError:
            zygote.stop()
            raise SandboxError("the sandbox's zygote no longer answers; run it again") from None
    finally:
        zygote.end(session)
    sandbox = {"witnessed": level, **zygote.witness.facts()}
    ready = (session.ready_at or forked) - forked
    return Done(outcome.particles, outcome.log_evidence, outcome.tokens, sandbox, ready)


def _others(modules: Sequence[str]) -> tuple[str, ...]:
    """The modules that a zygote does not import anyway: one zygote serves all of our samplers."""
    return tuple(m for m in modules if not m.startswith("disciple_ext.samplers."))
