"""What is measured: DisCIPL with a sampler, the follower alone, and the planner alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from ...errors import LimitExceeded, UsageError
from ...loop.steer import arun_program, aself_steer
from ...protocol.adapters import measured
from ...protocol.measure import BaseMeasure
from ...records.result import Result, Usage
from ...records.task import Task
from ...registry import specs
from ...registry.plugins import Registry
from ..logs.log import Sample
from ..suites.base import Instance
from .base import Method, Outcome, Setup
from .baselines import follower_program
from .beam import stochastic_beams
from .planner_alone import PlannerAlone, cot, planner, reasoning
from .scoring import on_follower

__all__ = ["ALONE", "FOLLOWER_ONLY", "asks_planner", "method_of"]


@dataclass(frozen=True)
class Steered:
    """The planner's program, run with a sampler (a spec)."""

    sampler: str

    def samples(self, n: int) -> int:
        """All of them."""
        return n

    async def run(self, setup: Setup, instance: Instance, n: int, seed: int) -> Outcome:
        """Plan and run, with the paper's R programs at most."""
        task = Task(instance.prompt, n=n, limits=setup.limits(instance), family=instance.task)
        result = await aself_steer(
            task,
            planner=setup.planner,
            follower=setup.follower,
            sampler=self.sampler,
            seed=seed,
            measure=setup.measure,
            max_cost=setup.purse,
            registry=setup.registry,
        )
        return _outcome(result)


class FollowerAlone:
    """The follower under the task itself, drawn from the base measure's prior."""

    def samples(self, n: int) -> int:
        """All of them."""
        return n

    async def run(self, setup: Setup, instance: Instance, n: int, seed: int) -> Outcome:
        """Draw independent texts, cut at the suite's number of tokens."""
        # Without power and proposal: independent draws are of one distribution.
        measure = BaseMeasure(setup.measure.prior)
        result = await arun_program(
            follower_program(setup.suite.budgets[instance.task].tokens),
            Task(instance.prompt, n=n, limits=setup.limits(instance), family=instance.task),
            follower=setup.follower,
            # Independent texts: the follower alone neither resamples nor weighs.
            sampler="is",
            seed=seed,
            measure=measure,
            registry=setup.registry,
        )
        return _outcome(result, alone=True)


class Beams:
    """Stochastic beam search of the follower under the task itself, as wide as ``n``."""

    def samples(self, n: int) -> int:
        """All of them."""
        return n

    async def run(self, setup: Setup, instance: Instance, n: int, seed: int) -> Outcome:
        """Draw texts without replacement, cut at the suite's number of tokens."""
        follower, limits = setup.follower, setup.limits(instance)
        forwards = follower.forwards
        most = setup.suite.budgets[instance.task].tokens
        # The second number keeps these draws apart from others of the same seed.
        rng = np.random.default_rng([seed, 0xBEA3])
        prompt = follower.prompt(instance.prompt)
        writer = measured(follower, BaseMeasure(setup.measure.prior))
        try:
            beams = await asyncio.wait_for(
                on_follower(stochastic_beams(writer, prompt, n, most, rng)), limits.timeout
            )
        except TimeoutError as error:
            raise LimitExceeded.timeout(limits.timeout) from error
        samples = tuple(
            Sample(
                text=follower.vocabulary.decode(beam.tokens).strip(),
                log_weight=None,
                check=None,
                passed=False,
                finish_reason="ended" if beam.ended else "max_tokens",
                tokens=len(beam.tokens),
                log_prob=None,
            )
            for beam in beams
        )
        usage = Usage(
            follower_tokens=sum(len(beam.tokens) + beam.ended for beam in beams),
            forwards=follower.forwards - forwards,
        )
        return Outcome(samples, usage, 0.0, unscored=True)


def _outcome(result: Result, *, alone: bool = False) -> Outcome:
    samples = tuple(
        Sample(
            text=p.text.strip() if alone else p.text,
            # Nothing constrains these texts: None says that the method has no weights.
            log_weight=None if alone else p.log_weight,
            check=p.check,
            passed=False,
            finish_reason=p.finish_reason,
            tokens=p.tokens,
            log_prob=p.log_prob,
        )
        for p in result.particles
    )
    return Outcome(
        samples,
        result.usage,
        result.cost,
        tuple(asdict(attempt) for attempt in result.attempts),
        result.program.get("hash"),
        unscored=alone,  # it wrote under the task's prompt
    )


FOLLOWER_ONLY = "follower"
"""The method of the follower alone."""

ALONE: Mapping[str, Callable[..., Method]] = {
    FOLLOWER_ONLY: FollowerAlone,
    "beam": Beams,
    "planner": planner,
    "cot": cot,
    "reasoning": reasoning,
}
"""The methods without a program; every other method is a sampler's spec."""


def method_of(spec: str, registry: Registry) -> Method:
    """The method that a spec names.

    Raises:
        UsageError: there is none, or it has no such option.
    """
    name, colon, options = spec.partition(":")
    known = [*sorted(registry.tables["samplers"]), *ALONE]
    if name not in known:
        raise UsageError(f"unknown method {spec!r}; there are: {', '.join(known)}")
    if name not in ALONE:
        registry.make("samplers", spec)  # its options are refused before anything runs
        return Steered(spec)
    method: Method = specs.call("method", name, ALONE[name], options) if colon else ALONE[name]()
    return method


def asks_planner(method: Method) -> bool:
    """Whether the method asks the planner's chat model for the text itself."""
    return isinstance(method, PlannerAlone)
