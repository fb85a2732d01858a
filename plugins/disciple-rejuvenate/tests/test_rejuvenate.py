"""SMC with resample-move: proper weights, what bugs would do to them, work, limits, randomness."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from disciple_rejuvenate import RejuvenateSampler, moves
from llamppl.modeling import Model
from toys import ENDS, MIXED, MODELS, exact, toy
from wrong import plant

from disciple_ext import Limits, UsageError
from disciple_ext.records.task import Task
from disciple_ext.run.job import describe_sampler, make_sampler
from disciple_ext.run.particles import make_particle
from disciple_ext.samplers.base import Population, Run
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.testing import check_properly_weighted, check_sampler, run_sampler
from disciple_ext.testing.exact import load_model

ENDLESS = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        self.score(self.random.random())
"""

DOOMED = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        self.score(self.random.random())
        self.condition(len(self) < 3)
"""

# The first letter decides everything, so that all come from few after resampling.
FEW = """
class InferenceModel(BaseModel):
    async def step(self):
        for _ in range(2):
            token = await self.next_token()
        self.score(4.0 if len(self) == 2 and self.text == "aa" else 0.0)
        if len(self) == 6:
            self.finish()
"""


RESAMPLED = -1

# Wrong moves that show in the sampler's estimates; those that the move shows alone are slow here.
FOUND = ("always", "inverted", "better only", "new weight", "old past")
QUICK = ("new weight", "old past")


class Watched(Run):
    """A run that notes who is stepped, and that no snapshot is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.done: list[int] = []  # particles stepped, or RESAMPLED
        self._cloned: list[Model] = []

    def clone(self, particle: Model) -> Model:
        self._cloned.append(particle)
        return super().clone(particle)

    def resample(self, particles: Sequence[Model], ancestors: Sequence[int]) -> list[Model]:
        self.done.append(RESAMPLED)
        cloned = list(self._cloned)
        out = super().resample(particles, ancestors)
        self._cloned = cloned  # the parents of these clones go on themselves
        return out

    async def step(self, particles: Sequence[Model]) -> None:
        running = [p for p in particles if not p.done_stepping()]
        assert len({id(p) for p in particles}) == len(particles), "a particle is there twice"
        assert not any(p is q for p in running for q in self._cloned), "a snapshot was stepped"
        self.done.append(len(running))
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


