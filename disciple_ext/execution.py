"""One run of one program: particles, sampler, and the result made of them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from .errors import DiscipleError, LimitExceeded, NoParticleAlive
from .model.base import BaseModel
from .model.context import FollowerContext
from .model.requests import Draw, Follower, Request, Score
from .model.stream import Stream
from .program import Program
from .result import Particle, Result, Usage
from .samplers import weights
from .samplers.base import Population, Run, Sampler
from .sandbox import loader
from .task import Task
from .trace.events import Event, Observer, RunFinished, RunStarted

__all__ = ["Setting", "execute", "make_particle", "out_of_time"]


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
    """

    follower: Follower | None
    sampler: Sampler
    seed: int
    sandbox: str | None
    observers: tuple[Observer, ...]
    patterns: dict[str, Any]

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
        level: the sandbox level that this run has, for the result.
        deadline: ``time.monotonic()`` at which the run must be over.

    Raises:
        ProgramError: the program is at fault, or no particle ended with positive weight.
        LimitExceeded: time ran out before any particle ended.
    """
    begun = time.monotonic()
    assert setting.follower is not None
    follower = _Metered(setting.follower)
    forwards = getattr(follower, "forwards", 0)
    model = loader.load(program.source, setting.patterns)

    def make(index: int) -> BaseModel:
        return make_particle(model, task, cast(Follower, follower), setting.seed, index)

    def explain(error: BaseException, particle: Any, index: int, step: int) -> DiscipleError:
        text = str(particle) if particle is not None else None
        return loader.crash(error, program.source, particle=index, step=step, text=text)

    run = Run(
        make,
        seed=setting.seed,
        limits=task.limits,
        deadline=deadline,
        observers=setting.observers,
        tokens=lambda: follower.tokens,
        explain=explain,
    )
    setting.emit(RunStarted(task.n, setting.sampler.name, task.limits.timeout))
    population = await setting.sampler(run, task.n)
    result = await _result(population, run, setting.seed)
    seconds = time.monotonic() - begun
    forwards = getattr(follower, "forwards", 0) - forwards  # those that runs beside it shared, too
    setting.emit(RunFinished(result.log_evidence, result.ess, follower.tokens, seconds))
    if result.text is None:
        raise _nothing_alive(result, task)
    return replace(
        result,
        program={
            "source": program.source,
            "planner": program.planner,
            "hash": program.hash,
        },
        usage=Usage(follower_tokens=follower.tokens, forwards=forwards),
        sandbox={"requested": setting.sandbox or "default", "witnessed": level},
        timings={"inference": round(seconds, 3)},
    )


def make_particle(
    model: type[BaseModel], task: Task, follower: Follower, seed: int, index: int
) -> BaseModel:
    """One particle with its proposal and, where the prompts differ, its prior."""
    prior = model.prior_prompt()
    proposal = model.proposal_prompt() or prior or task.instruction
    stream = Stream(seed, (index,))
    context = FollowerContext(follower, proposal, random=stream)
    particle = model(context)
    if task.limits.max_tokens is not None:
        particle.max_tokens = task.limits.max_tokens
    separate = prior is not None and prior != proposal
    particle.bind(FollowerContext(follower, prior) if prior and separate else None, stream)
    return particle


async def _result(population: Population, run: Run, seed: int) -> Result:
    log_weights = [float(p.weight) for p in population.particles]
    shares = weights.normalise(log_weights)
    particles = []
    for p, log_weight, share in zip(population.particles, log_weights, shares, strict=True):
        alive = log_weight > -math.inf
        particles.append(
            Particle(
                text=str(p),
                log_weight=log_weight,
                weight=float(share),
                check=await run.check(p) if alive else None,
                finish_reason=getattr(p, "finish_reason", None) or "ended",
                reason=getattr(p, "reason", ""),
                tokens=getattr(getattr(p, "context", None), "token_count", 0),
                log_prob=getattr(p, "log_prior", None),
            )
        )
    text, rule, check = _answer(particles, seed)
    return Result(
        text=text,
        text_rule=rule,
        check=check,
        verified=None,
        particles=tuple(particles),
        log_evidence=population.log_evidence,
        ess=weights.ess(log_weights),
        program={},
        attempts=(),
        usage=Usage(),
        cost=None,
        seed=seed,
        sandbox={},
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
        return await self._follower.ask(request)


def _nothing_alive(result: Result, task: Task) -> DiscipleError:
    reasons = [p.finish_reason for p in result.particles]
    if reasons and set(reasons) == {"timeout"}:
        return out_of_time(task)
    counts = ", ".join(f"{reasons.count(r)} {r}" for r in sorted(set(reasons)))
    example = next((p for p in result.particles if p.reason), None)
    seen = f". One of them: {example.reason}" if example else ""
    return NoParticleAlive(
        f"no particle ended with positive weight ({counts} of {len(reasons)}){seen}",
        text=example.text if example else None,
    )


def out_of_time(task: Task) -> LimitExceeded:
    """The error for a run whose time passed before any particle ended."""
    limit = task.limits.timeout
    return LimitExceeded(
        f"the time limit of {limit:g} s passed before any particle ended; allow more time "
        "(--timeout), fewer particles (-n), or a smaller task",
        kind="timeout",
        value=limit,
        limit=limit,
    )
