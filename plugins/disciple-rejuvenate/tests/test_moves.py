"""The move leaves the target as it is: from exact draws of it come exact draws, after any step."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from disciple_rejuvenate import moves
from disciple_rejuvenate.moves import Trail, advance, move
from toys import ENDS, MODELS, TWISTED, State, heaviest, target, toy
from wrong import plant

from disciple_ext import Limits
from disciple_ext.records.task import Task
from disciple_ext.run.particles import make_particle
from disciple_ext.samplers.base import Run
from disciple_ext.testing.exact import load_model


def new_run(source: str, *, seed: int = 0, **options: Any) -> Run:
    model, task = load_model(source, None), Task("toy", n=1)
    limits = options.pop("limits", Limits())
    return Run(
        lambda i: make_particle(model, task, toy(), seed, i), seed=seed, limits=limits, **options
    )


async def drawn(run: Run, highest: float, steps: int, window: int, n: int) -> list[Trail]:
    """Exact draws of the target after some steps, by rejection, as resampling would leave them."""
    trails = [Trail(particle) for particle in await run.spawn(n)]
    for _ in range(steps):
        await moves.advance(run, trails, window)
    rng = np.random.default_rng(0)
    kept = [t for t in trails if rng.random() < math.exp(t.log_weight - highest)]
    for trail in kept:
        trail.owed, trail.particle.weight = trail.log_weight + 4.0, -4.0
    return kept


def states(trails: Sequence[Trail]) -> Counter[State]:
    return Counter((str(t.particle), t.particle.done_stepping()) for t in trails)


def off(counts: Counter[State], wanted: dict[State, float]) -> float:
    """The largest distance of a count from what is expected, in standard deviations.

    A state that cannot be is infinitely far off. States of which fewer than ten are expected count
    as one.
    """
    n = counts.total()
    assert n > 200
    if not counts.keys() <= wanted.keys():
        return math.inf
    rare = {s for s, p in wanted.items() if n * p < 10.0}
    groups = [{s} for s in wanted.keys() - rare] + ([rare] if rare else [])
    far = 0.0
    for group in groups:
        p = min(sum(wanted[s] for s in group), 1.0)
        seen = sum(counts[s] for s in group)
        far = max(far, abs(seen - n * p) / math.sqrt(n * p * (1 - p) + 1.0))
    return far


def moved(
    source: str, steps: int, window: int, *, sweeps: int = 1, n: int = 1000
) -> tuple[float, float]:
    """How far the states are from the target before and after moves, in standard deviations."""

    highest, wanted = heaviest(source, steps), target(source, steps)

    async def both() -> tuple[Counter[State], Counter[State]]:
        run = new_run(source)
        trails = await drawn(run, highest, steps, window, n)
        before = states(trails)
        for _ in range(sweeps):
            await moves.move(run, trails, window)
        return before, states(trails)

    before, after = asyncio.run(both())
    return off(before, wanted), off(after, wanted)


# At most 30 states; five standard deviations happen by chance about once in 10^5.
@pytest.mark.parametrize(("steps", "window"), [(1, 1), (3, 2), (4, 3)])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_move_leaves_the_target_as_it_is(name: str, steps: int, window: int) -> None:
    before, after = moved(MODELS[name], steps, window)
    assert before < 5.0 and after < 5.0


def test_the_move_leads_to_the_target() -> None:
    """From draws of the program alone, without their weights."""

    async def distance(sweeps: int) -> float:
        run = new_run(ENDS)
        trails = [Trail(particle) for particle in await run.spawn(600)]
        for _ in range(3):
            await advance(run, trails, 3)
        for trail in trails:
            trail.owed, trail.particle.weight = trail.log_weight, 0.0
        for _ in range(sweeps):
            await move(run, trails, 3)
        return off(states(trails), wanted)

    wanted = target(ENDS, 3)
    assert asyncio.run(distance(0)) > 8.0
    assert asyncio.run(distance(6)) < 5.0


# Wrong moves -----------------------------------------------------------------------------------

# Those that the move shows by itself, and where; the others take a sampler.
SHOWN = {
    "always": (ENDS, 3, 2),
    "inverted": (ENDS, 3, 2),
    "without twist": (TWISTED, 2, 1),
    "averaged weight": (ENDS, 3, 2),
    "own clock": (ENDS, 3, 2),
    "better only": (TWISTED, 2, 1),
}


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_a_wrong_move_would_be_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(name, monkeypatch)
    _, after = moved(*SHOWN[name])
    assert after > 6.0
