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

from ..protocol.requests import (
    Branch,
    Branched,
    Draw,
    Drawn,
    LogProbs,
    Mass,
    NextBytes,
    Request,
    RowKey,
    Score,
)
from ..protocol.vocabulary import TokenMask, Vocabulary, intersect
from .engine import drawing, warping
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
        keys = [r.rows for r in requests]
        rows = self._known.rows
        queries = [Query(rows[k[0]], r.mask) for k, r in zip(keys, requests, strict=True)]
        tokens, log_q, log_mass = drawing.draw(queries, [r.u for r in requests], self._known.masks)
        log_p = log_q
        if any(k[-1] != k[0] for k in keys):
            log_p = drawing.log_prob([rows[k[-1]] for k in keys], tokens)
        return list(map(Drawn, tokens, log_q, log_mass, self._powered(requests, log_p)))

    def branch(self, requests: Sequence[Branch]) -> list[Branched]:
        """An outcome each, and its log-probabilities."""
        keys = [r.rows for r in requests]
        queries = [
            Query(self._known.rows[k[0]], mask)
            for k, r in zip(keys, requests, strict=True)
            for mask in r.measured
        ]
        logs = drawing.log_mass(queries, self._known.masks)
        values, kept = [], []
        # Three masks a request (``Branch.measured``): all, and of it the inside and the outside.
        for r, key, inside, outside in zip(requests, keys, logs[1::3], logs[2::3], strict=True):
            value = _branch_value(r.u, inside, outside)
            values.append(value)
            outcome = _outcome(r.mask if value else ~r.mask, r.pending)
            kept.append(Query(self._known.rows[key[-1]], outcome))
        replies = []
        log_ps = self._powered(requests, drawing.log_mass(kept, self._known.masks))
        for k, log_p in enumerate(log_ps):
            everything, inside, outside = logs[3 * k : 3 * k + 3]
            log_q = -math.inf
            if everything > -math.inf:
                log_q = min(0.0, (inside if values[k] else outside) - everything)
            replies.append(Branched(values[k], log_q, log_p))
        return replies

    def mass(self, requests: Sequence[Mass]) -> list[float]:
        """The log of the mass of each one's mask."""
        queries = [Query(self._row(r), r.mask) for r in requests]
        return self._powered(requests, drawing.log_mass(queries, self._known.masks))

    def next_bytes(self, requests: Sequence[NextBytes]) -> list[NDArray[np.float64]]:
        """The log of the mass of each way to go on."""
        trie = self._vocabulary.trie
        logs = drawing.log_segments(
            [self._row(r) for r in requests],
            [trie.node(r.begun) for r in requests],
            [r.mask for r in requests],
        )
        return self._powered(requests, logs)

    def log_probs(self, requests: Sequence[LogProbs]) -> list[NDArray[np.float32]]:
        """Whole distributions."""
        rows = [self._row(r) for r in requests]
        # A copy: the caller may write to its vector, and ours is remembered.
        logs = [(batch.logits[i] - batch.lse[i].float()).cpu().numpy() for batch, i in rows]
        return self._powered(requests, logs)

    async def score(self, requests: Sequence[Score]) -> list[tuple[float, ...]]:
        """Log-probabilities of texts; those of more than one token take a pass of their own."""
        # Particles that were copied score the same text: it is evaluated once.
        pairs = list(dict.fromkeys((r.context, r.tokens) for r in requests if len(r.tokens) > 1))
        known = (
            dict(zip(pairs, await self._known.backend.score(pairs), strict=True)) if pairs else {}
        )
        # One token needs no pass: the distribution after its context is there already.
        single = [r for r in requests if len(r.tokens) == 1]
        rows = [self._row(r) for r in single]
        logs = drawing.log_prob(rows, [r.tokens[0] for r in single]) if single else []
        ones = iter(self._powered(single, logs))
        replies: list[tuple[float, ...]] = []
        for r in requests:
            if len(r.tokens) == 1:
                replies.append((next(ones),))
            else:
                replies.append(_scored(r, known[(r.context, r.tokens)]))
        return replies

    def _row(self, request: Request) -> Row:
        return self._known.rows[request.rows[0]]

    def _powered(self, requests: Sequence[Request], logs: list[Any]) -> list[Any]:
        """What each request hears of its last row, which sums to 1: more, under a power."""
        if not any(r.powered for r in requests):
            return logs
        rows: list[RowKey] = [r.rows[-1] for r in requests]
        return [
            log + self._log_z(self._known.rows[key]) if r.powered else log
            for r, key, log in zip(requests, rows, logs, strict=True)
        ]

    @staticmethod
    def _log_z(row: Row) -> float:
        log_z = row.batch.log_z
        assert log_z is not None  # it was made with a power
        return log_z[row.at]


def _scored(request: Score, logits: torch.Tensor) -> tuple[float, ...]:
    """Log-probabilities of several tokens, from the logits before each of them."""
    how = (
        request.temperature
        if request.measure is None
        else request.measure.row(request.role, request.temperature)
    )
    n = len(request.tokens)
    logits, log_z = warping.warped(logits, range(n), [how] * n)
    ids = torch.tensor(request.tokens, device=logits.device)[:, None]
    logs = logits.gather(-1, ids)[:, 0].double() - logits.logsumexp(-1)
    if log_z is not None and request.powered:
        logs += logs.new_tensor(log_z)
    return tuple(logs.tolist())


def _branch_value(u: float, log_in: float, log_out: float) -> bool:
    """True with probability in / (in + out), each given as a log."""
    if log_in == -math.inf:
        return False
    # The exponential of more than 709 overflows.
    return log_out == -math.inf or u < 1.0 / (1.0 + math.exp(min(700.0, log_out - log_in)))


def _outcome(mask: TokenMask, given: TokenMask | None) -> TokenMask:
    return mask if given is None else intersect(mask, given)
