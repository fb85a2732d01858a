"""The sampler on toy models."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest
from disciple_mcts import MCTSSampler, Search
from disciple_mcts.tree import open_children, widest

from disciple_ext.model.base import BaseModel
from disciple_ext.records.task import Limits, Task
from disciple_ext.run.job import describe_sampler, make_sampler
from disciple_ext.run.particles import make_particle
from disciple_ext.samplers.base import Population, Run
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.testing import ToyFollower, check_sampler, run_sampler
from disciple_ext.testing.exact import load_model

EVEN = {"a": 1.0, "b": 1.0, "c": 1.0, "": 1.0}


def program(body: str, rest: str = "") -> str:
    lines = "\n        ".join(body.strip().splitlines())
    return f"class InferenceModel(BaseModel):\n    async def step(self):\n        {lines}\n{rest}"


# Six letters; what they are worth is told at the end, when it is too late to resample.
LATE = program(
    """
await self.next_token()
if self.context.token_count == 6:
    self.score(3.0 * self.text.count("a"))
    await self.end()
""",
    "    def check(self, text):\n        return text.count('a') >= 5\n",
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
# 'a' scores well, and dies three steps later.
TRAP = program(
    """
await self.next_token()
if self.text == "a":
    self.score(6.0)
self.condition(not (self.text[0] == "a" and len(self.text) == 4))
if len(self.text) == 6:
    await self.end()
"""
)
DEAD = program("await self.next_token()\nself.condition(False)")
VARIED = program(
    """
async with AvoidCharsMask(self, "c"):
    await self.next_token()
if await self.wants_to_end():
    await self.end()
