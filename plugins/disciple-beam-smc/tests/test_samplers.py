"""Both samplers on toy models: proper weights, the mode, work, limits, ends, randomness."""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from disciple_beam_smc import BeamSMC, WeightedBeamSMC, search, weighted
from disciple_beam_smc.beams import shape
from llamppl.modeling import Model

from disciple_ext import Limits, UsageError
from disciple_ext.records.task import Task
from disciple_ext.run.job import describe_sampler, make_sampler
from disciple_ext.run.particles import make_particle
from disciple_ext.samplers.base import Population, Run
from disciple_ext.samplers.resampling import fearnhead_clifford
from disciple_ext.testing import (
    ExactPosterior,
    ToyFollower,
    check_properly_weighted,
    check_sampler,
    exact_posterior,
    run_sampler,
)
from disciple_ext.testing.exact import load_model

# Mask, prior beside proposal, hint, twist, deaths, texts of different lengths.
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

# LLaMPPL's own verbs; early and late ends.
PLAIN = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.sample(self.context.next_token())
        if int(token) in self.context.lm.vocabulary.eos:
            self.finish()
            return
        self.condition(self.context.token_count < 4)
"""

# Most particles die, and weights differ widely.
HARD = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.next_token()
        self.condition(token == "a" or len(self) % 2 == 1)
        self.score({"a": 0.0, "b": 3.0, "c": -4.0}[token])
        if len(self) == 3:
            await self.end()
"""

# Weights far apart, nothing dies: some are above the threshold c in most steps.
SPREAD = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.next_token()
        self.score({"a": -3.0, "b": 0.0, "c": 1.0}[token])
        if len(self) == 3:
            self.finish()
"""

# Forced text, and an end in the first step or the third.
FORCED = """
class InferenceModel(BaseModel):
    async def step(self):
        if not self.text and await self.wants("ab"):
            token = await self.next_token()
            await self.force("c" + token)
            self.finish()
            return
        await self.next_token()
        if len(self) == 3:
            self.condition(self.text[0] != self.text[2])
            self.finish()
"""

ENDLESS = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
"""

DOOMED = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        self.condition(len(self) < 2)
"""

ONCE = """
class InferenceModel(BaseModel):
    async def step(self):
        if self.finished:
            raise RuntimeError("stepped after its end")
        token = await self.next_token()
        if token == "a":
            self.score(1.0)
            self.finish()
        self.condition(len(self) < 6)
"""

# The weight is the text's probability: the heaviest text is the follower's mode.
CHOOSES = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.force(self.random.choice("ab"))
        if len(self) == 4:
            self.finish()
"""

SOURCES = {
    "everything": EVERYTHING,
    "plain": PLAIN,
    "hard": HARD,
    "spread": SPREAD,
    "forced": FORCED,
}
SAMPLERS = [BeamSMC, WeightedBeamSMC]


@functools.cache
def toy(seed: int = 15) -> ToyFollower:
    return ToyFollower.random(seed, ["a", "b", "c"], eos=2, special=1)


@functools.cache
def exact(source: str) -> ExactPosterior:
    return exact_posterior(source, toy())


