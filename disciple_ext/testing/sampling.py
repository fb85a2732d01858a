"""Run samplers over small models, and hold them to proper weighting."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import SamplerError
from ..model.base import BaseModel
from ..protocol.follower import BaseFollower
from ..records.task import Limits, Task
from ..registry.plugins import Registry
from ..run.particles import make_particle
from ..samplers import weights as weighting
from ..samplers.base import Population, Run, Sampler
from .exact import ExactPosterior, exact_posterior, load_model

__all__ = ["arun_sampler", "check_properly_weighted", "run_sampler"]


async def arun_sampler(
    sampler: Sampler,
    program: str | type[BaseModel],
    follower: Any,
    n: int,
    *,
    seed: int = 0,
    instruction: str = "toy",
    limits: Limits | None = None,
    registry: Registry | None = None,
) -> Population:
    """Run a program under a sampler, and give its population as it is."""
    model = load_model(program, registry)
    task = Task(instruction, n=n, limits=limits or Limits())
    run = Run(
        lambda index: make_particle(model, task, follower, seed, index),
        seed=seed,
        limits=task.limits,
    )
    return await sampler(run, n)


def run_sampler(
    sampler: Sampler, program: str | type[BaseModel], follower: Any, n: int, **options: Any
) -> Population:
    """The synchronous form of :func:`arun_sampler`."""
    return asyncio.run(arun_sampler(sampler, program, follower, n, **options))


def check_properly_weighted(
    sampler: Sampler,
    program: str | type[BaseModel],
    follower: BaseFollower,
    *,
    n: int = 4,
    runs: int = 400,
    seed: int = 0,
    condition: bool = False,
    errors: float = 6.0,
    exact: ExactPosterior | None = None,
) -> None:
    """Hold a sampler to proper weighting on one program whose posterior can be enumerated.

    :func:`~disciple_ext.testing.check_sampler` does it on many, and checks more.

    For f = 1, f = length, and eight fixed functions that give each text a sign, the mean over
    runs of (evidence x weighted average of f) must be within ``errors`` standard errors of the
    unnormalised target's integral of f. At six, a right sampler fails about once in 10^8 choices
    of the seed; with a given seed the outcome never changes.

    Args:
        sampler: what to check; its ``kind`` must be ``"weighted"``.
        program: source, or a class.
        follower: a small model.
        n: particles of each run.
        runs: independent runs, of seeds ``seed`` onwards.
        seed: the first seed.
        condition: whether the sampler conditions on ``check``.
        errors: standard errors allowed.
        exact: the program's posterior, where it is known already.

    Raises:
        AssertionError: the sampler is not properly weighted.
        SamplerError: it does not claim to be, or gives no evidence.
    """
    if sampler.kind != "weighted":
        raise SamplerError(f"the sampler {sampler.name!r} is of kind {sampler.kind!r}")
    exact = exact or exact_posterior(program, follower, condition=condition)
    model = load_model(program, None)

    async def everything() -> list[Population]:
        return await asyncio.gather(
            *(arun_sampler(sampler, model, follower, n, seed=seed + i) for i in range(runs))
        )

    populations = asyncio.run(everything())
    functions: dict[str, Callable[[str], float]] = {"1": lambda _: 1.0, "length": len}
    for i in range(8):
        functions[f"sign {i}"] = lambda text, i=i: _sign(i, text)  # type: ignore[misc]
    for name, f in functions.items():
        wanted = math.fsum(mass * f(text) for text, mass in exact.masses.items())
        values = np.array([_estimate(p, f) for p in populations])
        error = float(values.std(ddof=1) / math.sqrt(runs))
        off = float(values.mean()) - wanted
        # Where all runs give the same, the standard error is 0: then rounding needs some room.
        if abs(off) > errors * error + 1e-6 * abs(wanted) + 1e-12:
            raise AssertionError(
                f"the sampler {sampler.name!r} is not properly weighted: for f = {name} the mean "
                f"over {runs} runs is {values.mean():.6g} +- {error:.2g}, the exact {wanted:.6g}"
            )


def _estimate(population: Population, f: Callable[[str], float]) -> float:
    if population.log_evidence is None:
        raise SamplerError("the sampler gave no evidence")
    shares = weighting.normalise([p.weight for p in population.particles])
    average = sum(s * f(str(p)) for s, p in zip(shares, population.particles, strict=True) if s)
    return math.exp(population.log_evidence) * float(average)


def _sign(index: int, text: str) -> float:
    return 1.0 if hashlib.blake2b(f"{index}:{text}".encode()).digest()[0] & 1 else -1.0
