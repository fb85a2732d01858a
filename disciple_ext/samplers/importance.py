"""Importance sampling: every particle to its end, weights multiplied up, no resampling."""

from __future__ import annotations

from . import weights
from .base import Kind, Population, Run

__all__ = ["ImportanceSampler"]


class ImportanceSampler:
    """N independent particles; the evidence is their mean weight, the dead ones included."""

    name = "is"
    kind: Kind = "weighted"

    async def __call__(self, run: Run, n: int) -> Population:
        """Run ``n`` particles to their end."""
        particles = await run.spawn(n)
        while not all(p.done_stepping() for p in particles):
            await run.step(particles)
        # What the clock has ended would count as zero, and make the evidence too small.
        log_evidence = None if run.out_of_time else weights.log_mean([p.weight for p in particles])
        return Population(tuple(particles), log_evidence)