class Watched(Run):
    """A run that notes how many particles each step steps, and how many are alive after it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stepped: list[int] = []

    async def step(self, particles: Sequence[Model]) -> None:
        assert len({id(p) for p in particles}) == len(particles), "a particle is there twice"
        self.stepped.append(sum(not p.done_stepping() for p in particles))
        await super().step(particles)


def watch(
    sampler: Any, source: str, n: int, *, limits: Limits | None = None, **options: Any
) -> tuple[Population, Watched]:
    model, limits = load_model(source, None), limits or Limits()
    task = Task("toy", n=n, limits=limits)
    run = Watched(
        lambda index: make_particle(model, task, toy(), 0, index), seed=0, limits=limits, **options
    )
    return asyncio.run(sampler(run, n)), run


def told(population: Population) -> list[tuple[str, float]]:
    return [(str(p), float(p.weight)) for p in population.particles]


# Proper weights -------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_conformance(sampler: Any) -> None:
    # With fewer than four particles there are no copies to compete.
    check_sampler(sampler, n=8, quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_conformance_with_any_seed(seed: int) -> None:
    n, copies = [(8, 4), (4, 2)][seed % 2]
    check_sampler(WeightedBeamSMC(copies), n=n, seed=10_000 * (seed + 1), quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_conformance_with_full_power(sampler: Any) -> None:
    check_sampler(sampler, n=8)


@pytest.mark.parametrize(("copies", "n"), [(2, 4), (3, 7)])
@pytest.mark.parametrize("name", sorted(SOURCES))
def test_the_weighted_variant_is_properly_weighted(name: str, copies: int, n: int) -> None:
    source = SOURCES[name]
    check_properly_weighted(
        WeightedBeamSMC(copies), source, toy(), n=n, runs=200, exact=exact(source)
    )


def test_one_copy_is_importance_sampling() -> None:
    from disciple_ext.samplers.importance import ImportanceSampler

    ours = run_sampler(WeightedBeamSMC(1), EVERYTHING, toy(), 6)
    theirs = run_sampler(ImportanceSampler(), EVERYTHING, toy(), 6)
    # Ours drops the dead on the way.
    alive = [pair for pair in told(theirs) if pair[1] > -math.inf]
    assert [pair for pair in told(ours) if pair[1] > -math.inf] == alive
    assert ours.log_evidence == pytest.approx(theirs.log_evidence)


def wrong(kept_at: str) -> Any:
    """Fearnhead-Clifford resampling with a mistake in the weights of those kept."""

    def reduce(rng: Any, log_weights: Any, n: int) -> Any:
        kept, new = fearnhead_clifford(rng, log_weights, n)
        if kept_at == "old weight":
            return kept, np.asarray(log_weights)[kept]
        return kept, np.full(len(kept), np.log(np.exp(new).mean()))

    return reduce


@pytest.mark.parametrize("kept_at", ["old weight", "average weight"])
def test_wrong_weights_would_be_found(kept_at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighted, "fearnhead_clifford", wrong(kept_at))
    with pytest.raises(AssertionError, match="not properly weighted"):
        check_properly_weighted(
            WeightedBeamSMC(2), SPREAD, toy(), n=6, runs=500, exact=exact(SPREAD)
        )


# The search -----------------------------------------------------------------------------------


def test_the_search_finds_the_mode_where_greedy_search_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def garden_path(prompt: str, text: Any) -> dict[str, float]:
        if not text:
            return {"a": 0.6, "b": 0.4}
        return {"a": 0.5, "b": 0.5} if text[0] == "a" else {"a": 0.05, "b": 0.95}

    follower = ToyFollower(garden_path, ["a", "b"])

    def found(seed: int) -> tuple[str, float]:
        heaviest = run_sampler(BeamSMC(), CHOOSES, follower, 32, seed=seed).particles[0]
        return str(heaviest), math.exp(heaviest.weight)

    assert [found(seed) for seed in range(10)] == [("bbbb", pytest.approx(0.4 * 0.95**3))] * 10
    monkeypatch.setattr(search, "shape", lambda n, copies: (1, n))
    greedy = [found(seed) for seed in range(10)]
    assert all(text[0] == "a" and p == pytest.approx(0.6 * 0.5**3) for text, p in greedy)


def test_the_search_gives_different_texts_the_heaviest_first() -> None:
    population = run_sampler(BeamSMC(), CHOOSES, toy(), 32)
    texts = [str(p) for p in population.particles]
    log_weights = [p.weight for p in population.particles]
    assert len(texts) == len(set(texts)) == 8
    assert log_weights == sorted(log_weights, reverse=True)
    assert population.log_evidence is None


class Stub:
    def __init__(self, text: str, weight: float, finished: bool = False) -> None:
        self.text, self.weight, self.finished = text, weight, finished

    def __str__(self) -> str:
        return self.text

    def done_stepping(self) -> bool:
        return self.finished


def test_another_text_goes_before_the_same_one_again() -> None:
    particles: Any = [
        Stub("a", -1.0),
        Stub("a", 0.0),
        Stub("b", -9.0),
        Stub("a", -2.0, finished=True),
        Stub("a", -3.0, finished=True),
        Stub("c", -math.inf, finished=True),
        Stub("d", -9.0),
    ]
    assert search.best(particles, 2) == [1, 3]
    assert search.best(particles, 4) == [1, 3, 2, 6]
    assert search.best(particles, 9) == [1, 3, 2, 6, 0]
    assert search.best([Stub("a", -1.0), Stub("a", -2.0), Stub("b", -9.0), Stub("b", -9.0)], 3) == [
        0,
        2,
        1,
    ]


def test_an_answer_outlives_the_beams_that_beat_it() -> None:
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.next_token()
        if token == "a":
            self.finish()
        self.score(float(len(self)))
        self.condition(len(self) < 3)
"""
    # Longer texts are always heavier, and end only by dying or with an "a".
    for seed in range(5):
        found = [str(p) for p in run_sampler(BeamSMC(), source, toy(), 32, seed=seed).particles]
        assert found and all(text.endswith("a") for text in found)
    assert "a" in found


