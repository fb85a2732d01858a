"""SMC with resample-move."""

from __future__ import annotations

from disciple_ext.samplers import weights
from disciple_ext.samplers.base import Kind, Population, Run
from disciple_ext.samplers.resampling import SCHEMES
from disciple_ext.samplers.smc import SMCSampler

from .moves import Trail, advance, move, resample
from .options import whole

__all__ = ["RejuvenateSampler"]


class RejuvenateSampler(SMCSampler):
    """SMC whose particles may draw their last steps again, each time they were resampled.

    Resampling makes copies; the move lets them part again, and leaves the target as it is. Only
    then are all weights equal, and every particle is worth the same try. See ``moves`` for why the
    weights are proper.

    Attributes:
        ess_threshold: fraction of n below which particles are resampled, and move.
        scheme: name of the resampling scheme.
        window: k, the steps that a move draws again.
        moves: moves of each particle after each resampling.
    """

    name = "rejuvenate"
    kind: Kind = "weighted"

    def __init__(
        self,
        window: int = 3,
        moves: int = 1,
        ess_threshold: float = 0.5,
        scheme: str = "stratified",
    ) -> None:
        super().__init__(ess_threshold, scheme)
        self.window = whole("window", window, 1)
        self.moves = whole("moves", moves, 0)

    async def __call__(self, run: Run, n: int) -> Population:
        """Run ``n`` particles to their end."""
        trails = [Trail(particle) for particle in await run.spawn(n)]
        while not all(trail.particle.done_stepping() for trail in trails):
            await advance(run, trails, self.window)
            log_weights = [trail.particle.weight for trail in trails]
            average = weights.log_mean(log_weights)
            if average == float("-inf") or run.out_of_time:
                continue
            if weights.ess(log_weights) < self.ess_threshold * n:
                ancestors = SCHEMES[self.scheme](run.rng, weights.normalise(log_weights), n)
                trails = resample(run, trails, ancestors.tolist(), average)
                for _ in range(self.moves):
                    await move(run, trails, self.window)
        particles = tuple(trail.particle for trail in trails)
        log_evidence = None if run.out_of_time else weights.log_mean([p.weight for p in particles])
        return Population(particles, log_evidence)
