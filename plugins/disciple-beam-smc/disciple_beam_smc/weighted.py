"""Beam search that is properly weighted: split, step, reduce without replacement."""

from __future__ import annotations

import math

from disciple_ext.samplers import weights
from disciple_ext.samplers.base import Kind, Population, Run
from disciple_ext.samplers.resampling import fearnhead_clifford

from .beams import ancestors, checked, shape

__all__ = ["WeightedBeamSMC"]


class WeightedBeamSMC:
    """Beams chosen by Fearnhead-Clifford resampling: proper weights and evidence.

    After each step the extensions are reduced to M, each kept with probability min(1, w / c), at
    weight w or c, whichever is more. Those kept that have not finished are split into K copies of
    weight w / K. Both leave every weighted sum as it is in expectation, so that the sum of the
    weights over the number of particles at the start is an unbiased estimate of the evidence.

    Attributes:
        copies: K, copies of each beam; M is n // K. With 1 it is importance sampling.
    """

    name = "beam-smc-weighted"
    kind: Kind = "weighted"

    def __init__(self, copies: int = 4) -> None:
        self.copies = checked(copies)

    async def __call__(self, run: Run, n: int) -> Population:
        """Run at most ``n`` particles at a time to their end."""
        beams, copies = shape(n, self.copies)
        start = beams * copies
        particles = await run.spawn(start)
        await run.step(particles)
        while not all(p.done_stepping() for p in particles):
            kept, log_weights = fearnhead_clifford(run.rng, [p.weight for p in particles], beams)
            for i, log_weight in zip(kept, log_weights, strict=True):
                split = 0.0 if particles[i].done_stepping() else math.log(copies)
                particles[i].weight = float(log_weight) - split
            particles = run.resample(particles, ancestors(particles, kept.tolist(), copies))
            await run.step(particles)
        if run.out_of_time:
            return Population(tuple(particles), None)
        log_sum = weights.log_sum([p.weight for p in particles])
        return Population(tuple(particles), log_sum - math.log(start))