# Both -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [BeamSMC(), BeamSMC(2), WeightedBeamSMC(), WeightedBeamSMC(7)])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 33])
def test_a_step_is_the_work_of_n_particles(sampler: Any, n: int) -> None:
    beams, copies = shape(n, sampler.copies)
    population, run = watch(sampler, CHOOSES, n)
    assert beams * copies <= n and copies <= sampler.copies and (n < 2 or beams >= 2)
    assert run.stepped[0] == beams * copies > n - copies
    assert len(run.stepped) == 4 and max(run.stepped) <= n
    if isinstance(sampler, WeightedBeamSMC):
        assert run.stepped == [beams * copies] * 4


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("n", [1, 2, 8, 16])
def test_a_finished_particle_is_not_stepped(sampler: Any, n: int) -> None:
    for copies in (1, 4):
        population, run = watch(sampler(copies), ONCE, n)
        assert population.particles and all(p.done_stepping() for p in population.particles)
        assert run.stepped == sorted(run.stepped, reverse=True)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_one_seed_gives_one_result(sampler: Any) -> None:
    one = sampler()
    before = dict(vars(one))
    first = run_sampler(one, EVERYTHING, toy(), 8, seed=3)
    np.random.seed(1)
    again = run_sampler(one, EVERYTHING, toy(), 8, seed=3)
    assert told(first) == told(again) and first.log_evidence == again.log_evidence
    assert vars(one) == before
    others = [told(run_sampler(one, EVERYTHING, toy(), 8, seed=s)) for s in range(4, 8)]
    assert any(other != told(first) for other in others)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_copies_of_a_beam_draw_for_themselves(sampler: Any) -> None:
    # From step 2 on every particle comes from one of two beams.
    texts = {str(p)[-1] for p in run_sampler(sampler(16), CHOOSES, toy(), 32).particles}
    assert len(texts) > 1


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_step_limit_ends_it(sampler: Any) -> None:
    population, run = watch(sampler(), ENDLESS, 8, limits=Limits(max_steps=5))
    assert len(run.stepped) == 6
    assert {p.finish_reason for p in population.particles} == {"max_steps"}
    assert all(p.weight == -math.inf for p in population.particles)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_time_limit_ends_it(sampler: Any) -> None:
    begun = time.monotonic()
    limits = Limits(timeout=0.2, max_steps=10**9)
    population, _ = watch(sampler(), ENDLESS, 8, limits=limits, deadline=begun + 0.2)
    assert time.monotonic() - begun < 2.0
    assert {p.finish_reason for p in population.particles} == {"timeout"}
    assert population.log_evidence is None


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_all_dead_is_said(sampler: Any) -> None:
    population = run_sampler(sampler(), DOOMED, toy(), 8)
    assert {p.finish_reason for p in population.particles} == {"condition_false"}
    assert population.log_evidence == (-math.inf if sampler is WeightedBeamSMC else None)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("copies", [0, -1, 2.0, True, "4", None])
def test_copies_is_a_whole_number(sampler: Any, copies: Any) -> None:
    with pytest.raises(UsageError, match="copies"):
        sampler(copies)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_it_crosses_into_the_sandbox_as_plain_data(sampler: Any) -> None:
    there = make_sampler(describe_sampler(sampler(3)))
    assert type(there) is sampler and vars(there) == {"copies": 3}
