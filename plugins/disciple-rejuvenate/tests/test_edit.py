"""Iterative editing on toy models: what it finds, what it never loses, work, limits, randomness."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from typing import Any

import pytest
from disciple_rejuvenate import EditSampler
from llamppl.modeling import Model
from toys import MODELS, exact, toy

from disciple_ext import Limits, UsageError
from disciple_ext.records.task import Task
from disciple_ext.run.job import describe_sampler, make_sampler
from disciple_ext.run.particles import make_particle
from disciple_ext.samplers.base import Population, Run
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.testing import ToyFollower, check_sampler, run_sampler
from disciple_ext.testing.exact import load_model


def program(body: str, rest: str = "") -> str:
    lines = "\n        ".join(body.strip().splitlines())
    return f"class InferenceModel(BaseModel):\n    async def step(self):\n        {lines}\n{rest}"


EVEN = ToyFollower(lambda prompt, text: {"a": 1.0, "b": 1.0, "c": 1.0, "": 1.0}, "abc")

# Eight letters; only the end says how many of them are right, and seven make an answer.
LATE = program(
    """
await self.next_token()
if len(self) == 8:
    self.score(2.0 * self.text.count("a"))
    await self.end()
""",
    "    def check(self, text):\n        return text.count('a') >= 7\n",
)
# Every wrong letter is an end.
MAZE = program(
    """
await self.next_token()
self.condition(self.text == "abcabcab"[: len(self.text)])
if len(self.text) == 8:
    await self.end()
"""
)
# One text in nine passes, and nothing but check() says so.
CHECKED = program(
    """
await self.next_token()
if len(self) == 4:
    await self.end()
