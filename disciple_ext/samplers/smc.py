"""Sequential Monte Carlo, the paper's Algorithm 2.

One departure: Algorithm 2 as printed normalises the weights at every step, which loses the
evidence. Here they are kept as they are, and a resampled particle gets the average weight, so
that the mean of the final weights is an unbiased estimate of the evidence. The normalised
weights, and so every decision and answer, are the same.
"""

from __future__ import annotations

from ..errors import UsageError
from . import weights
from .base import Kind, Population, Run
from .resampling import SCHEMES

__all__ = ["SMCSampler"]


class SMCSampler:
    """Steps all particles, and resamples when the effective sample size falls too low.

    Attributes:
        ess_threshold: fraction of n below which particles are resampled; 1 resamples after
            every step with unequal weights, 0 never.
        scheme: name of the resampling scheme.
    """

    name = "smc"
    kind: Kind = "weighted"

    def __init__(self, ess_threshold: float = 0.5, scheme: str = "stratified") -> None:
        if not isinstance(ess_threshold, (int, float)) or not 0.0 <= ess_threshold <= 1.0:
            raise UsageError(f"the ESS threshold must be from 0 to 1, not {ess_threshold!r}")
        if scheme not in SCHEMES:
            raise UsageError(f"unknown resampling scheme {scheme!r}; one of {sorted(SCHEMES)}")
        self.ess_threshold = ess_threshold
        self.scheme = scheme

    async def __call__(self, run: Run, n: int) -> Population:
        """Run ``n`` particles to their end."""
        particles = await run.spawn(n)
        while not all(p.done_stepping() for p in particles):
            await run.step(particles)
            log_weights = [p.weight for p in particles]
            # Over all N: without the dead ones the estimate of the evidence would be too large.
            average = weights.log_mean(log_weights)
            if average == float("-inf"):  # every particle is dead, or the rest may still be alive
                continue
            if run.out_of_time:  # what the cut has ended stays as it is, to be seen
                continue
            # Finished particles take part, for their weights are in the average that all get.
            if weights.ess(log_weights) < self.ess_threshold * n:
                ancestors = SCHEMES[self.scheme](run.rng, weights.normalise(log_weights), n)
                particles = run.resample(particles, ancestors.tolist())
                for particle in particles:
                    particle.weight = average
        log_evidence = None if run.out_of_time else weights.log_mean([p.weight for p in particles])
        return Population(tuple(particles), log_evidence)
