"""The replies to requests, all of one kind at a time, from the distributions that they need.

Each method takes the requests of a round and makes its replies in a few vectorised operations on
their logits, where they lie: only tokens and floats leave the device. The distributions have been
computed before (:mod:`.remembered`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..protocol.prefix import Prefix
from ..protocol.requests import (
    Branch,
    Branched,
    Draw,
    Drawn,
    LogProbs,
    Mass,
    NextBytes,
    Request,
    Score,
)
from ..protocol.vocabulary import TokenMask, Vocabulary, intersect
from .engine import drawing
from .engine.drawing import Query, Row
from .remembered import Remembered

__all__ = ["Replies"]


class Replies:
    """Makes replies.

    Attributes:
        kinds: what replies to each kind of request, in the order in which a round is answered; a
            :class:`Score` comes last, since it waits for the backend.
    """

    def __init__(self, known: Remembered, vocabulary: Vocabulary) -> None:
        """Reply from distributions.

        Args:
            known: the distributions.
            vocabulary: the follower's tokens.
        """
        self._known = known
        self._vocabulary = vocabulary
        self.kinds: dict[type[Request], Callable[[Any], list[Any]]] = {
            Draw: self.draw,
            Branch: self.branch,
            Mass: self.mass,
            NextBytes: self.next_bytes,
            LogProbs: self.log_probs,
        }

    def draw(self, requests: Sequence[Draw]) -> list[Drawn]:
        """A token each, and its log-probabilities."""
        queries = [Query(self._row(r.proposal, r.temperature), r.mask) for r in requests]
        tokens, log_q, log_mass = drawing.draw(queries, [r.u for r in requests], self._known.masks)
        log_p = log_q
        if any(r.prior is not None and r.prior is not r.proposal for r in requests):
            rows = [self._row(r.prior or r.proposal, r.temperature) for r in requests]
            log_p = drawing.log_prob(rows, tokens)
        return list(map(Drawn, tokens, log_q, log_mass, log_p))

    def branch(self, requests: Sequence[Branch]) -> list[Branched]:
        """An outcome each, and its log-probabilities."""
        rows = [self._row(r.proposal, r.temperature) for r in requests]
        queries = [
            Query(row, mask) for row, r in zip(rows, requests, strict=True) for mask in r.measured
        ]
        logs = drawing.log_mass(queries, self._known.masks)
        values, kept = [], []
        # Three masks a request (``Branch.measured``): all, and of it the inside and the outside.
        for r, inside, outside in zip(requests, logs[1::3], logs[2::3], strict=True):
            value = _branch_value(r.u, inside, outside)
            row = self._row(r.prior or r.proposal, r.temperature)
            values.append(value)
            kept.append(Query(row, _outcome(r.mask if value else ~r.mask, r.pending)))
        replies = []
        for k, log_p in enumerate(drawing.log_mass(kept, self._known.masks)):
            everything, inside, outside = logs[3 * k : 3 * k + 3]
            log_q = -math.inf
            if everything > -math.inf:
                log_q = min(0.0, (inside if values[k] else outside) - everything)
            replies.append(Branched(values[k], log_q, log_p))
        return replies

    def mass(self, requests: Sequence[Mass]) -> list[float]:
        """The log of the mass of each one's mask."""
        queries = [Query(self._row(r.context, r.temperature), r.mask) for r in requests]
        return drawing.log_mass(queries, self._known.masks)

    def next_bytes(self, requests: Sequence[NextBytes]) -> list[NDArray[np.float64]]:
        """The log of the mass of each way to go on."""
        trie = self._vocabulary.trie
        return drawing.log_segments(
            [self._row(r.context, r.temperature) for r in requests],
            [trie.node(r.begun) for r in requests],
            [r.mask for r in requests],
        )

    def log_probs(self, requests: Sequence[LogProbs]) -> list[NDArray[np.float32]]:
        """Whole distributions."""
        rows = [self._row(r.context, r.temperature) for r in requests]
        # A copy: the caller may write to its vector, and ours is remembered.
        return [(batch.logits[i] - batch.lse[i].float()).cpu().numpy() for batch, i in rows]

    async def score(self, requests: Sequence[Score]) -> list[tuple[float, ...]]:
        """Log-probabilities of texts; those of more than one token take a pass of their own."""
        # Particles that were copied score the same text: it is evaluated once.
        pairs = list(dict.fromkeys((r.context, r.tokens) for r in requests if len(r.tokens) > 1))
        known = (
            dict(zip(pairs, await self._known.backend.score(pairs), strict=True)) if pairs else {}
        )
        # One token needs no pass: the distribution after its context is there already.
        single = [r for r in requests if len(r.tokens) == 1]
        rows = [self._row(r.context, r.temperature) for r in single]
        ones = iter(drawing.log_prob(rows, [r.tokens[0] for r in single]) if single else ())
        replies: list[tuple[float, ...]] = []
        for r in requests:
            if len(r.tokens) == 1:
                replies.append((next(ones),))
            else:
                logits = known[(r.context, r.tokens)] / r.temperature
                ids = torch.tensor(r.tokens, device=logits.device)[:, None]
                logs = logits.gather(-1, ids)[:, 0].double() - logits.logsumexp(-1)
                replies.append(tuple(logs.tolist()))
        return replies

    def _row(self, context: Prefix, temperature: float) -> Row:
        return self._known.rows[(context, temperature)]


def _branch_value(u: float, log_in: float, log_out: float) -> bool:
    """True with probability in / (in + out), each given as a log."""
    if log_in == -math.inf:
        return False
    # The exponential of more than 709 overflows.
    return log_out == -math.inf or u < 1.0 / (1.0 + math.exp(min(700.0, log_out - log_in)))


def _outcome(mask: TokenMask, given: TokenMask | None) -> TokenMask:
    return mask if given is None else intersect(mask, given)