def test_conformance() -> None:
    check_sampler(RejuvenateSampler, quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_conformance_with_any_seed(seed: int) -> None:
    sampler = [
        RejuvenateSampler(),
        RejuvenateSampler(window=1, moves=2),
        RejuvenateSampler(window=2, ess_threshold=1.0, scheme="systematic"),
        RejuvenateSampler(window=9, ess_threshold=0.9, scheme="residual"),
    ][seed % 4]
    check_sampler(sampler, n=3 + seed % 3, seed=10_000 * (seed + 1), quick=True)


@pytest.mark.slow
def test_conformance_with_full_power() -> None:
    check_sampler(RejuvenateSampler(ess_threshold=1.0))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_it_is_properly_weighted_where_it_always_moves(name: str) -> None:
    source = MODELS[name]
    sampler = RejuvenateSampler(window=2, moves=2, ess_threshold=1.0)
    check_properly_weighted(sampler, source, toy(), n=3, runs=150, exact=exact(source))


def test_without_moves_it_is_smc() -> None:
    ours = run_sampler(RejuvenateSampler(moves=0), ENDS, toy(), 200)
    theirs = run_sampler(SMCSampler(), ENDS, toy(), 200)
    # Particles are clones of those that SMC steps, so that their draws are others.
    assert ours.log_evidence == pytest.approx(theirs.log_evidence, abs=0.2)


def test_moves_change_neither_weights_nor_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    move = moves.move

    async def watched(run: Run, trails: list[moves.Trail], window: int) -> int:
        nonlocal seen
        before = [t.particle.weight for t in trails]
        count = await move(run, trails, window)
        assert [t.particle.weight for t in trails] == before
        assert len(set(before)) == 1
        seen += count
        return count

    monkeypatch.setattr(sys.modules["disciple_rejuvenate.rejuvenate"], "move", watched)
    for seed in range(5):
        run_sampler(RejuvenateSampler(ess_threshold=1.0), MIXED, toy(), 8, seed=seed)
    assert seen > 10


@pytest.mark.parametrize(
    "bug", [pytest.param(b, marks=() if b in QUICK else pytest.mark.slow) for b in FOUND]
)
def test_a_wrong_sampler_would_be_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(bug, monkeypatch)
    sampler = RejuvenateSampler(window=2, moves=2, ess_threshold=1.0)
    with pytest.raises(AssertionError, match="properly weighted|unbiased"):
        for source in MODELS.values():
            check_properly_weighted(sampler, source, toy(), n=4, runs=500, exact=exact(source))


# The past ---------------------------------------------------------------------------------------


def test_the_past_is_the_particles_own_after_resampling_and_moves() -> None:
    async def walk() -> int:
        model = load_model(ENDS, None)
        run = Run(lambda i: make_particle(model, Task("toy"), toy(), 0, i), seed=0, limits=Limits())
        trails = [moves.Trail(p) for p in await run.spawn(30)]
        moved = 0
        for t in range(1, 5):
            await moves.advance(run, trails, 2)
            trails = moves.resample(run, trails, run.rng.integers(0, 30, 30).tolist(), -1.0)
            moved += await moves.move(run, trails, 2)
            for trail in trails:
                assert len(trail.past) == min(t, 2)
                texts = [str(s.particle) for s in trail.past] + [str(trail.particle)]
                for i, (text, longer) in enumerate(zip(texts, texts[1:], strict=False)):
                    finished = trail.past[i].particle.done_stepping()
                    assert longer.startswith(text)
                    assert len(longer) == len(text) + (not finished)
                score = sum({"a": 0.8, "b": -0.8, "c": 0.0}[c] for c in texts[-1])
                if trail.particle.done_stepping():
                    score += 0.7 if len(texts[-1]) < 3 else -0.7
                mass = sum(mask_masses(texts[-1]))
                assert trail.log_weight == pytest.approx(score + mass, abs=1e-4)
        return moved

    assert asyncio.run(walk()) > 10


def mask_masses(text: str) -> list[float]:
    """What next_token() charges: log of the mass of all that is no end and no special token."""
    return [float(np.log(toy().probabilities("toy", text[:i])[:3].sum())) for i in range(len(text))]


def test_who_had_finished_before_the_window_stays() -> None:
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.next_token()
        if token == "a" or len(self) == 4:
            self.finish()
"""

    async def walk() -> None:
        model = load_model(source, None)
        run = Run(lambda i: make_particle(model, Task("toy"), toy(), 0, i), seed=0, limits=Limits())
        trails = [moves.Trail(p) for p in await run.spawn(40)]
        for _ in range(3):
            await moves.advance(run, trails, 2)
        for trail in trails:
            trail.owed, trail.particle.weight = trail.log_weight, 0.0
        before = [t.particle for t in trails]
        stepped = run.steps
        await moves.move(run, trails, 2)
        assert run.steps == stepped + 2, "all windows together"
        early = [p for p in before if str(p) == "a"]
        assert early and all(any(p is t.particle for t in trails) for p in early)
        # Nothing in this program tells texts apart but what the mask takes away.
        assert sum(p is not t.particle for p, t in zip(before, trails, strict=True)) > 10

    asyncio.run(walk())


# Work, limits, randomness -----------------------------------------------------------------------


def test_windows_are_drawn_together_and_only_after_resampling() -> None:
    _, run = watch(RejuvenateSampler(window=2, ess_threshold=0.9), ENDS, 16)
    assert RESAMPLED in run.done and max(run.done) <= 16
    left, clock = list(run.done), 0
    while left:
        assert left.pop(0) != RESAMPLED
        clock += 1
        if left and left[0] == RESAMPLED:
            windows = left[1 : 1 + min(clock, 2)]
            assert len(windows) == min(clock, 2) and RESAMPLED not in windows
            del left[: 1 + len(windows)]
    assert clock >= 2
    _, run = watch(RejuvenateSampler(ess_threshold=0.0), ENDS, 16)
    assert 2 <= len(run.done) <= 4 and RESAMPLED not in run.done


def test_copies_part_again() -> None:
    def different(sampler: Any) -> float:
        runs = [run_sampler(sampler, FEW, toy(), 16, seed=s) for s in range(8)]
        return float(np.mean([len({str(p) for p in r.particles}) for r in runs]))

    assert different(RejuvenateSampler(window=2, ess_threshold=1.0)) > different(
        SMCSampler(ess_threshold=1.0)
    )


def test_one_seed_gives_one_result_and_nothing_else_is_touched() -> None:
    one = RejuvenateSampler(window=2)
    before = dict(vars(one))
    random.seed(1)
    np.random.seed(1)
    states = random.getstate(), np.random.get_state()[1].tolist()
    first = run_sampler(one, MIXED, toy(), 8, seed=3)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states
    np.random.seed(2)
    again = run_sampler(one, MIXED, toy(), 8, seed=3)
    assert told(first) == told(again) and first.log_evidence == again.log_evidence
    assert vars(one) == before
    others = [told(run_sampler(one, MIXED, toy(), 8, seed=s)) for s in range(4, 8)]
    assert any(other != told(first) for other in others)


def test_runs_side_by_side_share_nothing() -> None:
    one, model = RejuvenateSampler(ess_threshold=1.0), load_model(MIXED, None)

    async def run(seed: int) -> Population:
        made = Run(
            lambda i: make_particle(model, Task("toy"), toy(), seed, i), seed=seed, limits=Limits()
        )
        return await one(made, 6)

    async def both() -> tuple[list[Population], list[Population]]:
        together = await asyncio.gather(*(run(seed) for seed in range(4)))
        return together, [await run(seed) for seed in range(4)]

    together, alone = asyncio.run(both())
    assert [told(p) for p in together] == [told(p) for p in alone]


def test_the_step_limit_holds_in_windows_too() -> None:
    population, run = watch(
        RejuvenateSampler(ess_threshold=1.0), ENDLESS, 6, limits=Limits(max_steps=5)
    )
    assert {p.finish_reason for p in population.particles} == {"max_steps"}
    assert {run.steps_of(p) for p in population.particles} == {6}
    assert all(p.context.token_count == 5 for p in population.particles)
    assert population.log_evidence == float("-inf")


def test_the_time_limit_ends_it() -> None:
    begun = time.monotonic()
    limits = Limits(timeout=0.2, max_steps=10**9)
    population, _ = watch(
        RejuvenateSampler(ess_threshold=1.0), ENDLESS, 6, limits=limits, deadline=begun + 0.2
    )
    assert time.monotonic() - begun < 3.0
    assert {p.finish_reason for p in population.particles} == {"timeout"}
    assert population.log_evidence is None


def test_all_dead_is_said() -> None:
    population = run_sampler(RejuvenateSampler(ess_threshold=1.0), DOOMED, toy(), 6)
    assert {p.finish_reason for p in population.particles} == {"condition_false"}
    assert population.log_evidence == float("-inf")


@pytest.mark.parametrize(
    "wrong",
    [
        {"window": 0},
        {"window": 2.0},
        {"window": True},
        {"moves": -1},
        {"moves": None},
        {"ess_threshold": 1.5},
        {"scheme": "none"},
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any]) -> None:
    name = {"ess_threshold": "ESS threshold", "scheme": "scheme"}.get(*wrong, next(iter(wrong)))
    with pytest.raises(UsageError, match=name):
        RejuvenateSampler(**wrong)


def test_it_crosses_into_the_sandbox_as_plain_data() -> None:
    sampler = RejuvenateSampler(window=5, moves=2)
    there = make_sampler(describe_sampler(sampler))
    assert type(there) is RejuvenateSampler and vars(there) == vars(sampler)
