"""The characters of a text that are not tokens yet, under proposal and prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .spelling import Spelling

__all__ = ["Spelled"]

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Spelled:
    """The characters of a particle's text that are not tokens yet. Immutable.

    Attributes:
        proposal: the string under the proposal.
        prior: the string under the prior, or None where they are one.
        charged: log of the prior's probability that the weight holds.
        log_text: log of the prior's probability of the string itself.
        logs: how ``log_text`` grew with each byte of the text.
        given: what may come next, shape (257,), or None for anything.
        lost: share of ``charged`` that may be lost, linear.
    """

    proposal: Spelling
    prior: Spelling | None
    charged: float
    log_text: float = 0.0
    logs: tuple[float, ...] = ()
    given: BoolArray | None = None
    lost: float = 0.0

    def __deepcopy__(self, memo: object) -> Spelled:
        return self

    @property
    def length(self) -> int:
        """Tokens of the longest way to write the characters that is kept."""
        both = [s for s in (self.proposal, self.prior) if s is not None]
        return max((len(h.prefix) - len(s.begin) for s in both for h in s.live), default=0)

    @property
    def scored(self) -> Spelling:
        """What the weight is made of."""
        return self.prior or self.proposal
