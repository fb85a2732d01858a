"""What a run tells its observers: each step, each end, each resampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..records.events import (
    Event,
    Listener,
    ParticleFinished,
    ParticleState,
    PopulationGiven,
    Resampled,
    StepDone,
    WeightChange,
    as_observer,
)
from . import weights as weighting
from .notes import Note, Notes
from .particle import RunParticle

__all__ = ["Report"]


class Report:
    """The events of one run.

    Attributes:
        detailed: whether an observer wants to know where each change of a weight comes from.
    """

    def __init__(
        self, observers: Sequence[Listener], notes: Notes, tokens: Callable[[], int]
    ) -> None:
        """Begin.

        Args:
            observers: called with each event.
            notes: what the run knows of its particles.
            tokens: follower tokens used so far.
        """
        self._observers = tuple(map(as_observer, observers))
        self.detailed = any(observer.detail for observer in self._observers)
        self._notes = notes
        self._tokens = tokens

    def step(
        self, step: int, particles: Sequence[RunParticle], before: Sequence[tuple[float, float]]
    ) -> None:
        """All particles have stepped; ``before`` are their ``log_prior`` and ``log_proposal``."""
        if not self._observers:
            return
        for index, particle in enumerate(particles):
            note = self._notes.of(particle)
            if particle.done_stepping() and not note.reported:
                note.reported = True
                self._emit(_finished(index, step, particle))
        states = []
        for index, (particle, ahead) in enumerate(zip(particles, before, strict=True)):
            note = self._notes.of(particle)
            states.append(_state(particle, *ahead, note))
            note.seen = step, index
        log_weights = [p.weight for p in particles]
        best = max(particles, key=lambda p: float(p.weight), default=None)
        self._emit(
            StepDone(
                step=step,
                alive=sum(not p.done_stepping() for p in particles),
                finished=sum(p.done_stepping() and p.weight > -math.inf for p in particles),
                ess=weighting.ess(log_weights),
                best_text=str(best) if best is not None else "",
                tokens=self._tokens(),
                particles=tuple(states),
            )
        )

    def resampled(
        self, step: int, particles: Sequence[RunParticle], ancestors: Sequence[int]
    ) -> None:
        """The particles are to be replaced by clones of these ancestors."""
        ess = weighting.ess([p.weight for p in particles])
        self._emit(Resampled(step, tuple(int(a) for a in ancestors), ess))

    def population(self, particles: Sequence[RunParticle]) -> None:
        """The sampler has given these particles."""
        if self._observers:
            self._emit(PopulationGiven(tuple(self._notes.of(p).seen for p in particles)))

    def _emit(self, event: Event) -> None:
        for observer in self._observers:
            observer(event)


def _finished(index: int, step: int, particle: RunParticle) -> ParticleFinished:
    return ParticleFinished(
        index=index,
        step=step,
        text=str(particle),
        log_weight=particle.weight,
        finish_reason=particle.finish_reason or "ended",
        reason=particle.reason,
        cause=particle._cause,
        line=particle._cause_line,
    )


def _state(
    particle: RunParticle, log_prior: float, log_proposal: float, note: Note
) -> ParticleState:
    return ParticleState(
        text=str(particle),
        log_weight=float(particle.weight),
        log_prior=float(particle.log_prior) - log_prior,
        log_proposal=float(particle.log_proposal) - log_proposal,
        changes=tuple(WeightChange(*c) for c in particle.changes),
        hint=particle.hint_text,
        finished=particle.done_stepping(),
        line=particle.line,
        origin=note.seen,
    )
