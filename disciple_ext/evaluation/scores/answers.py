"""The answer of a run."""

from __future__ import annotations

import math

import numpy as np

from ..logs.log import Row, Sample
from .metrics import sample_weights

__all__ = ["drawn_answer", "drawn_sample"]


def drawn_sample(row: Row) -> Sample | None:
    """The sample whose text is the answer, drawn by weight as :class:`disciple_ext.Result` does.

    It comes from the samples whose check passed, if any did, else from all that are alive; the
    draw is keyed by the run's seed. None where no sample is alive.
    """
    alive = [s for s in row.samples if s.log_weight is None or s.log_weight > -math.inf]
    pool = [s for s in alive if s.check] or alive
    if not pool:
        return None
    weights = sample_weights([s.log_weight for s in pool])
    # The same key as in the run, so that both draw one text (where the first attempt gave it).
    rng = np.random.default_rng([row.seed, 0x7E87])
    return pool[int(rng.choice(len(pool), p=weights))]


def drawn_answer(row: Row) -> str | None:
    """The text of :func:`drawn_sample`."""
    sample = drawn_sample(row)
    return None if sample is None else sample.text