""",
    "    def check(self, text):\n        return text[0] == text[3] == 'b'\n",
)
ENDLESS = program("await self.next_token()")
DEAD = program("await self.next_token()\nself.condition(False)")


class Counting(Run):
    """A run that counts the tokens by which particles grow, and those that it made."""

    tokens = spawned = 0

    async def spawn(self, n: int) -> list[Model]:
        self.spawned += n
        return await super().spawn(n)

    async def step(self, particles: Sequence[Model]) -> None:
        before = [p.context.token_count for p in particles]
        assert not any(p.done_stepping() for p in particles)
        await super().step(particles)
        self.tokens += sum(
            max(1, p.context.token_count - b) for p, b in zip(particles, before, strict=True)
        )


def watch(
    sampler: Any,
    source: str,
    n: int,
    *,
    seed: int = 0,
    limits: Limits | None = None,
    **options: Any,
) -> tuple[Population, Counting]:
    model, limits = load_model(source, None), limits or Limits()
    task = Task("toy", n=n, limits=limits)
    run = Counting(
        lambda index: make_particle(model, task, EVEN, seed, index),
        seed=seed,
        limits=limits,
        **options,
    )
    return asyncio.run(sampler(run, n)), run


def living(population: Population) -> list[Any]:
    return [p for p in population.particles if p.weight > -math.inf]


def answered(sampler: Any, source: str, n: int, runs: int = 12) -> int:
    """Runs in which some text lives and passes."""
    found = 0
    for seed in range(runs):
        texts = living(run_sampler(sampler, source, EVEN, n, seed=seed))
        found += any(p.check is None or p.check(str(p)) for p in texts)
    return found


def told(population: Population) -> list[tuple[str, float]]:
    return [(str(p), float(p.weight)) for p in population.particles]


# What it finds ---------------------------------------------------------------------------------


def test_it_conforms() -> None:
    assert check_sampler(EditSampler, quick=True).kind == "search"


def test_edits_lead_to_what_is_told_at_the_end() -> None:
    assert answered(EditSampler(), LATE, 48) >= answered(ImportanceSampler(), LATE, 48) + 3


def test_edits_lead_out_of_dead_ends() -> None:
    assert answered(EditSampler(), MAZE, 16) >= 10
    assert answered(ImportanceSampler(), MAZE, 16) <= 1


def test_without_anything_to_go_by_it_is_no_worse_than_other_texts() -> None:
    assert answered(EditSampler(), CHECKED, 12, runs=20) >= 10


@pytest.mark.parametrize("source", [LATE, MAZE, CHECKED])
def test_more_rounds_never_lose_anything(source: str) -> None:
    for seed in range(3):
        best = (False, -math.inf)
        for rounds in range(6):
            population = run_sampler(EditSampler(rounds=rounds), source, EVEN, 16, seed=seed)
            texts = living(population)
            passes = any(p.check is None or p.check(str(p)) for p in texts)
            # All living texts of these programs have one length, so that density is rank.
            now = (passes, max((p.weight for p in texts), default=-math.inf))
            assert now >= best
            best = now


def test_texts_are_weighted_by_the_targets_density_and_each_is_there_once() -> None:
    for source in MODELS.values():
        population = run_sampler(EditSampler(), source, toy(), 24)
        texts = living(population)
        assert len(texts) > 2 and len({str(p) for p in texts}) == len(texts)
        assert population.log_evidence is None
        for p in texts:
            assert math.exp(p.weight) == pytest.approx(exact(source).masses[str(p)], rel=1e-3)


def test_what_fails_is_rejected_where_something_passes() -> None:
    for seed in range(10):
        population, _ = watch(EditSampler(rounds=1), CHECKED, 12, seed=seed)
        texts = living(population)
        verdicts = {p.check(str(p)) for p in texts}
        assert verdicts in ({True}, {False})
        rest = population.particles[len(texts) :]
        assert {p.reason for p in rest} <= {"check() rejected the text"}
        assert list(population.particles[: len(texts)]) == texts


# Work and limits -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 24])
@pytest.mark.parametrize("source", [LATE, CHECKED])
def test_it_takes_the_tokens_of_n_whole_texts(source: str, n: int) -> None:
    population, run = watch(EditSampler(), source, n)
    length = max(len(str(p)) for p in population.particles)
    drafts = max(1, round(n / 4))
    assert run.spawned == drafts
    assert n * length <= run.tokens < (n + drafts) * length
    _, whole = watch(EditSampler(drafts=1.0), source, n)
    assert (whole.spawned, whole.tokens) == (n, n * length)


def test_it_ends_where_every_text_is_dead() -> None:
    population, run = watch(EditSampler(), DEAD, 8)
    assert {p.finish_reason for p in population.particles} == {"condition_false"}
    assert run.tokens <= 12


def test_no_particle_has_more_steps_or_tokens_than_the_limit() -> None:
    for limits, reason in (
        (Limits(max_steps=5), "max_steps"),
        (Limits(max_tokens=5), "max_tokens"),
    ):
        population, run = watch(EditSampler(), ENDLESS, 6, limits=limits)
        assert {p.finish_reason for p in population.particles} == {reason}
        assert {p.context.token_count for p in population.particles} == {5}
        assert run.tokens < 70


def test_time_ends_it_and_what_was_finished_stays() -> None:
    source = program(
        """
import asyncio
await asyncio.sleep(0.01)
await self.next_token()
if len(self) == 4:
    await self.end()
"""
    )
    begun = time.monotonic()
    population, run = watch(EditSampler(drafts=0.01), source, 1000, deadline=begun + 1.0)
    assert time.monotonic() - begun < 4.0 and run.spawned == 10
    assert living(population)
    population, _ = watch(EditSampler(), source, 8, deadline=begun)
    assert {p.finish_reason for p in population.particles} == {"timeout"}


async def test_it_can_be_cancelled() -> None:
    model = load_model(program("import asyncio\nawait asyncio.sleep(100)"), None)
    run = Run(lambda i: make_particle(model, Task("toy"), EVEN, 0, i), seed=0, limits=Limits())
    work = asyncio.ensure_future(EditSampler()(run, 4))
    await asyncio.sleep(0.05)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert len(asyncio.all_tasks()) == 1


def test_one_seed_gives_one_result() -> None:
    one = EditSampler()
    before = dict(vars(one))
    runs = [told(run_sampler(one, LATE, EVEN, 12, seed=s)) for s in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert vars(one) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"drafts": 0.0},
        {"drafts": 1.5},
        {"drafts": math.nan},
        {"span": 0},
        {"span": 1.5},
        {"rounds": -1},
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        EditSampler(**wrong)


def test_it_crosses_into_the_sandbox_as_plain_data() -> None:
    sampler = EditSampler(drafts=0.25, span=2, rounds=7)
    there = make_sampler(describe_sampler(sampler))
    assert type(there) is EditSampler and vars(there) == vars(sampler)
