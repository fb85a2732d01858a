"""Rejection sampling: whole texts, kept where the program's ``check`` accepts them."""

from __future__ import annotations

import math

from llamppl.modeling import Model

from ..errors import UsageError
from . import weights
from .base import Kind, Population, Run

__all__ = ["RejectionSampler"]


class RejectionSampler:
    """Runs ``step`` to the end of each text, keeps its importance weight, conditions on ``check``.

    With ``stop_after=r`` it stops at the r-th accepted text, counted in the order of the
    particles' indices, not of arrival, which would favour short texts. The evidence is then the
    mean weight of the r accepted texts times (r - 1) / (n - 1), where n is the index of the r-th:
    the unbiased estimate under negative binomial sampling (Haldane 1945), with weights. It is
    None for r = 1. Where N draws run out first, it is the accepted weights' sum over N.

    Attributes:
        stop_after: accepted texts after which to stop, or None to draw all N.
        batch: particles drawn at a time with early stopping.
    """

    name = "rs"

    def __init__(self, stop_after: int | None = None, batch: int = 8) -> None:
        for name, value in (("stop_after", stop_after), ("batch", batch)):
            none = name == "stop_after" and value is None
            if not none and (not isinstance(value, int) or value < 1):
                raise UsageError(f"{name} must be a whole number from 1 on, not {value!r}")
        self.stop_after = stop_after
        self.batch = batch

    @property
    def kind(self) -> Kind:
        """``search`` where one accepted text ends it (no unbiased evidence), else ``weighted``."""
        return "search" if self.stop_after == 1 else "weighted"

    async def __call__(self, run: Run, n: int) -> Population:
        """Draw at most ``n`` texts."""
        drawn: list[Model] = []
        accepted = 0
        while len(drawn) < n and not run.out_of_time:
            size = n - len(drawn) if self.stop_after is None else min(self.batch, n - len(drawn))
            particles = await run.spawn(size)
            while not all(p.done_stepping() for p in particles):
                await run.step(particles)
            for particle in particles:
                # Only False: without a check there is no verdict, and all texts are accepted.
                if particle.weight > -math.inf and await run.check(particle) is False:
                    run.reject(particle, "check() rejected the text")
                drawn.append(particle)
                accepted += particle.weight > -math.inf
                if accepted == self.stop_after:
                    return Population(tuple(drawn), self._early_evidence(drawn))
        if run.out_of_time:
            return Population(tuple(drawn), None)
        if self.stop_after == 1:
            return Population(tuple(drawn), None)
        log_sum = weights.log_sum([p.weight for p in drawn])
        return Population(tuple(drawn), log_sum - math.log(n))

    def _early_evidence(self, drawn: list[Model]) -> float | None:
        r, n = self.stop_after, len(drawn)
        if r is None or r == 1:
            return None
        log_sum = weights.log_sum([p.weight for p in drawn])
        return log_sum - math.log(r) + math.log(r - 1) - math.log(n - 1)
