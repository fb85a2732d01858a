"""Samplers that are wrong, each in one way, and the property by which each must be found."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from disciple_ext.samplers import weights
from disciple_ext.samplers.base import Kind, Population, Run
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.samplers.rejection import RejectionSampler
from disciple_ext.samplers.resampling import fearnhead_clifford, multinomial


class Right:
    """SMC that resamples after every step; the wrong ones change one method."""

    kind: Kind = "weighted"
    resamples = True

    @property
    def name(self) -> str:
        return type(self).__name__

    async def __call__(self, run: Run, n: int) -> Population:
        particles = await run.spawn(n)
        while not all(p.done_stepping() for p in particles):
            await self.step(run, particles)
            dead = max(p.weight for p in particles) == -math.inf
            if self.resamples and not dead and not run.out_of_time:
                particles = self.resample(run, particles)
        return Population(tuple(particles), self.evidence(run, particles))

    async def step(self, run: Run, particles: Sequence[Any]) -> None:
        await run.step(particles)

    def ancestors(self, run: Run, log_weights: Sequence[float]) -> Any:
        return multinomial(run.rng, weights.normalise(log_weights), len(log_weights))

    def resample(self, run: Run, particles: Sequence[Any]) -> list[Any]:
        log_weights = [p.weight for p in particles]
        out = self.copies(run, particles, self.ancestors(run, log_weights))
        for particle in out:
            particle.weight = self.weight(particle, log_weights)
        return out

    def copies(self, run: Run, particles: Sequence[Any], ancestors: Any) -> list[Any]:
        return run.resample(particles, ancestors)

    def weight(self, particle: Any, log_weights: Sequence[float]) -> float:
        return weights.log_mean(log_weights)

    def evidence(self, run: Run, particles: Sequence[Any]) -> float | None:
        return None if run.out_of_time else weights.log_mean([p.weight for p in particles])


# Weights -------------------------------------------------------------------------------------


class WeightsNotReset(Right):
    def weight(self, particle: Any, log_weights: Sequence[float]) -> float:
        return float(particle.weight)


class NoAverageWeight(Right):
    def weight(self, particle: Any, log_weights: Sequence[float]) -> float:
        return 0.0


class AverageOfTheLiving(Right):
    def weight(self, particle: Any, log_weights: Sequence[float]) -> float:
        return weights.log_mean([w for w in log_weights if w > -math.inf])


class UnnormalisedWeights(Right):
    def ancestors(self, run: Run, log_weights: Sequence[float]) -> Any:
        cdf = np.cumsum(np.clip(np.exp(log_weights), 0.0, 1.0))
        u = run.rng.random(len(log_weights))
        return np.minimum(np.searchsorted(cdf, u, side="right"), len(log_weights) - 1)


class TemperedWeights(Right):
    def ancestors(self, run: Run, log_weights: Sequence[float]) -> Any:
        p = weights.normalise(0.5 * np.array(log_weights))
        return multinomial(run.rng, p, len(log_weights))


class FavoursTheFirst(Right):
    def ancestors(self, run: Run, log_weights: Sequence[float]) -> Any:
        cdf, n = np.cumsum(weights.normalise(log_weights)), len(log_weights)
        return np.searchsorted(cdf, np.arange(n) / n, side="right")


class LooksAtTheResult(Right):
    def ancestors(self, run: Run, log_weights: Sequence[float]) -> Any:
        draws = [super(LooksAtTheResult, self).ancestors(run, log_weights) for _ in range(25)]
        return max(draws, key=lambda d: weights.log_sum(np.array(log_weights)[d]))  # the best of 25


class FinishedStayOut(Right):
    """Resamples the unfinished ones alone, and gives them the average over all."""

    def resample(self, run: Run, particles: Sequence[Any]) -> list[Any]:
        average = weights.log_mean([p.weight for p in particles])
        going = [p for p in particles if not p.done_stepping()]
        if going:
            going = run.resample(going, super().ancestors(run, [p.weight for p in going]))
        for particle in going:
            particle.weight = average
        return [*going, *(p for p in particles if p.done_stepping() and p not in going)]


class OldWeights(Right):
    """Optimal resampling, the survivors at their old weight."""

    copies_each = 3

    async def __call__(self, run: Run, n: int) -> Population:
        particles = await run.spawn(n)
        while not all(p.done_stepping() for p in particles):
            expanded = []
            for particle in particles:
                k = 1 if particle.done_stepping() else self.copies_each
                expanded += [particle, *(run.clone(particle) for _ in range(k - 1))]
                for p in expanded[-k:]:
                    p.weight -= math.log(k)
            await run.step(expanded)
            kept, new = fearnhead_clifford(run.rng, [p.weight for p in expanded], n)
            dead = [p for p in expanded if p.weight == -math.inf]
            particles = [expanded[i] for i in kept] + dead[: n - len(kept)]
            self.reweigh(particles, new)
        return Population(tuple(particles), self.evidence(run, particles))

    def reweigh(self, particles: Sequence[Any], new: Sequence[float]) -> None:
        pass


class NotSharedOut(OldWeights):
    """Optimal resampling, but a copy has all of the weight, not 1/K."""

    def reweigh(self, particles: Sequence[Any], new: Sequence[float]) -> None:
        for particle, weight in zip(particles, new, strict=False):
            particle.weight = float(weight)
            if not particle.done_stepping():
                particle.weight += math.log(self.copies_each)


class LostMaskCorrection(Right):
    async def step(self, run: Run, particles: Sequence[Any]) -> None:
        running = [p for p in particles if not p.done_stepping()]
        await super().step(run, particles)
        for particle in running:
            if particle.weight > -math.inf:
                particle.weight -= sum(x for cause, x in particle.changes if cause == "draw")


class PriorTwice(Right):
    async def step(self, run: Run, particles: Sequence[Any]) -> None:
        before = [p.log_prior for p in particles]
        await super().step(run, particles)
        for particle, old in zip(particles, before, strict=True):
            particle.weight += particle.log_prior - old


class TwistsStay(Right):
    async def step(self, run: Run, particles: Sequence[Any]) -> None:
        for particle in particles:
            particle.twist_amount = 0.0
        await super().step(run, particles)


# Evidence ------------------------------------------------------------------------------------


class OneTooFew(Right):
    def evidence(self, run: Run, particles: Sequence[Any]) -> float | None:
        full = super().evidence(run, particles)
        return full and full + math.log(len(particles) / (len(particles) - 1))


class DropsTheDead(Right):
    resamples = False

    def evidence(self, run: Run, particles: Sequence[Any]) -> float | None:
        alive = [p.weight for p in particles if p.weight > -math.inf]
        return None if run.out_of_time else weights.log_mean(alive)


class EvidenceFromTheMaximum(Right):
    resamples = False

    def evidence(self, run: Run, particles: Sequence[Any]) -> float | None:
        return None if run.out_of_time else max(float(p.weight) for p in particles)


class MeanOfLogs(Right):
    resamples = False

    def evidence(self, run: Run, particles: Sequence[Any]) -> float | None:
        return None if run.out_of_time else float(np.mean([p.weight for p in particles]))


class BestOfTwo(Right):
    async def __call__(self, run: Run, n: int) -> Population:
        first = await super().__call__(run, n)
        second = await super().__call__(run, n)
        if first.log_evidence is None or second.log_evidence is None:
            return second
        return max(first, second, key=lambda p: p.log_evidence or -math.inf)


class OrderOfArrival(Right):
    async def __call__(self, run: Run, n: int) -> Population:
        particles = await run.spawn(n)
        while not all(p.done_stepping() for p in particles):
            await run.step(particles)
            if any(p.done_stepping() and p.weight > -math.inf for p in particles):
                run.close(particles)
        return Population(tuple(particles), self.evidence(run, particles))


class AcceptedOverDrawn(RejectionSampler):
    """Early stopping, with r / n for (r - 1) / (n - 1)."""

    def __init__(self) -> None:
        super().__init__(stop_after=2)

    def _early_evidence(self, drawn: list[Any]) -> float | None:
        return weights.log_mean([p.weight for p in drawn])


# The contract --------------------------------------------------------------------------------


class StepsTheFinished(Right):
    async def step(self, run: Run, particles: Sequence[Any]) -> None:
        await super().step(run, particles)
        await asyncio.gather(*(p.step() for p in particles if p.done_stepping()))


class SharedState(Right):
    def copies(self, run: Run, particles: Sequence[Any], ancestors: Any) -> list[Any]:
        return [copy.copy(particles[a]) for a in ancestors]


class SharedRandomness(Right):
    def copies(self, run: Run, particles: Sequence[Any], ancestors: Any) -> list[Any]:
        out = [run.clone(particles[a]) for a in ancestors]
        for particle, a in zip(out, ancestors, strict=True):
            particle.context.random.__dict__.update(vars(particles[a].context.random))
        return out


class SeedIgnored(Right):
    def ancestors(self, run: Run, log_weights: Sequence[float]) -> Any:
        p = weights.normalise(log_weights)
        return multinomial(np.random.default_rng(), p, len(log_weights))


class StateOnTheInstance(Right):
    """One generator for all runs of the instance."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def ancestors(self, run: Run, log_weights: Sequence[float]) -> Any:
        return multinomial(self.rng, weights.normalise(log_weights), len(log_weights))