""",
    "    def check(self, text):\n        return text.endswith('b')\n",
)


def toy(**weights: float) -> ToyFollower:
    return ToyFollower(lambda prompt, text: {**EVEN, **weights}, ["a", "b", "c"])


def living(population: Population) -> list[Any]:
    return [p for p in population.particles if p.weight > -math.inf]


def searched(
    source: str,
    follower: ToyFollower,
    n: int,
    *,
    seed: int = 0,
    limits: Limits | None = None,
    deadline: float = math.inf,
    **options: Any,
) -> tuple[Search, Population]:
    model = load_model(source, None)
    task = Task("toy", n=n, limits=limits or Limits())
    run = Run(
        lambda i: make_particle(model, task, follower, seed, i),
        seed=seed,
        limits=task.limits,
        deadline=deadline,
    )
    search = Search(run, n, MCTSSampler(**options))
    asyncio.run(search.go_on())
    return search, search.population()


def nodes(search: Search) -> list[Any]:
    found = [search.root]
    for node in found:
        found.extend(node.children)
    return found


# It finds what others do not -------------------------------------------------------------------


def found(sampler: Any, source: str, n: int, follower: ToyFollower, runs: int = 20) -> int:
    """Runs in which some text lives and passes."""
    count = 0
    for seed in range(runs):
        texts = living(run_sampler(sampler, source, follower, n, seed=seed))
        count += any(p.check is None or p.check(str(p)) for p in texts)
    return count


def test_it_goes_back_out_of_dead_ends() -> None:
    follower = toy()
    assert found(MCTSSampler(), MAZE, 12, follower) >= 15
    assert found(ImportanceSampler(), MAZE, 12, follower) == 0


def test_it_leaves_a_trap_into_which_smc_resamples() -> None:
    follower = toy()
    assert found(MCTSSampler(), TRAP, 16, follower) >= 18
    assert found(SMCSampler(), TRAP, 16, follower) <= 8


def test_it_learns_from_what_is_told_at_the_end() -> None:
    follower = toy()
    ours = found(MCTSSampler(), LATE, 24, follower, runs=40)
    assert ours > found(SMCSampler(), LATE, 24, follower, runs=40)


def test_what_passes_comes_first_and_what_fails_is_rejected() -> None:
    _, population = searched(VARIED, toy(), 16)
    assert population.log_evidence is None
    alive = living(population)
    assert alive == list(population.particles[: len(alive)])
    assert alive and all(str(p).endswith("b") for p in alive)
    assert {p.reason for p in population.particles[len(alive) :]} == {"check() rejected the text"}
    scores = [p.weight / p.context.token_count for p in alive]
    assert scores == sorted(scores, reverse=True)


def test_weights_are_the_particles_own() -> None:
    _, population = searched(VARIED, toy(), 16)
    for p in living(population):
        # Even odds: each letter keeps 2/3 of what is no end, and 3/4 of everything is no end.
        assert p.weight == pytest.approx(len(str(p)) * math.log(2 / 4) - _ends(len(str(p))))


def _ends(letters: int) -> float:
    """wants_to_end() draws from the model itself: the choices before each letter cancel."""
    return (letters - 1) * math.log(3 / 4)


def test_it_conforms() -> None:
    report = check_sampler(MCTSSampler, quick=True)
    assert report.kind == "search"


# Bounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "alpha"), [(1.2, 0.5), (2.0, 0.5), (3.0, 0.25), (1.5, 1.0)])
@pytest.mark.parametrize("source", [LATE, MAZE, VARIED])
def test_open_children_stay_within_progressive_widening(
    source: str, width: float, alpha: float
) -> None:
    options = MCTSSampler(width=width, alpha=alpha)
    search, _ = searched(source, toy(), 24, width=width, alpha=alpha)
    for node in nodes(search):
        assert len(open_children(node)) <= widest(node.visits, options)
        assert node.running == node.expanding == 0
        assert 0.0 <= node.total <= node.visits and 0.0 <= node.best <= 1.0
    assert any(len(open_children(node)) > 1 for node in nodes(search))


@pytest.mark.parametrize("source", [LATE, MAZE, VARIED, TRAP, DEAD])
@pytest.mark.parametrize("n", [1, 2, 7, 24])
def test_the_budget_holds_within_one_rollout(source: str, n: int) -> None:
    for seed in range(3):
        search, population = searched(source, toy(), n, seed=seed)
        longest = max(node.cost for node in nodes(search))
        assert search.spent <= search.budget + longest
        assert search.spent == sum(n.cost - n.parent.cost for n in nodes(search) if n.parent)
        assert search.spent >= search.budget, "and it is used"
        assert population.particles


def test_the_budget_is_what_independent_particles_take() -> None:
    follower = toy()
    taken = [
        sum(len(str(p)) for p in run_sampler(ImportanceSampler(), LATE, follower, 16).particles)
    ]
    search, _ = searched(LATE, follower, 16)
    assert taken[0] <= search.spent <= taken[0] + 6


def test_steps_without_tokens_end_too() -> None:
    source = program("if self.random.random() < 0.2: self.finish()")
    search, population = searched(source, toy(), 8)
    assert living(population)
    assert search.spent <= search.budget + max(node.cost for node in nodes(search))


def test_all_dead_and_a_single_generation() -> None:
    _, dead = searched(DEAD, toy(), 4)
    assert not living(dead) and 1 <= len(dead.particles) <= 4
    assert {p.finish_reason for p in dead.particles} == {"condition_false"}
    search, one = searched(LATE, toy(), 1)
    assert len(search.rollouts) == len(one.particles) == 1
    assert search.spent == 6


def test_rollouts_to_a_depth_still_end_in_a_text() -> None:
    for depth in (1, 2, 5):
        search, population = searched(LATE, toy(), 8, depth=depth)
        assert any(not r.finished for r in search.rollouts)
        assert living(population)
        assert all(p.done_stepping() for p in population.particles)
    _, one = searched(LATE, toy(), 1, depth=1)
    assert len(living(one)) == 1


# Limits and contract ---------------------------------------------------------------------------


def test_no_particle_has_more_steps_than_the_limit() -> None:
    source = program("self.made = getattr(self, 'made', 0) + 1\nawait self.next_token()")
    search, population = searched(source, toy(), 6, limits=Limits(max_steps=5))
    assert {p.finish_reason for p in population.particles} == {"max_steps"}
    assert {p.made for p in population.particles} == {5}
    ends = program("await self.next_token()\nif len(self.text) == 5: await self.end()")
    _, population = searched(ends, toy(), 6, limits=Limits(max_steps=5))
    assert {p.finish_reason for p in population.particles} == {"ended"}


def test_max_tokens_is_an_end_that_is_not_tried_again() -> None:
    source = program("await self.next_token()")
    search, population = searched(source, toy(), 4, limits=Limits(max_tokens=9))
    assert {p.finish_reason for p in population.particles} == {"max_tokens"}
    assert search.spent <= 4 * 10 + 10


def test_time_ends_it() -> None:
    source = program("import asyncio\nawait asyncio.sleep(0.02)\nawait self.next_token()")
    begun = time.monotonic()
    _, population = searched(source, toy(), 8, deadline=begun + 0.3)
    assert time.monotonic() - begun < 2.0
    assert {p.finish_reason for p in population.particles} == {"timeout"}
    _, population = searched(LATE, toy(), 8, deadline=begun)
    assert {p.finish_reason for p in population.particles} == {"timeout"}


async def test_it_can_be_cancelled() -> None:
    source = program("import asyncio\nawait asyncio.sleep(100)")
    model = load_model(source, None)
    run = Run(lambda i: make_particle(model, Task("toy"), toy(), 0, i), seed=0, limits=Limits())
    work = asyncio.ensure_future(MCTSSampler()(run, 4))
    await asyncio.sleep(0.05)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert len(asyncio.all_tasks()) == 1


class Watched(BaseModel):
    """Notes every step of a particle that had finished, or had been cloned while it stepped."""

    wrong: list[str] = []

    async def step(self) -> None:
        if self.finished:
            self.wrong.append("stepped after its end")
        if getattr(self, "stepped", False):
            self.wrong.append("a snapshot was stepped, not its clone")
        await self.next_token()
        if self.context.token_count == 4 or await self.wants_to_end():
            await self.end()


def test_finished_particles_are_never_stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    stepped: list[Any] = []
    step = Run.step

    async def watch(self: Run, particles: Any) -> None:
        assert not any(p.done_stepping() for p in particles)
        assert not any(p is q for p in particles for q in stepped), "a snapshot was stepped"
        stepped.extend(particles)
        await step(self, particles)

    monkeypatch.setattr(Run, "step", watch)
    Watched.wrong.clear()
    population = run_sampler(MCTSSampler(), Watched, toy(), 16)
    assert living(population) and not Watched.wrong


def outcome(population: Population) -> list[tuple[str, float]]:
    return [(str(p), p.weight) for p in population.particles]


@pytest.mark.parametrize("source", [LATE, MAZE, VARIED])
def test_one_seed_gives_one_search(source: str) -> None:
    sampler = MCTSSampler()
    runs = [outcome(run_sampler(sampler, source, toy(), 12, seed=s)) for s in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


async def test_searches_side_by_side_do_not_meet() -> None:
    follower, sampler = toy(), MCTSSampler()
    model = load_model(VARIED, None)

    async def one(seed: int) -> list[tuple[str, float]]:
        task = Task("toy")
        run = Run(
            lambda i: make_particle(model, task, follower, seed, i), seed=seed, limits=task.limits
        )
        return outcome(await sampler(run, 8))

    together = await asyncio.gather(*(one(seed) for seed in range(6)))
    assert together == [await one(seed) for seed in range(6)]


def test_each_beginning_has_an_init_of_its_own() -> None:
    source = """
class InferenceModel(BaseModel):
    made = []
    def __init__(self, context):
        super().__init__(context)
        self.made.append(1)
    async def step(self):
        await self.next_token()
        await self.end()
"""
    search, _ = searched(source, toy(), 8)
    beginnings = search.root.children
    assert len(beginnings) > 1
    assert len(beginnings[0].particle.made) == len(beginnings)


def test_a_batch_of_rollouts_shares_the_followers_batches() -> None:
    follower = toy()
    search, _ = searched(LATE, follower, 32, parallel=8, width=8.0)
    assert follower.forwards < 0.5 * search.spent


def test_it_crosses_into_a_worker_as_plain_data() -> None:
    sampler = MCTSSampler(exploration=0.3, depth=4)
    twin = make_sampler(describe_sampler(sampler))
    assert twin == sampler and type(twin) is MCTSSampler
    assert (twin.name, twin.kind) == ("mcts", "search")
