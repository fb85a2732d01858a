"""Sequential Monte Carlo on islands that exchange no particles."""

from __future__ import annotations

import math

import numpy as np

from disciple_ext import UsageError
from disciple_ext.samplers import weights
from disciple_ext.samplers.base import Kind, Population, Run
from disciple_ext.samplers.resampling import SCHEMES

__all__ = ["IslandsSampler"]


class IslandsSampler:
    """Resamples each island by itself, so that texts of several ancestors are left in the end.

    An island alone is properly weighted, and so is the mean of several: the evidence is the mean
    of all final weights.

    Attributes:
        islands: number of islands; particle i lives on island i modulo this number.
        ess_threshold: fraction of an island's particles; it is resampled when its effective
            sample size falls below it.
    """

    name = "islands"
    kind: Kind = "weighted"

    def __init__(self, islands: int = 4, ess_threshold: float = 0.5) -> None:
        if not isinstance(islands, int) or islands < 1:
            raise UsageError(f"islands must be a whole number from 1 on, not {islands!r}")
        if not isinstance(ess_threshold, (int, float)) or not 0 <= ess_threshold <= 1:
            raise UsageError(f"ess_threshold must be from 0 to 1, not {ess_threshold!r}")
        self.islands = islands
        self.ess_threshold = ess_threshold

    async def __call__(self, run: Run, n: int) -> Population:
        """Run ``n`` particles to their end; weights are natural logs throughout."""
        particles = await run.spawn(n)
        places = [np.arange(n)[i :: self.islands] for i in range(min(self.islands, n))]
        while not all(p.done_stepping() for p in particles):
            await run.step(particles)
            if run.out_of_time:
                continue
            ancestors, average = np.arange(n), {}
            for place in places:
                log_weights = [particles[i].weight for i in place]
                mean = weights.log_mean(log_weights)
                few = weights.ess(log_weights) < self.ess_threshold * len(place)
                if mean > -math.inf and few:
                    shares = weights.normalise(log_weights)
                    drawn = SCHEMES["stratified"](run.rng, shares, len(place))
                    ancestors[place] = place[drawn]
                    average |= dict.fromkeys(place.tolist(), mean)
            if average:
                particles = run.resample(particles, ancestors.tolist())
                for i, mean in average.items():
                    particles[i].weight = mean  # the island's total stays what it was
        evidence = None if run.out_of_time else weights.log_mean([p.weight for p in particles])
        return Population(tuple(particles), evidence)
