"""Stochastic beam search: texts of the follower alone, drawn without replacement.

Kool, van Hoof and Welling (2019), "Stochastic Beams and Where to Find Them", algorithm 1. Each
text's log-probability is perturbed by a Gumbel variable, and the k texts with the largest sums are
a sample without replacement from the model. A beam search finds them, because the largest sum
below a prefix is itself Gumbel distributed around the prefix's log-probability: the prefix's sum
is drawn first, and its continuations' sums given that theirs is the largest.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...protocol.follower import Follower
from ...protocol.prefix import Prefix
from ...protocol.requests import LogProbs, Tokens

__all__ = ["Beam", "stochastic_beams"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Beam:
    """A text, whole or cut.

    Attributes:
        context: the prompt and the text's tokens.
        tokens: the text's tokens, the end of text not included.
        log_prob: nats under the model that writes text or ends it, the end included.
        score: ``log_prob`` perturbed, given the scores above it.
        ended: whether the model ended it.
    """

    context: Prefix
    tokens: Tokens = ()
    log_prob: float = 0.0
    score: float = 0.0
    ended: bool = False


async def stochastic_beams(
    follower: Follower, prompt: Tokens, k: int, most: int, rng: np.random.Generator
) -> list[Beam]:
    """Draw ``k`` texts without replacement; fewer where the model has fewer.

    Args:
        follower: the model.
        prompt: its prompt.
        k: texts, and the width of the beam.
        most: tokens at which a text is cut.
        rng: where the perturbations come from.

    Returns:
        The texts, the largest score first.
    """
    beams = [Beam(Prefix.of(prompt))]
    for _ in range(most):
        live = [beam for beam in beams if not beam.ended]
        if not live:
            break
        # Ended texts stay in the beam: they compete with the others by their scores.
        grown = [beam for beam in beams if beam.ended]
        asked = (follower.ask(LogProbs(beam.context)) for beam in live)  # together: one batch
        for beam, log_probs in zip(live, await asyncio.gather(*asked), strict=True):
            logs = _text_or_end(follower, log_probs)
            grown += _grown(beam, logs, k, rng, min(follower.vocabulary.eos))
        beams = sorted(grown, key=lambda beam: -beam.score)[:k]
    return beams


def _grown(beam: Beam, logs: Floats, k: int, rng: np.random.Generator, end: int) -> list[Beam]:
    """The k best continuations of a beam by one token, or by the end of the text."""
    # Algorithm 1's G: the log-probability of the whole prefix, perturbed.
    free = beam.log_prob + logs + rng.gumbel(size=len(logs))
    # No more than k of one beam can be among the k best of all.
    best = np.argpartition(-free, min(k, len(free)) - 1)[:k]
    # A token of probability zero is no continuation, even where there are fewer than k.
    best = best[np.isfinite(free[best])]
    best = best[np.argsort(-free[best])]
    scores = _given_largest(free[best], beam.score)
    found = []
    for token, score in zip(best.tolist(), scores.tolist(), strict=True):
        log_prob = beam.log_prob + float(logs[token])
        if token == end:
            found.append(Beam(beam.context, beam.tokens, log_prob, score, ended=True))
        else:
            context, tokens = beam.context.then(token), (*beam.tokens, token)
            found.append(Beam(context, tokens, log_prob, score))
    return found


def _text_or_end(follower: Follower, log_probs: NDArray[np.float32]) -> Floats:
    """The distribution over text tokens and the end of text, whose ids count as one."""
    vocabulary, logs = follower.vocabulary, log_probs.astype(np.float64)
    kept = np.full(len(logs), -np.inf)
    text, ends = vocabulary.text_mask.array, sorted(vocabulary.eos)
    kept[text] = logs[text]
    # Ids that all end the text are one outcome: apart, one text could be drawn twice.
    kept[ends[0]] = np.logaddexp.reduce(logs[ends])
    return np.asarray(kept - np.logaddexp.reduce(kept))


def _given_largest(free: Floats, largest: float) -> Floats:
    """Gumbel variables given that the largest of all is ``largest`` (the paper's appendix B.3).

    Args:
        free: finite, drawn without that condition, the largest of all first.
        largest: what the largest is to be.
    """
    if not len(free):
        return free
    with np.errstate(divide="ignore"):
        v = largest - free + np.log1p(-np.exp(free - free[0]))
    return np.asarray(largest - np.maximum(0.0, v) - np.log1p(np.exp(-np.abs(v))))
