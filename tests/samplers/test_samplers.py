"""Every sampler against enumerated posteriors: evidence and expectations, at small N."""

from __future__ import annotations

import asyncio
import functools
import math
import time
from typing import Any

import pytest
from llamppl.modeling import Model

from disciple_ext import run_program
from disciple_ext.errors import NoParticleAlive, SamplerError, UsageError
from disciple_ext.model.context import FollowerContext
from disciple_ext.protocol.stream import Stream
from disciple_ext.records.events import ParticleFinished, Resampled
from disciple_ext.records.task import Limits
from disciple_ext.run.particles import make_particle
from disciple_ext.samplers import weights
from disciple_ext.samplers.base import Population, Run
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.samplers.rejection import RejectionSampler
from disciple_ext.samplers.resampling import SCHEMES
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.testing import (
    ExactPosterior,
    ToyFollower,
    arun_sampler,
    check_properly_weighted,
    exact_posterior,
    run_sampler,
)

# A mask, a prior beside the proposal, a hint in mid-text with a draw pending across steps, a
# twist, deaths by condition and by mask, texts of different lengths.
EVERYTHING = """
class InferenceModel(BaseModel):
    def __init__(self, context):
        super().__init__(context, max_tokens=3)

    @classmethod
    def prior_prompt(cls):
        return "p"

    @classmethod
    def proposal_prompt(cls):
        return "q"

    async def step(self):
        async with AvoidCharsMask(self, "c"):
            token = await self.next_token()
        self.twist({"a": 1.0, "b": -1.0}[token])
        if token == "b" and self.context.token_count == 2:
            self.condition(False)
        if await self.wants_to_end():
            await self.end()
            return
        await self.hint(f"after {token}")
"""

PLAIN = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.sample(self.context.next_token())
        if int(token) in self.context.lm.vocabulary.eos:
            self.finish()
            return
        self.condition(self.context.token_count < 3)

    def check(self, text):
        return text != "a"