class NotANumber(Right):
    def evidence(self, run: Run, particles: Sequence[Any]) -> float | None:
        evidence = super().evidence(run, particles)
        for particle in particles:  # the difference of two infinities
            particle.weight -= max(p.weight for p in particles)
        return evidence


class NoEvidence(Right):
    def evidence(self, run: Run, particles: Sequence[Any]) -> float | None:
        return None


class RaisesWhereAllDie(Right):
    async def step(self, run: Run, particles: Sequence[Any]) -> None:
        await super().step(run, particles)
        if all(p.weight == -math.inf for p in particles):
            raise ZeroDivisionError("the weights sum to zero")


class OwnSteps(Right):
    """Steps particles itself, and so knows no limit on steps."""

    async def step(self, run: Run, particles: Sequence[Any]) -> None:
        running = [p for p in particles if not p.done_stepping()]
        for particle in running:
            particle.untwist()
        await asyncio.gather(*(p.step() for p in running))


class NoDeadline(OwnSteps):
    """Counts steps, and does not look at the clock."""

    async def step(self, run: Run, particles: Sequence[Any]) -> None:
        run.steps += 1
        await super().step(run, particles)
        if run.steps >= run.limits.max_steps:
            run.close(particles)


class Swallows(Right):
    """Takes a cancellation for the end of the run."""

    async def step(self, run: Run, particles: Sequence[Any]) -> None:
        try:
            await super().step(run, particles)
        except asyncio.CancelledError:
            run.close(particles)


