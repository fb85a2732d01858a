"""The move: a particle exchanges its last steps for new ones, or keeps them.

Let x be all that a particle has drawn in t steps (a finished one stays as it is until t), p(x) the
probability that the program runs this way, and W(x) the weight that the program has given it by
now, the twist in force included. After t steps SMC aims at p(x) W(x). The move takes the first
t - k steps as they are, runs the program again for the others, and accepts what it then has, x',
with probability min(1, W(x') / W(x)). That is Metropolis-Hastings with an independence proposal
(Hastings 1970; Tierney 1994): x' is proposed with p(x' | the first t - k steps) whatever x is, so
that p cancels in p(x') W(x') p(x | ...) / (p(x) W(x) p(x' | ...)), and what is left is the ratio
of the weights of the two windows. So the move leaves p W invariant, and a particle that stood for
it still does: neither weights nor evidence change (Gilks and Berzuini 2001).

The window is counted by the clock of the run, not by the steps that a particle has made itself:
else where it begins would depend on when its particle finished, and the way back would begin
elsewhere. A particle that had finished when the window begins has nothing to draw, and stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from llamppl.modeling import Model

from disciple_ext.samplers.base import Run

__all__ = ["Trail", "acceptance", "advance", "move", "resample"]


@dataclass(eq=False, slots=True)
class Trail:
    """A particle and where it has been.

    Attributes:
        particle: the particle.
        owed: what resampling and moves have taken from its log weight so far (nats).
        past: snapshots from before each of its last steps, oldest first. They are never stepped
            or changed, only cloned, so that offspring share them.
    """

    particle: Model
    owed: float = 0.0
    past: tuple[Trail, ...] = ()

    @property
    def log_weight(self) -> float:
        """Log of W(x), the weight that the program itself has given; -inf for the dead."""
        return float(self.particle.weight) + self.owed


async def advance(run: Run, trails: Sequence[Trail], window: int) -> None:
    """One step of all particles together, remembering where the last ``window`` steps began."""
    for trail in trails:
        trail.past = (*trail.past, Trail(trail.particle, trail.owed))[-window:]
        if not trail.particle.done_stepping():
            trail.particle = run.clone(trail.particle)
    await run.step([trail.particle for trail in trails])


def resample(
    run: Run, trails: Sequence[Trail], ancestors: Sequence[int], log_weight: float
) -> list[Trail]:
    """Offspring of the ancestors, each with the weight given and the ancestor's past."""
    own = [trail.log_weight for trail in trails]
    particles = run.resample([trail.particle for trail in trails], ancestors)
    offspring = []
    for particle, ancestor in zip(particles, ancestors, strict=True):
        particle.weight = log_weight
        offspring.append(Trail(particle, own[ancestor] - log_weight, trails[ancestor].past))
    return offspring


async def move(run: Run, trails: list[Trail], window: int) -> int:
    """Give each particle the choice of another window; all windows are drawn together.

    Particles must be alive, as they are after resampling, and have made a step. Those that move are
    replaced in ``trails``, and have the weight of those whose places they take.

    Returns:
        How many have moved.
    """
    places = [i for i, t in enumerate(trails) if not t.past[0].particle.done_stepping()]
    begun = [trails[i].past[0] for i in places]
    fresh = [Trail(snapshot.particle, snapshot.owed) for snapshot in begun]
    for _ in trails[0].past:  # as long for all of them, by the run's clock
        await advance(run, fresh, window)
    moved = 0
    for place, new in zip(places, fresh, strict=True):
        old = trails[place]
        if run.rng.random() < acceptance(new, old):
            own = new.log_weight
            new.particle.weight = old.particle.weight
            new.owed = own - float(new.particle.weight)
            trails[place] = new
            moved += 1
    return moved


def acceptance(new: Trail, old: Trail) -> float:
    """Probability of the move: min(1, W(x') / W(x)), where the steps in common cancel.

    It is 0 where the new window died.
    """
    return math.exp(min(0.0, new.log_weight - old.log_weight))
