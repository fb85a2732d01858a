"""Beam search over program steps, ranked by log weight."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from llamppl.modeling import Model

from disciple_ext.samplers.base import Kind, Population, Run

from .beams import ancestors, checked, shape

__all__ = ["BeamSMC", "best"]


class BeamSMC:
    """Keeps the M best of M x K sampled extensions by log weight: candidates, no evidence.

    Each step of the program is one extension, drawn by each copy for itself. Finished particles
    are not copied, and hold a beam for as long as they are among the best; those that lose it
    are put aside and compete once more at the end, so that no answer is lost to a beam that
    then dies.

    Attributes:
        copies: K, extensions of each beam; M is n // K.
    """

    name = "beam-smc"
    kind: Kind = "search"

    def __init__(self, copies: int = 4) -> None:
        self.copies = checked(copies)

    async def __call__(self, run: Run, n: int) -> Population:
        """Search with at most ``n`` particles stepped at a time; gives at most M candidates."""
        beams, copies = shape(n, self.copies)
        particles = await run.spawn(beams * copies)
        aside: list[Model] = []
        while not all(p.done_stepping() for p in particles):
            await run.step(particles)
            kept = best(particles, beams)
            if not kept:  # all dead; they say why
                break
            lost = [p for i, p in enumerate(particles) if p.done_stepping() and i not in kept]
            aside = _best(aside + lost, beams)
            particles = run.resample(particles, ancestors(particles, kept, copies))
        candidates = _best(particles + aside, beams)
        return Population(tuple(candidates or particles), None)


def best(particles: Sequence[Model], beams: int) -> list[int]:
    """Indices of the particles to keep, at most ``beams``: the heaviest of each text first.

    A text that is there already gets a second beam only if beams are left over when every text
    has one, a third only when every text has two: twice the same text is half the search. Equal
    texts are not merged, for particles may differ in what the program has drawn beside the text.
    Twice the same finished text is of no use at all. The dead are never kept. Ties go to the
    lower index.
    """
    alive = [i for i, p in enumerate(particles) if p.weight > -math.inf]
    seen: Counter[tuple[str, bool]] = Counter()
    # How many of the same text are heavier, how many of all, and the index.
    ranked: list[tuple[int, int, int]] = []
    for i in sorted(alive, key=lambda i: -float(particles[i].weight)):
        finished = particles[i].done_stepping()
        key = (str(particles[i]), finished)
        if not (finished and seen[key]):
            ranked.append((seen[key], len(ranked), i))
        seen[key] += 1
    return [i for _, _, i in sorted(ranked)[:beams]]


def _best(particles: Sequence[Model], beams: int) -> list[Model]:
    return [particles[i] for i in best(particles, beams)]
