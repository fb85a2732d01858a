"""The particles of one run: what runs where the program runs.

That is a locked worker or, at the level ``none``, this process.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

from ..errors import DiscipleError, ProgramRejected
from ..model.base import BaseModel
from ..model.context import FollowerContext
from ..protocol.follower import BaseFollower, Follower
from ..protocol.stream import Stream
from ..records.events import Observer
from ..records.result import Particle
from ..records.task import Task
from ..samplers.base import Run, Sampler
from . import loader
from .job import Job

__all__ = ["make_particle", "run_particles"]


async def run_particles(
    job: Job,
    follower: BaseFollower,
    sampler: Sampler,
    patterns: dict[str, Any],
    observers: Sequence[Observer] = (),
) -> tuple[tuple[Particle, ...], float | None]:
    """Run a program's particles under a sampler to their end.

    Returns:
        The particles, in the sampler's order and without shares of the weight, and the natural
        log of the evidence, or None.

    Raises:
        ProgramRejected: the source defines no usable program.
        ProgramCrashed: the program raised.
        WrongFamily: the program is for another family of tasks.
        SamplerError: the sampler broke its contract.
    """
    model = loader.load(job.source, patterns, job.instruction)
    task = Task(job.instruction, job.n, job.limits)

    def make(index: int) -> BaseModel:
        return make_particle(model, task, follower, job.seed, index)

    def explain(error: BaseException, particle: Any, index: int, step: int) -> DiscipleError:
        text = str(particle) if particle is not None else None
        return loader.crash(error, job.source, particle=index, step=step, text=text)

    run = Run(
        make,
        seed=job.seed,
        limits=job.limits,
        deadline=job.deadline,
        observers=observers,
        tokens=lambda: follower.tokens,
        explain=explain,
    )
    try:
        population = await sampler(run, job.n)
        run.report(population)
        particles = [await _finished(p, run) for p in population.particles]
    except DiscipleError:
        # These name the particle and the step already.
        raise
    except Exception as error:  # a weight that is no number, say: the program may set anything
        raise loader.crash(error, job.source) from error
    return tuple(particles), population.log_evidence


async def _finished(particle: BaseModel, run: Run) -> Particle:
    # LLaMPPL's `weight` is the log of the weight.
    log_weight = float(particle.weight)
    context: object = particle.context  # a program may put there what it likes
    return Particle(
        text=str(particle),
        log_weight=log_weight,
        # Shares need the weights of all; the host makes them.
        weight=0.0,
        check=await run.check(particle) if log_weight > -math.inf else None,
        finish_reason=particle.finish_reason or "ended",
        reason=particle.reason,
        tokens=context.token_count if isinstance(context, FollowerContext) else 0,
        log_prob=particle.log_prior,
        lost_mass=particle.lost_mass,
    )


def make_particle(
    model: type[BaseModel], task: Task, follower: Follower, seed: int, index: int
) -> BaseModel:
    """One particle with its proposal and, where the prompts differ, its prior."""
    prior = _prompt(model, "prior_prompt")
    proposal = _prompt(model, "proposal_prompt") or prior or task.instruction
    # One stream for each index: a particle's draws do not depend on the order of the others.
    stream = Stream(seed, (index,))
    context = FollowerContext(follower, proposal, random=stream)
    particle = model(context)
    if task.limits.max_tokens is not None:
        particle.max_tokens = task.limits.max_tokens
    # With one prompt for both, the same context gives both numbers of the weight.
    separate = prior is not None and prior != proposal
    own_prior = FollowerContext(follower, prior, random=stream) if prior and separate else None
    particle.bind(own_prior, stream)
    return particle


def _prompt(model: type[BaseModel], name: str) -> str | None:
    """What a prompt method says.

    Raises:
        ProgramRejected: it cannot be called on the class, or gives no string.
    """
    method = getattr(model, name)
    line = getattr(getattr(method, "__code__", None), "co_firstlineno", None)
    where = f" (line {line})" if line else ""
    shape = f"write '@classmethod' above 'def {name}(cls):', and return a string"
    static = isinstance(inspect.getattr_static(model, name), staticmethod)
    if not inspect.ismethod(method) and not static:
        raise ProgramRejected(f"{name}{where} is no classmethod; {shape}", line=line)
    said = method()
    if said is not None and not isinstance(said, str):
        # Else Python warns that it was never awaited, on a standard error that nobody reads.
        if inspect.iscoroutine(said):
            said.close()
        kind = f"something of type {type(said).__name__}"
        raise ProgramRejected(f"{name}{where} returns {kind}; {shape}", line=line)
    return said
