"""Programs that keep a record of what a sampler does to them."""

from __future__ import annotations

import asyncio
from typing import Any

from ..model.base import BaseModel
from ..model.context import FollowerContext

__all__ = ["Blocking", "Endless", "StepCounts", "Slow", "watched"]


class StepCounts:
    """What was seen of the particles of some runs.

    Attributes:
        finished: steps of particles that had finished.
        shared: steps of particles whose state somebody else had changed.
        repeated: random numbers that came up in two particles.
        longest: steps of the particle that made most, its ancestors' included.
        waiting: particles that have come to their point of waiting.
        over: set to make every further step raise: nobody is to step any more.
    """

    def __init__(self) -> None:
        self.finished = self.shared = self.repeated = self.longest = self.waiting = 0
        self.over = False
        self._numbers: set[int] = set()

    def see(self, particle: Any) -> None:
        """A particle is about to step."""
        if self.over:
            raise RuntimeError("a particle was stepped after the end of the run")
        # 64 bits do not come twice by chance: a repeated number is a shared stream.
        number = particle.random.getrandbits(64)
        self.finished += particle.done_stepping()
        self.repeated += number in self._numbers
        self._numbers.add(number)
        particle.taken += 1
        particle.trail.append(number)
        # A shallow copy has a count of its own, and shares the list: then the two disagree.
        self.shared += len(particle.trail) != particle.taken
        self.longest = max(self.longest, particle.taken)


def watched(model: type[BaseModel], counts: StepCounts) -> type[BaseModel]:
    """A program that does what ``model`` does, and counts its steps."""

    class Watched(model):  # type: ignore[misc, valid-type]
        def __init__(self, context: FollowerContext) -> None:
            super().__init__(context)
            self.taken = 0
            self.trail: list[int] = []

        async def step(self) -> None:
            counts.see(self)
            await super().step()

    Watched.__name__ = model.__name__
    Watched.counts = counts
    return Watched


class Endless(BaseModel):
    """Never ends; its weights vary."""

    async def step(self) -> None:
        """One step."""
        await asyncio.sleep(0)
        self.score(self.random.random() - 0.5)


class Slow(BaseModel):
    """Never ends, and takes a hundredth of a second for each step."""

    async def step(self) -> None:
        """One step."""
        await asyncio.sleep(0.01)
        self.score(self.random.random() - 0.5)


class Blocking(BaseModel):
    """Waits for an hour, in its third step."""

    counts: StepCounts

    async def step(self) -> None:
        """One step."""
        self.score(self.random.random() - 0.5)
        self.begun = getattr(self, "begun", 0) + 1
        if self.begun == 3:
            self.counts.waiting += 1
            await asyncio.sleep(3600)
