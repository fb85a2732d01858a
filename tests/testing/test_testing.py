from __future__ import annotations

import asyncio
import math

import pytest

from disciple_ext.errors import PlannerError
from disciple_ext.records.task import Task
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.testing import (
    ReplayPlanner,
    ScriptedFollower,
    ToyFollower,
    exact_posterior,
    prior_masses,
    run_sampler,
)

COIN = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.next_token()
        self.score(math.log(3.0) if token == "a" else 0.0)
        self.finish()

    def check(self, text):
        return text == "a"
"""


def test_a_worked_example() -> None:
    toy = ToyFollower({"toy": lambda text: {"a": 0.2, "b": 0.3, "": 0.5}}, ["a", "b"], eos=2)
    exact = exact_posterior(COIN, toy)
    # Each token is drawn in proportion to 0.2 and 0.3, and the mask's mass of 0.5 is charged.
    assert exact.masses == pytest.approx({"a": 0.6, "b": 0.3}, rel=1e-6)
    assert exact.evidence == pytest.approx(0.9, rel=1e-6)
    assert exact.probabilities["a"] == pytest.approx(2 / 3, rel=1e-6)
    a, b = exact.executions
    assert (a.text, a.check, b.check) == ("a", True, False)
    assert math.exp(a.log_proposal) == pytest.approx(0.4, rel=1e-6)
    assert math.exp(a.log_weight) == pytest.approx(1.5, rel=1e-6)
    assert exact_posterior(COIN, toy, condition=True).masses == pytest.approx({"a": 0.6}, rel=1e-6)


def test_programs_with_too_many_executions_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 2 executions"):
        exact_posterior(COIN, ToyFollower.random(1), max_executions=2)


def test_the_prior_sums_to_one() -> None:
    toy = ToyFollower.random(1, ["a", "b"], special=0)
    ended = prior_masses(toy, "p", 3)
    begun = prior_masses(toy, "p", 4, end=False)
    open_ones = sum(m for t, m in begun.items() if len(t) == 4)
    assert sum(ended.values()) + open_ones == pytest.approx(1.0)
    assert set(ended) == {t for t in begun if len(t) <= 3} and len(ended) == 15


def test_a_random_toy_depends_on_prompt_hint_text_and_seed() -> None:
    toy = ToyFollower.random(1, ["a", "b"])
    rows = [
        toy.probabilities("p"),
        toy.probabilities("q"),
        toy.probabilities("p", hint="h"),
        toy.probabilities("p", ["a"]),
        ToyFollower.random(2, ["a", "b"]).probabilities("p"),
    ]
    assert len({tuple(row) for row in rows}) == 5
    assert (ToyFollower.random(1, ["a", "b"]).probabilities("p") == rows[0]).all()


def test_a_toys_tokens_must_spell_a_forced_text() -> None:
    toy = ToyFollower.random(1, ["a", "ab", "b"])
    assert toy.vocabulary.encode("aab") == (0, 1)
    with pytest.raises(ValueError, match="no token"):
        toy.vocabulary.encode("ac")


@pytest.mark.parametrize("words", [True, False])
def test_a_scripted_follower_writes_its_script_and_ends(words: bool) -> None:
    script = "It's one small, odd script - with 2 lines.\nThe end!"
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        if await self.wants_to_end():
            await self.end()
            return
        await self.next_token()
"""
    follower = ScriptedFollower(script, words=words)
    population = run_sampler(ImportanceSampler(), source, follower, 2)
    assert [str(p) for p in population.particles] == [script] * 2
    tokens = population.particles[0].context.token_count
    assert tokens < len(script) if words else tokens == len(script)
    assert population.log_evidence == pytest.approx(0.0, abs=1e-3)


def test_a_mask_leads_away_from_the_script() -> None:
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        async with AvoidCharsMask(self, "o"):
            await self.next_token()
        await self.end()
"""
    population = run_sampler(ImportanceSampler(), source, ScriptedFollower("one"), 4)
    assert all("o" not in str(p) and p.weight < -10 for p in population.particles)


def test_a_replay_planner_ends() -> None:
    planner = ReplayPlanner(["x"])
    plan = asyncio.run(planner.plan(Task("t"), ()))
    assert plan.program.source == "x" and not plan.program.trusted
    with pytest.raises(PlannerError, match="call 2"):
        asyncio.run(planner.plan(Task("t"), ()))
