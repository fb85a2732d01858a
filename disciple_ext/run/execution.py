"""One run of one program, seen from the host.

:func:`execute` starts the run where the program runs (:mod:`.particles`), and makes the result of
what comes back, which is the program's claim, and of what only the host knows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from ..errors import DiscipleError, LimitExceeded, NoParticleAlive
from ..protocol.requests import Draw, Follower, NextBytes, Request, Score
from ..records.events import Event, Observer, RunFinished, RunStarted
from ..records.program import Program
from ..records.result import Particle, Result, Usage
from ..records.task import Task
from ..samplers import weights
from ..samplers.base import Sampler
from ..sandbox.wire.messages import shortened
from ..services.batching import Services
from .job import Job, describe_sampler
from .particles import run_particles

__all__ = ["Setting", "execute"]


@dataclass(frozen=True)
class Setting:
    """Everything about a run but the task and the program.

    Attributes:
        follower: the model, or None until it is loaded.
        sampler: the inference algorithm.
        seed: seed of every draw.
        sandbox: level asked for, or None.
        observers: called with each event.
        patterns: names of masks and patterns that programs find.
        plugins: names of the plugins in use.
        services: what programs may call beside the follower.
    """

    follower: Follower | None
    sampler: Sampler
    seed: int
    sandbox: str | None
    observers: tuple[Observer, ...]
    patterns: dict[str, Any]
    plugins: tuple[str, ...] = ()
    services: Services = field(default_factory=Services)

    def emit(self, event: Event) -> None:
        """Tell every observer."""
        for observer in self.observers:
            observer(event)


async def execute(
    program: Program, task: Task, setting: Setting, level: str, deadline: float
) -> Result:
    """Run a program's particles under a sampler to their result.

    Args:
        program: the program.
        task: what is asked for, with its limits.
        setting: everything else; its follower is loaded.
        level: the sandbox level to run at.
        deadline: ``time.monotonic()`` at which the run must be over.

    Raises:
        ProgramError: the program is at fault, or no particle ended with positive weight.
        LimitExceeded: a limit ended the run before any particle ended.
        SandboxError: the worker was killed from outside, or could not be started.
        FollowerError: the model failed.
    """
    begun = time.monotonic()
    timings = {}
    assert setting.follower is not None
    job = Job(program.source, task.instruction, task.n, task.limits, setting.seed, deadline)
    forwards = getattr(setting.follower, "forwards", 0)
    setting.emit(RunStarted(task.n, setting.sampler.name, task.limits.timeout))
    if level == "none":
        metered = _Metered(setting.follower)
        particles, log_evidence = await run_particles(
            job, cast(Follower, metered), setting.sampler, setting.patterns, setting.observers
        )
        tokens, sandbox = metered.tokens, {"witnessed": "none"}
    else:
        from ..sandbox.host import host

        done = await host.run(
            job.to_dict(),
            describe_sampler(setting.sampler),
            follower=setting.follower,
            plugins=setting.plugins,
            level=level,
            emit=setting.emit if setting.observers else None,
            detailed=any(getattr(o, "detail", False) for o in setting.observers),
        )
        particles, log_evidence = done.particles, done.log_evidence
        tokens, sandbox = done.tokens, done.sandbox
        timings["ready"] = round(done.ready, 4)
    shares = weights.normalise([p.log_weight for p in particles])
    particles = tuple(
        replace(p, weight=float(share)) for p, share in zip(particles, shares, strict=True)
    )
    text, rule, check = _answer(particles, setting.seed)
    ess = weights.ess([p.log_weight for p in particles])
    seconds = time.monotonic() - begun
    forwards = getattr(setting.follower, "forwards", 0) - forwards  # of runs beside it, too
    setting.emit(RunFinished(log_evidence, ess, tokens, seconds, particles))
    if text is None:
        raise _nothing_alive(particles, task)
    return Result(
        text=text,
        text_rule=rule,
        check=check,
        verified=None,
        particles=particles,
        log_evidence=log_evidence,
        ess=ess,
        program={"source": program.source, "planner": program.planner, "hash": program.hash},
        attempts=(),
        usage=Usage(follower_tokens=tokens, forwards=forwards),
        cost=0.0,  # the planner's calls are added by who made them
        seed=setting.seed,
        sandbox={"requested": setting.sandbox or "default", **sandbox},
        timings={**timings, "inference": round(seconds, 3)},
    )


def _answer(particles: Sequence[Particle], seed: int) -> tuple[str | None, str, bool | None]:
    """One text drawn by weight among the particles whose check passed, if any did, else all."""
    alive = [p for p in particles if p.log_weight > -math.inf]
    passing = [p for p in alive if p.check]
    pool, rule = (passing, "weighted_passing") if passing else (alive, "weighted_all")
    if not pool:
        return None, "none", None
    p = weights.normalise([q.log_weight for q in pool])
    drawn = pool[int(np.random.default_rng([int(seed), 0x7E87]).choice(len(pool), p=p))]
    return drawn.text, rule, drawn.check


class _Metered:
    """The follower as one run sees it: it counts the tokens of that run alone."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self.tokens = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._follower, name)

    def __deepcopy__(self, memo: object) -> _Metered:
        return self

    async def ask(self, request: Request) -> Any:
        if isinstance(request, Draw):
            self.tokens += 1
        elif isinstance(request, Score):
            self.tokens += len(request.tokens)
        elif isinstance(request, NextBytes):
            self.tokens += not request.begun
        return await self._follower.ask(request)


def _nothing_alive(particles: Sequence[Particle], task: Task) -> DiscipleError:
    reasons = [p.finish_reason for p in particles]
    if reasons and set(reasons) == {"timeout"}:
        return LimitExceeded.timeout(task.limits.timeout)
    counts = ", ".join(f"{reasons.count(r)} {r}" for r in sorted(set(reasons)))
    example = next((p for p in particles if p.reason), None)
    seen = f". One of them: {shortened(example.reason, 1000)}" if example else ""
    return NoParticleAlive(
        f"no particle ended with positive weight ({counts} of {len(reasons)}){seen}",
        text=example.text if example else None,
    )
