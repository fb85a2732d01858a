"""Draws noted and repeated: the same text, the same weight, and what does not fit drawn anew."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from disciple_rejuvenate.script import Script
from disciple_rejuvenate.texts import Text, Writer, begin_edit, finish, step
from toys import ENDS, MODELS, exact, toy

from disciple_ext import BaseMeasure, Limits, Measure
from disciple_ext.protocol.adapters import measured
from disciple_ext.records.task import Task
from disciple_ext.run.particles import make_particle
from disciple_ext.samplers.base import Run
from disciple_ext.testing.exact import load_model
from disciple_ext.testing.models import EXAMPLES, Example


def new_run(model: Any, follower: Any, seed: int) -> Run:
    model = load_model(model, None)
    return Run(
        lambda i: make_particle(model, Task("toy"), follower, seed, i), seed=seed, limits=Limits()
    )


async def write(run: Run, *writers: Writer) -> list[Text]:
    while going := [w for w in writers if not w.particle.done_stepping()]:
        await step(run, going)
    return [await finish(run, w) for w in writers]


async def written(model: Any, follower: Any, n: int, seed: int = 0) -> tuple[Run, list[Text]]:
    run = new_run(model, follower, seed)
    return run, await write(run, *[Writer(p) for p in await run.spawn(n)])


# One draws before its first step, where nothing is repeated.
REPEATABLE = [e for e in EXAMPLES if e.name != "StartingWeights"]


@pytest.mark.parametrize(
    ("example", "measure"),
    [
        *((example, BaseMeasure()) for example in REPEATABLE),
        # Prior and proposal of one context, too, have two distributions.
        *((example, BaseMeasure(Measure(top_k=4), None, 1.5)) for example in REPEATABLE[:5]),
        *((e, BaseMeasure(Measure(0.7), Measure(top_p=0.6), 0.8)) for e in REPEATABLE[:5]),
    ],
    ids=lambda given: given.name if isinstance(given, Example) else str(given),
)
def test_repeated_draws_make_the_same_text_of_the_same_weight(
    example: Example, measure: BaseMeasure
) -> None:
    follower = measured(example.follower, measure)

    async def both() -> None:
        _, texts = await written(example.model, follower, 6)
        run = new_run(example.model, follower, seed=77)
        others = await run.spawn(6)
        writers = [
            Writer(p, [], {i: s.outcomes for i, s in enumerate(t.taken)})
            for p, t in zip(others, texts, strict=True)
        ]
        for old, new in zip(texts, await write(run, *writers), strict=True):
            assert str(old.particle) == str(new.particle)
            assert [s.outcomes for s in old.taken] == [s.outcomes for s in new.taken]
            assert new.particle.weight == pytest.approx(old.particle.weight, abs=1e-4)
            if old.alive:
                assert new.log_density == pytest.approx(old.log_density, abs=1e-4)
            assert new.particle.context.follower is follower

    asyncio.run(both())


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_density_is_that_of_the_target(name: str) -> None:
    _, texts = asyncio.run(written(MODELS[name], toy(), 30))
    wanted = exact(MODELS[name]).masses
    alive = [t for t in texts if t.alive]
    assert len({str(t.particle) for t in alive}) > 5
    for text in alive:
        assert math.exp(text.log_density) == pytest.approx(wanted[str(text.particle)], rel=1e-3)


def test_an_edit_keeps_what_is_outside_its_span() -> None:
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        if len(self) == 8:
            await self.end()
"""

    async def edits() -> None:
        run, texts = await written(source, toy(), 40)
        edited = await write(run, *[begin_edit(t, 2, run.rng) for t in texts])
        spans = set()
        for old, new in zip(texts, edited, strict=True):
            pairs = zip(str(old.particle), str(new.particle), strict=True)
            changed = [i for i, (a, b) in enumerate(pairs) if a != b]
            assert not changed or max(changed) - min(changed) < 2
            spans.update(changed)
        assert spans == set(range(8)), "any part of a text may be edited"

    asyncio.run(edits())


def test_what_does_not_fit_is_drawn_anew() -> None:
    # No letter twice in a row, so that the letter after the span may not fit.
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        async with AvoidCharsMask(self, self.text[-1:]):
            await self.next_token()
        if len(self) == 6:
            self.finish()
"""

    async def edits() -> int:
        run, texts = await written(source, toy(), 40)
        edited = await write(run, *[begin_edit(t, 1, run.rng) for t in texts])
        more = 0
        for old, new in zip(texts, edited, strict=True):
            a, b = str(old.particle), str(new.particle)
            assert len(b) == 6 and all(x != y for x, y in zip(b, b[1:], strict=False))
            more += sum(x != y for x, y in zip(a, b, strict=True)) > 1
        return more

    assert asyncio.run(edits()) > 0


def test_a_dead_text_is_edited_at_its_end() -> None:
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        self.condition(self.text == "abcabcab"[: len(self)])
"""

    async def edits() -> None:
        run, texts = await written(source, toy(), 30)
        assert not any(t.alive for t in texts)
        for text in texts:
            writer = begin_edit(text, 1, run.rng)
            assert writer.particle is text.taken[-1].before and not writer.plan
            assert len(writer.taken) == len(text.taken) - 1

    asyncio.run(edits())


def test_draws_of_a_judge_pass_through() -> None:
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        if not hasattr(self, "judge"):
            self.judge = await self.new_context("judge")
        await self.next_token()
        await self.sample(self.judge.next_token())
        if len(self) == 3:
            self.finish()
"""
    _, texts = asyncio.run(written(source, toy(), 4))
    for text in texts:
        assert [len(s.outcomes) for s in text.taken] == [1, 1, 1]
        assert text.particle.judge.token_count == 3


def test_noting_changes_nothing() -> None:
    async def both() -> None:
        follower = toy()
        for noted in (False, True):
            run = new_run(ENDS, follower, seed=5)
            (particle,) = await run.spawn(1)
            script = Script(particle) if noted else None
            await run.step([particle])
            outcomes.append((str(particle), particle.weight))
            if script is not None:
                assert script.name == follower.name and len(script.outcomes) == 1
                script.close()
            assert particle.context.follower is follower

    outcomes: list[tuple[str, float]] = []
    asyncio.run(both())
    assert outcomes[0] == outcomes[1]


def test_a_particle_without_a_context_of_ours_is_left_alone() -> None:
    class Plain:
        context = None

    script = Script(Plain(), [1])  # type: ignore[arg-type]
    script.close()
    assert script.outcomes == [] and Plain.context is None
