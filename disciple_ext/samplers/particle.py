"""What a run needs of a particle, and plain LLaMPPL models that are given it.

A :class:`~disciple_ext.BaseModel` is such a particle as it is. A plain ``llamppl.Model`` knows its
weight, its steps and its end only: :func:`adapted` gives it the rest, once, when it is made.
"""

from __future__ import annotations

import functools
import math
import types
from typing import Any, ClassVar, Protocol

from llamppl.modeling import Model

from ..model.particle import Particle

__all__ = ["PlainParticle", "RunParticle", "adapted"]


class RunParticle(Protocol):
    """What a run reads of a particle, and sets.

    Attributes:
        weight: natural log of its weight.
        finish_reason: why it ended, or None.
        reason: the same for a person.
        line: program line at which it ended or waits (1-based), or None.
        log_prior: natural log-probability of its text under the prior.
        log_proposal: the same under the proposal.
        changes: the weight updates of the step, each the fields of a ``WeightChange``.
        hint_text: the hint in force, or the empty string.
        check: says whether a text is an answer, or None.
        _explained: whether the changes are to say where they come from.
        _cause: what the program asked for that ended it with weight zero, or the empty string.
        _cause_line: program line of it, or None.
    """

    weight: float
    finish_reason: str | None
    reason: str
    line: int | None
    log_prior: float
    log_proposal: float
    changes: list[tuple[Any, ...]]
    hint_text: str
    check: Any
    _explained: bool
    _cause: str
    _cause_line: int | None

    async def start(self) -> None:
        """Begin, before the first step."""
        ...

    async def step(self) -> None:
        """Go on by one step."""
        ...

    def done_stepping(self) -> bool:
        """Whether it has finished."""
        ...

    def untwist(self) -> None:
        """Take back what counts until the next step only."""
        ...

    def die(self, finish_reason: str, reason: str) -> None:
        """End with weight zero."""
        ...


class PlainParticle(Model):  # type: ignore[misc]  # llamppl ships no types
    """What a plain model lacks. It stands behind the model's own class, whose attributes win."""

    finish_reason: str | None = None
    reason = ""
    line: int | None = None
    log_prior = 0.0
    log_proposal = 0.0
    # No list: all particles would share it.
    changes: tuple[()] | list[Any] = ()
    hint_text = ""
    check: ClassVar[Any] = None
    _explained = False
    _cause = ""
    _cause_line: int | None = None

    def die(self, finish_reason: str, reason: str) -> None:
        """End with weight zero."""
        self.weight, self.finished = -math.inf, True
        self.finish_reason, self.reason = finish_reason, reason


def adapted(particle: Model) -> Model:
    """The same particle; a plain model has become a :class:`PlainParticle`, too.

    It stays the object that it was, of its own class: whoever made it may hold it, and samplers
    hand it back.
    """
    if not isinstance(particle, Particle | PlainParticle):
        kind: Any = type(particle)
        particle.__class__ = _with_defaults(kind)
    return particle


# Remembered, so that all particles of one program are of one class.
@functools.lru_cache(maxsize=64)
def _with_defaults(kind: Any) -> type[Model]:
    if kind is Model:
        return PlainParticle
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return types.new_class(kind.__name__, (kind, PlainParticle), {}, lambda ns: ns.update(names))