class LeavesATask(Right):
    async def step(self, run: Run, particles: Sequence[Any]) -> None:
        await asyncio.shield(asyncio.ensure_future(super().step(run, particles)))


class EndsTooSoon(Right):
    async def __call__(self, run: Run, n: int) -> Population:
        particles = await run.spawn(n)
        await run.step(particles)
        return Population(tuple(particles), self.evidence(run, particles))


class OneForAll(ImportanceSampler):
    """One particle, whatever N is: unbiased, and never any better."""

    name = "OneForAll"

    async def __call__(self, run: Run, n: int) -> Population:
        return await super().__call__(run, 1)


WRONG: dict[str, tuple[type[Any], ...]] = {
    "unbiased": (
        WeightsNotReset,
        NoAverageWeight,
        AverageOfTheLiving,
        UnnormalisedWeights,
        TemperedWeights,
        FavoursTheFirst,
        LooksAtTheResult,
        FinishedStayOut,
        OldWeights,
        NotSharedOut,
        LostMaskCorrection,
        PriorTwice,
        TwistsStay,
        OneTooFew,
        DropsTheDead,
        EvidenceFromTheMaximum,
        MeanOfLogs,
        BestOfTwo,
        OrderOfArrival,
        AcceptedOverDrawn,
    ),
    "finished": (StepsTheFinished,),
    "clones": (SharedState, SharedRandomness),
    "seeds": (SeedIgnored, StateOnTheInstance),
    "log weights": (NotANumber, NoEvidence),
    "no exception": (RaisesWhereAllDie,),
    "max_steps": (OwnSteps,),
    "deadline": (NoDeadline,),
    "cancellation": (Swallows, LeavesATask),
    "population": (EndsTooSoon,),
    "convergence": (OneForAll,),
}
"""The wrong samplers by the property that each of them breaks."""
