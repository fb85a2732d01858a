"""One finished particle, as data."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FINISH_REASONS", "Particle"]

FINISH_REASONS = frozenset(
    "ended condition_false impossible_mask max_tokens max_steps timeout error".split()
)
"""Why a particle may have ended; all but ``ended`` give log weight minus infinity."""


@dataclass(frozen=True)
class Particle:
    """One finished particle.

    Attributes:
        text: the text it wrote (the partial text where it did not end).
        log_weight: natural log of its weight; ``-inf`` unless it ``ended``.
        weight: its share of the total weight, in [0, 1]; 0 for all if every weight is zero.
        check: verdict of the program's ``check``, or None where it has none or was not asked.
        finish_reason: ``ended``, ``condition_false``, ``impossible_mask``, ``max_tokens``,
            ``max_steps``, ``timeout`` or ``error``.
        reason: the same for a person: masks in force, text, program line.
        tokens: tokens of text drawn or forced.
        log_prob: natural log-probability of the text under the follower's prior prompt, end of
            text not counted, or None where it was not recorded.
        lost_mass: the share of the text's probability that the weight may lack (linear, in
            [0, 1]), because ways to cut characters into tokens were left out; 0 for text that
            was drawn by tokens.
    """

    text: str
    log_weight: float
    weight: float
    check: bool | None
    finish_reason: str
    reason: str
    tokens: int
    log_prob: float | None = None
    lost_mass: float = 0.0
