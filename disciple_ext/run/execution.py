"""One run of one program, seen from the host.

:func:`execute` starts the run where the program runs (:mod:`.particles`), and makes the result of
what comes back, which is the program's claim, and of what only the host knows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import DiscipleError, LimitExceeded, NoParticleAlive
from ..protocol.adapters import FollowerProxy
from ..protocol.requests import Request
from ..protocol.waiting import Deliver, Waiting
from ..records.events import RunFinished, RunStarted
from ..records.program import Program
from ..records.result import Particle, Result, Usage
from ..records.task import Task
from ..samplers import weights
from ..text.shorten import shortened
from .job import Job
from .sandbox import Sandbox
from .setting import LoadedSetting

__all__ = ["Metered", "execute"]


async def execute(
    program: Program, task: Task, setting: LoadedSetting, sandbox: Sandbox, deadline: float
) -> Result:
    """Run a program's particles under a sampler to their result.

    Args:
        program: the program.
        task: what is asked for, with its limits.
        setting: everything else.
        sandbox: where to run it.
        deadline: ``time.monotonic()`` at which the run must be over.

    Raises:
        ProgramError: the program is at fault, or no particle ended with positive weight.
        LimitExceeded: a limit ended the run before any particle ended.
        SandboxError: the worker was killed from outside, or could not be started.
        FollowerError: the model failed.
    """
    begun = time.monotonic()
    job = Job(program.source, task.instruction, task.n, task.limits, setting.seed, deadline)
    forwards = setting.follower.forwards
    setting.emit(RunStarted(task.n, setting.sampler.name, task.limits.timeout))
    ran = await sandbox.run(job, setting)
    # What the worker says of shares is not used: they follow from the weights, on this side.
    shares = weights.normalise([p.log_weight for p in ran.particles])
    particles = tuple(
        replace(p, weight=float(share)) for p, share in zip(ran.particles, shares, strict=True)
    )
    text, rule, check = _answer(particles, setting.seed)
    ess = weights.ess([p.log_weight for p in particles])
    seconds = time.monotonic() - begun
    forwards = setting.follower.forwards - forwards  # of runs beside it, too
    setting.emit(RunFinished(ran.log_evidence, ess, ran.tokens, seconds, particles))
    # After RunFinished, so that observers see how the particles died.
    if text is None:
        raise _nothing_alive(particles, task)
    return Result(
        text=text,
        text_rule=rule,
        check=check,
        verified=None,
        particles=particles,
        log_evidence=ran.log_evidence,
        ess=ess,
        program={"source": program.source, "planner": program.planner, "hash": program.hash},
        attempts=(),
        usage=Usage(follower_tokens=ran.tokens, forwards=forwards),
        cost=0.0,  # the planner's calls are added by who made them
        seed=setting.seed,
        measure=setting.follower.measure.to_dict(),
        sandbox={"requested": setting.sandbox or "default", **ran.sandbox},
        timings={**ran.timings, "inference": round(seconds, 3)},
    )


def _answer(particles: Sequence[Particle], seed: int) -> tuple[str | None, str, bool | None]:
    """One text drawn by weight among the particles whose check passed, if any did, else all."""
    alive = [p for p in particles if p.log_weight > -math.inf]
    passing = [p for p in alive if p.check]
    pool, rule = (passing, "weighted_passing") if passing else (alive, "weighted_all")
    if not pool:
        return None, "none", None
    p = weights.normalise([q.log_weight for q in pool])
    # 0x7E87 keeps this draw apart from the particles' own, which come from the same seed.
    drawn = pool[int(np.random.default_rng([int(seed), 0x7E87]).choice(len(pool), p=p))]
    return drawn.text, rule, drawn.check


class Metered(FollowerProxy):
    """The follower as one run sees it: it counts the tokens of that run alone."""

    tokens = 0

    def submit(self, request: Request, deliver: Deliver) -> Waiting:
        """See :meth:`~disciple_ext.protocol.follower.BaseFollower.submit`."""
        if isinstance(request, Request):  # a program may ask for anything
            self.tokens += request.tokens_asked
        return self.inner.submit(request, deliver)


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