"""


def toy() -> ToyFollower:
    return ToyFollower.random(15, ["a", "b", "c"], eos=2, special=1)


@functools.cache
def exact(source: str, condition: bool = False) -> ExactPosterior:
    return exact_posterior(source, toy(), condition=condition)


def test_the_test_program_does_what_it_says() -> None:
    reasons = {e.finish_reason for e in exact(EVERYTHING).executions}
    assert reasons == {"ended", "condition_false", "max_tokens"}
    assert len({len(text) for text in exact(EVERYTHING).masses}) == 3
    assert 0 < exact(PLAIN, True).evidence < exact(PLAIN).evidence


@pytest.mark.parametrize("threshold", [0.5, 1.0])
@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_smc_is_properly_weighted(scheme: str, threshold: float) -> None:
    sampler = SMCSampler(threshold, scheme)
    check_properly_weighted(sampler, EVERYTHING, toy(), n=4, runs=250, exact=exact(EVERYTHING))


@pytest.mark.parametrize("source", [EVERYTHING, PLAIN])
def test_importance_sampling_is_properly_weighted(source: str) -> None:
    check_properly_weighted(ImportanceSampler(), source, toy(), n=3, runs=300, exact=exact(source))


def test_smc_takes_plain_llamppl_programs() -> None:
    check_properly_weighted(SMCSampler(1.0), PLAIN, toy(), n=3, runs=300, exact=exact(PLAIN))


@pytest.mark.parametrize(("stop_after", "n"), [(None, 3), (2, 6), (3, 12)])
def test_rejection_sampling_is_properly_weighted(stop_after: int | None, n: int) -> None:
    sampler = RejectionSampler(stop_after, batch=4)
    check_properly_weighted(
        sampler, PLAIN, toy(), n=n, runs=300, condition=True, exact=exact(PLAIN, condition=True)
    )


def test_rejection_sampling_with_unequal_weights_is_properly_weighted() -> None:
    source = EVERYTHING + "\n    def check(self, text):\n        return len(text) != 1\n"
    check_properly_weighted(
        RejectionSampler(2, batch=3), source, toy(), n=9, runs=300, condition=True
    )


# A sampler that is wrong is found ------------------------------------------------------------


class OnlySurvivors(ImportanceSampler):
    """Wrong: the evidence divides by the particles that are alive."""

    name = "survivors"

    async def __call__(self, run: Run, n: int) -> Population:
        population = await super().__call__(run, n)
        alive = [p.weight for p in population.particles if p.weight > -math.inf]
        return Population(population.particles, weights.log_mean(alive) if alive else -math.inf)


class Forgetful(SMCSampler):
    """Wrong: resampling resets the weights to one, as Algorithm 2 as printed does."""

    name = "forgetful"

    async def __call__(self, run: Run, n: int) -> Population:
        particles = await run.spawn(n)
        while not all(p.done_stepping() for p in particles):
            await run.step(particles)
            shares = weights.normalise([p.weight for p in particles])
            if shares.sum() > 0:
                particles = run.resample(particles, SCHEMES[self.scheme](run.rng, shares, n))
                for particle in particles:
                    particle.weight = 0.0
        return Population(tuple(particles), weights.log_mean([p.weight for p in particles]))


class FirstToArrive(RejectionSampler):
    """Wrong: accepts in order of arrival, which favours short texts."""

    name = "arrival"

    async def __call__(self, run: Run, n: int) -> Population:
        particles = await run.spawn(n)
        while not any(p.done_stepping() and p.weight > -math.inf for p in particles):
            if all(p.done_stepping() for p in particles):
                break
            await run.step(particles)
        run.close(particles)
        return Population(tuple(particles), weights.log_mean([p.weight for p in particles]))


@pytest.mark.parametrize(
    ("wrong", "source"),
    [(OnlySurvivors(), EVERYTHING), (Forgetful(), EVERYTHING), (FirstToArrive(), PLAIN)],
)
def test_check_properly_weighted_finds_wrong_samplers(wrong: Any, source: str) -> None:
    with pytest.raises(AssertionError, match="not properly weighted"):
        check_properly_weighted(wrong, source, toy(), n=12, runs=200, exact=exact(source))


def test_search_samplers_are_not_held_to_weights() -> None:
    assert RejectionSampler(1).kind == "search" and RejectionSampler(2).kind == "weighted"
    with pytest.raises(SamplerError, match="search"):
        check_properly_weighted(RejectionSampler(1), PLAIN, toy())


# Rejection sampling --------------------------------------------------------------------------


def test_early_stopping_counts_in_the_order_of_indices() -> None:
    found = set()
    for seed in range(5):
        everyone = run_sampler(RejectionSampler(), PLAIN, toy(), 24, seed=seed).particles
        alive = [i for i, p in enumerate(everyone) if p.weight > -math.inf]
        early = run_sampler(RejectionSampler(2, batch=8), PLAIN, toy(), 24, seed=seed)
        n = alive[1] + 1
        found.add(n)
        assert [str(p) for p in early.particles] == [str(p) for p in everyone[:n]]
        assert early.log_evidence == pytest.approx(math.log(1 / (n - 1)), abs=1e-5)
    assert len(found) > 1


def test_one_accepted_text_gives_no_evidence() -> None:
    assert run_sampler(RejectionSampler(1), PLAIN, toy(), 24, seed=5).log_evidence is None


def test_rejected_texts_say_so() -> None:
    source = PLAIN.replace('text != "a"', "False")
    population = run_sampler(RejectionSampler(), source, toy(), 6)
    assert population.log_evidence == -math.inf
    assert "check" in {p.reason.split("(")[0] for p in population.particles}
    assert {p.finish_reason for p in population.particles} == {"condition_false"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: RejectionSampler(0),
        lambda: SMCSampler(1.5),
        lambda: SMCSampler(scheme="ranked"),
    ],
)
def test_wrong_arguments_are_the_users_error(make: Any) -> None:
    with pytest.raises(UsageError):
        make()


# SMC ----------------------------------------------------------------------------------------


def test_an_effective_sample_size_of_zero_or_one_is_respected() -> None:
    for threshold, expected in ((0.0, 0), (1.0, 1)):
        events: list[Any] = []
        population = asyncio.run(observed(SMCSampler(threshold), events))
        resampled = [e for e in events if isinstance(e, Resampled)]
        assert min(len(resampled), 1) == expected
        for event in resampled:
            assert len(event.ancestors) == len(population.particles) and 0 < event.ess < 16


async def observed(sampler: Any, events: list[Any]) -> Population:
    from disciple_ext.records.task import Task
    from disciple_ext.testing.exact import load_model

    follower, model = toy(), load_model(EVERYTHING, None)
    run = Run(
        lambda i: make_particle(model, Task("t"), follower, 0, i),
        seed=0,
        limits=Limits(),
        observers=[events.append],
    )
    return await sampler(run, 16)


def test_resampled_particles_share_the_evidence_and_go_different_ways() -> None:
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        if self.context.token_count == 0:
            self.score(30.0 * self.random.random())
        await self.next_token()
        if self.context.token_count == 12:
            await self.end()
"""
    population = run_sampler(SMCSampler(), source, ToyFollower.random(1, "abc"), 8)
    texts = [str(p) for p in population.particles]
    assert len({t[:1] for t in texts}) <= 3 and len(set(texts)) == 8


def test_all_dead_is_evidence_zero_and_not_an_endless_run() -> None:
    source = (
        "class InferenceModel(BaseModel):\n    async def step(self):\n        self.condition(0)"
    )
    for sampler in (SMCSampler(), ImportanceSampler(), RejectionSampler()):
        assert run_sampler(sampler, source, toy(), 4).log_evidence == -math.inf


# Seeds and limits ---------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [SMCSampler(), ImportanceSampler(), RejectionSampler(3)])
def test_one_seed_gives_one_result_whatever_else_is_running(sampler: Any) -> None:
    def outcome(population: Population) -> Any:
        return [(str(p), p.weight) for p in population.particles], population.log_evidence

    alone = outcome(run_sampler(sampler, EVERYTHING, toy(), 8, seed=3))
    follower = toy()

    async def together() -> list[Population]:
        return await asyncio.gather(
            *(arun_sampler(sampler, EVERYTHING, follower, 8, seed=s) for s in range(6))
        )

    crowd = [outcome(p) for p in asyncio.run(together())]
    assert crowd[3] == alone
    assert len({str(c) for c in crowd}) == 6


