"""SMC with resampling without replacement: LLaMPPL's ``smc_steer``, with exact weights.

Lew, Zhi-Xuan, Grand and Mansinghka (2023), "Sequential Monte Carlo steering of large language
models using probabilistic programs", arXiv 2306.03081. Each unfinished particle is expanded into
K copies of 1/K of its weight, all are stepped, and N of them are kept by Fearnhead and Clifford's
optimal resampling. A finished particle is not expanded and keeps its weight, and it stands for its
place like any other.

The weights are those of a sum: at every step their expected sum is N times the evidence so far, and
so it needs no factor for the number of copies, which changes as particles finish.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import UsageError
from . import weights
from .base import Kind, Population, Run
from .resampling import fearnhead_clifford

__all__ = ["SteerSampler"]


class SteerSampler:
    """Expands each particle K times, and keeps N of the N x K without replacement.

    Always ends with N particles: where fewer than N are alive, dead ones fill the places.

    Attributes:
        beam_factor: K, the expansions of each unfinished particle.
    """

    name = "smc-steer"
    kind: Kind = "weighted"

    def __init__(self, beam_factor: int = 3) -> None:
        if not isinstance(beam_factor, int) or beam_factor < 1:
            raise UsageError(
                f"the beam factor must be a whole number from 1 on, not {beam_factor!r}"
            )
        self.beam_factor = beam_factor

    async def __call__(self, run: Run, n: int) -> Population:
        """Run ``n`` particles to their end."""
        particles = await run.spawn(n)
        while not all(p.done_stepping() for p in particles):
            copies = [1 if p.done_stepping() else self.beam_factor for p in particles]
            expanded = np.repeat(np.arange(len(particles)), copies)
            particles = run.resample(particles, expanded.tolist())
            for particle in particles:
                if not particle.done_stepping():
                    # The copies share one weight, so that the expected sum stays what it was.
                    particle.weight -= math.log(self.beam_factor)
            await run.step(particles)
            log_weights = np.array([p.weight for p in particles])
            kept, kept_weights = fearnhead_clifford(run.rng, log_weights, n)
            dead = np.flatnonzero(log_weights == -np.inf)[: n - len(kept)]
            particles = run.resample(particles, [*kept, *dead])
            # Not strict: the dead ones at the end have no new weight, and stay at zero.
            for particle, log_weight in zip(particles, kept_weights, strict=False):
                particle.weight = float(log_weight)
        log_evidence = None if run.out_of_time else weights.log_mean([p.weight for p in particles])
        return Population(tuple(particles), log_evidence)
