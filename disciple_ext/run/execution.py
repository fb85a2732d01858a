"""One run of one program: particles, sampler, and the result made of them.

:func:`run_particles` runs where the program runs, in a locked worker or (at the level ``none``) in
this process. :func:`execute` is the host's side: it starts the run there, and makes the result of
what comes back, which is the program's claim, and of what only the host knows.
"""

from __future__ import annotations

import inspect
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

import numpy as np

from ..errors import DiscipleError, LimitExceeded, NoParticleAlive, ProgramRejected, UsageError
from ..model.base import BaseModel
from ..model.context import FollowerContext
from ..protocol.follower import BaseFollower, Deliver, FollowerProxy, Waiting
from ..protocol.requests import Follower, Request
from ..protocol.stream import Stream
from ..records.events import Event, Observer, RunFinished, RunStarted
from ..records.program import Program
from ..records.result import Particle, Result, Usage
from ..records.task import Limits, Task
from ..samplers import weights
from ..samplers.base import Run, Sampler
from ..sandbox.wire.ends import shortened
from ..services.batching import Services
from . import loader

__all__ = ["Job", "Setting", "execute", "make_particle", "make_sampler", "run_particles"]


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

    follower: BaseFollower | None
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


# Where the program runs -------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A run as plain data, as a worker gets it.

    Attributes:
        source: the program.
        instruction: the task in words, the prompt where a program has none.
        n: particles.
        limits: limits of the run.
        seed: seed of every draw.
        deadline: ``time.monotonic()`` at which the run must be over.
    """

    source: str
    instruction: str
    n: int
    limits: Limits
    seed: int
    deadline: float

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Job:
        """A job from what :meth:`to_dict` gave (further entries are ignored)."""
        fields = {name: data[name] for name in cls.__dataclass_fields__}
        return cls(**{**fields, "limits": Limits(**data["limits"])})

    def to_dict(self) -> dict[str, Any]:
        """The job as JSON-safe data."""
        return asdict(self)


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
        raise
    except Exception as error:  # a weight that is no number, say: the program may set anything
        raise loader.crash(error, job.source) from error
    return tuple(particles), population.log_evidence


async def _finished(particle: Any, run: Run) -> Particle:
    log_weight = float(particle.weight)
    return Particle(
        text=str(particle),
        log_weight=log_weight,
        weight=0.0,
        check=await run.check(particle) if log_weight > -math.inf else None,
        finish_reason=getattr(particle, "finish_reason", None) or "ended",
        reason=getattr(particle, "reason", ""),
        tokens=getattr(getattr(particle, "context", None), "token_count", 0),
        log_prob=getattr(particle, "log_prior", None),
        lost_mass=getattr(particle, "lost_mass", 0.0),
    )


def make_particle(
    model: type[BaseModel], task: Task, follower: Follower, seed: int, index: int
) -> BaseModel:
    """One particle with its proposal and, where the prompts differ, its prior."""
    prior = _prompt(model, "prior_prompt")
    proposal = _prompt(model, "proposal_prompt") or prior or task.instruction
    stream = Stream(seed, (index,))
    context = FollowerContext(follower, proposal, random=stream)
    particle = model(context)
    if task.limits.max_tokens is not None:
        particle.max_tokens = task.limits.max_tokens
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
        if inspect.iscoroutine(said):
            said.close()
        kind = f"something of type {type(said).__name__}"
        raise ProgramRejected(f"{name}{where} returns {kind}; {shape}", line=line)
    return said


# Samplers as data, for the way to a worker ------------------------------------------------------


def describe_sampler(sampler: Sampler) -> dict[str, Any]:
    """Where a sampler's class is and what the sampler holds.

    Raises:
        UsageError: the class cannot be imported by name, or the attributes are no plain data.
    """
    kind = type(sampler)
    spec = getattr(sys.modules.get(kind.__module__), "__spec__", None)
    if kind.__module__ == "__main__" or "<" in kind.__qualname__ or spec is None:
        raise UsageError(
            f"the sampler class {kind.__qualname__!r} cannot be found from the sandbox: put it "
            "into a module that can be imported, or run with sandbox='none'"
        )
    state = dict(getattr(sampler, "__dict__", {}))
    for name, value in state.items():
        if not _plain(value):
            raise UsageError(
                f"the sampler's attribute {name!r} is no plain data (numbers, texts, lists), so it "
                "cannot be sent to the sandbox; make it from plain data, or run with sandbox='none'"
            )
    return {"module": kind.__module__, "name": kind.__qualname__, "state": state}


def make_sampler(description: dict[str, Any]) -> Sampler:
    """The sampler that :func:`describe_sampler` described."""
    found: Any = sys.modules[description["module"]]
    for part in description["name"].split("."):
        found = getattr(found, part)
    sampler = found.__new__(found)
    vars(sampler).update(description["state"])
    return cast(Sampler, sampler)


def _plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_plain, value))
    if isinstance(value, dict):
        return all(isinstance(k, str) and _plain(v) for k, v in value.items())
    return value is None or type(value) in (bool, int, float, str)


# The host's side --------------------------------------------------------------------------------


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
    forwards = setting.follower.forwards
    setting.emit(RunStarted(task.n, setting.sampler.name, task.limits.timeout))
    if level == "none":
        metered = _Metered(setting.follower)
        particles, log_evidence = await run_particles(
            job, metered, setting.sampler, setting.patterns, setting.observers
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
    forwards = setting.follower.forwards - forwards  # of runs beside it, too
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


class _Metered(FollowerProxy):
    """The follower as one run sees it: it counts the tokens of that run alone."""

    tokens = 0

    def submit(self, request: Request, deliver: Deliver) -> Waiting:
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