def test_steps_are_limited() -> None:
    source = "class InferenceModel(BaseModel):\n    async def step(self):\n        pass"
    population = run_sampler(SMCSampler(), source, toy(), 2, limits=Limits(max_steps=7))
    assert {p.finish_reason for p in population.particles} == {"max_steps"}
    assert "7 steps" in population.particles[0].reason and population.log_evidence == -math.inf


async def test_a_deadline_ends_what_is_left_and_leaves_no_evidence() -> None:
    from disciple_ext.records.task import Task
    from disciple_ext.testing.exact import load_model

    source = """
class InferenceModel(BaseModel):
    async def step(self):
        import asyncio
        await self.next_token()
        if self.random.random() < 0.5:
            await self.end()
        else:
            await asyncio.sleep(60)
"""
    follower, model = toy(), load_model(source, None)
    for sampler in (ImportanceSampler(), SMCSampler(), RejectionSampler()):
        run = Run(
            lambda i: make_particle(model, Task("t"), follower, 0, i),
            seed=0,
            limits=Limits(timeout=1.0),
            deadline=time.monotonic() + 1.0,
        )
        population = await asyncio.wait_for(sampler(run, 16), 20)
        assert population.log_evidence is None
        assert {p.finish_reason for p in population.particles} == {"ended", "timeout"}
        assert all(
            (p.weight == -math.inf) == (p.finish_reason == "timeout") for p in population.particles
        )


def test_a_weight_of_nan_is_the_samplers_error() -> None:
    source = (
        "class InferenceModel(BaseModel):\n    async def step(self):\n"
        "        self.weight = float('nan')"
    )
    with pytest.raises(SamplerError, match="nan"):
        run_sampler(SMCSampler(), source, toy(), 2)


class PlainModel(Model):
    """LLaMPPL code that knows nothing of this package but the context."""

    def __init__(self, context: FollowerContext) -> None:
        super().__init__()
        self.context = context

    async def step(self) -> None:
        token = await self.sample(self.context.next_token())
        self.condition(token.token_id != 1)
        if token.token_id in self.context.lm.vocabulary.eos:
            self.finish()


def test_plain_llamppl_models_run_under_every_sampler() -> None:
    follower = toy()

    def make(index: int) -> PlainModel:
        return PlainModel(FollowerContext(follower, "p", random=Stream(1, (index,))))

    for sampler in (ImportanceSampler(), SMCSampler(), RejectionSampler()):
        run = Run(make, seed=0, limits=Limits(max_steps=30))
        population = asyncio.run(sampler(run, 30))
        alive = [p for p in population.particles if p.weight > -math.inf]
        assert alive and all("b" not in str(p.context) for p in alive)


class Named(PlainModel):
    """A plain model with a ``line`` and a ``reason`` of its own."""

    reason = "mine"

    def __init__(self, context: FollowerContext) -> None:
        super().__init__(context)
        self.line = 7


def test_a_plain_model_stays_the_object_that_it_was() -> None:
    made: list[Named] = []

    def make(index: int) -> Named:
        made.append(Named(FollowerContext(toy(), "p", random=Stream(1, (index,)))))
        return made[-1]

    events: list[Any] = []
    run = Run(make, seed=0, limits=Limits(max_steps=2), observers=[events.append])
    (particle,) = asyncio.run(run.spawn(1))
    assert particle is made[0] and isinstance(particle, Named)
    assert (type(particle).__name__, particle.reason, particle.line) == ("Named", "mine", 7)
    twin = run.clone(particle)
    assert isinstance(twin, Named) and twin.finish_reason is None
    run.reject(twin, "refused")
    assert (twin.finish_reason, twin.reason, particle.reason) == (
        "condition_false",
        "refused",
        "mine",
    )
    for _ in range(3):
        asyncio.run(run.step([twin]))
    assert [e.reason for e in events if isinstance(e, ParticleFinished)] == ["refused"]


def test_a_bare_model_can_be_a_particle() -> None:
    run = Run(lambda index: Model(), seed=0, limits=Limits())
    (particle,) = asyncio.run(run.spawn(1))
    particle.finish()
    asyncio.run(run.step([particle]))
    assert asyncio.run(run.check(particle)) is None


def test_a_death_is_told_in_fields_and_in_words() -> None:
    source = (
        "class InferenceModel(BaseModel):\n    async def step(self):\n"
        "        await self.force('a')\n        self.condition(False)"
    )
    events: list[Any] = []
    with pytest.raises(NoParticleAlive):
        run_program(source, "t", follower=toy(), n=1, sandbox="none", on_event=events.append)
    (end,) = (e for e in events if isinstance(e, ParticleFinished))
    assert (end.cause, end.line) == ("condition(False)", 4)
    assert end.reason == "condition(False) (program line 4); the text so far is 'a'"
