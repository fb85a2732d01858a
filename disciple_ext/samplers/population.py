"""What a sampler gives."""

from __future__ import annotations

from dataclasses import dataclass

from llamppl.modeling import Model

__all__ = ["Population"]


@dataclass(frozen=True)
class Population:
    """Finished particles.

    Attributes:
        particles: every particle, dead ones included (their log weight is -inf).
        log_evidence: natural log of the estimated evidence, or None where there is none.
    """

    particles: tuple[Model, ...]
    log_evidence: float | None
