"""Wrong moves: each is a mistake that one might make, planted in place of what is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from disciple_rejuvenate import moves, rejuvenate
from disciple_rejuvenate.moves import Trail, advance, move

from disciple_ext.samplers.base import Run

__all__ = ["BUGS", "plant"]


def always(new: Trail, old: Trail) -> float:
    return float(new.log_weight > -math.inf)


def inverted(new: Trail, old: Trail) -> float:
    ratio = old.log_weight - new.log_weight
    return math.exp(min(0.0, ratio)) if ratio < math.inf else 0.0


def without_twist(new: Trail, old: Trail) -> float:
    ratio = new.log_weight - old.log_weight
    if ratio == -math.inf:
        return 0.0
    twists: Any = [t.particle for t in (new, old)]
    return math.exp(min(0.0, ratio - twists[0].twist_amount + twists[1].twist_amount))


def averaged_weight(new: Trail, old: Trail) -> float:
    """The weight since resampling, as if it were the program's own."""
    return math.exp(min(0.0, float(new.particle.weight) - float(old.particle.weight)))


async def own_clock(run: Run, trails: Sequence[Trail], window: int) -> None:
    """A finished particle's window ends with its end: it moves from before that."""
    going = [t for t in trails if not t.particle.done_stepping()]
    await advance(run, going, window)


async def old_past(run: Run, trails: list[Trail], window: int) -> int:
    """Who moves keeps the snapshots of the way that it left."""
    pasts = [t.past for t in trails]
    count = await move(run, trails, window)
    for trail, past in zip(trails, pasts, strict=True):
        trail.past = past
    return count


async def new_weight(run: Run, trails: list[Trail], window: int) -> int:
    """Who moves gets the weight of its new window, not that of its place."""
    before = list(trails)
    count = await move(run, trails, window)
    for old, new in zip(before, trails, strict=True):
        if new is not old:
            new.particle.weight += new.log_weight - old.log_weight
    return count


async def better_only(run: Run, trails: list[Trail], window: int) -> int:
    """Moves are made where they gain, which is a search."""
    before = list(trails)
    count = await move(run, trails, window)
    for i, (old, new) in enumerate(zip(before, list(trails), strict=True)):
        if new.log_weight < old.log_weight:
            trails[i] = old
            count -= 1
    return count


# What is replaced, and by what.
BUGS: dict[str, tuple[str, Callable[..., Any]]] = {
    "always": ("acceptance", always),
    "inverted": ("acceptance", inverted),
    "without twist": ("acceptance", without_twist),
    "averaged weight": ("acceptance", averaged_weight),
    "own clock": ("advance", own_clock),
    "better only": ("move", better_only),
    "new weight": ("move", new_weight),
    "old past": ("move", old_past),
}


def plant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a wrong move in the place of the right one."""
    attribute, wrong = BUGS[name]
    for module in (moves, rejuvenate):
        if hasattr(module, attribute):
            monkeypatch.setattr(module, attribute, wrong)
