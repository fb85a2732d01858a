"""A follower that knows nothing: random texts of word-like shape over a real vocabulary.

Programs are rehearsed with it before a real follower is asked. It costs next to nothing: a
handful of distributions are made once, and each context has one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from ..protocol.follower import Follower
from ..protocol.prefix import Prefix
from ..protocol.requests import Tokens
from ..protocol.vocabulary import Vocabulary
from .backend import Backend
from .host import HostFollower

__all__ = ["RandomFollower"]

_ROWS = 16
"""Distributions made; more would make no other mistakes visible."""


class RandomFollower(HostFollower):
    """Stands in for a follower: the same tokens and prompts, another (random) model."""

    def __init__(self, follower: Follower, seed: int = 0) -> None:
        """Stand in for ``follower``, whose model is never asked."""
        backend = _Rows(follower.vocabulary, follower.max_context, seed)
        super().__init__(
            backend,
            follower.vocabulary,
            follower.prompt,
            name=f"random for {follower.name}",
            threads=1,
        )


class _Rows(Backend):
    """Logits by the shape of the last token: words mostly, and sentences of a dozen of them."""

    def __init__(self, vocabulary: Vocabulary, max_context: int | None, seed: int) -> None:
        self.max_context = max_context
        self.forwards = 0
        self._seed = seed
        found = _made.get(vocabulary)
        if found is None:
            found = _made[vocabulary] = _make(vocabulary)
        self._rows = found

    async def logits(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        self.forwards += 1
        return self._rows[[self._row(context.length, context.token) for context in contexts]]

    async def score(self, pairs: Sequence[tuple[Prefix, Tokens]]) -> list[torch.Tensor]:
        return [
            self._rows[
                [
                    self._row(context.length + i, (context.token, *tokens)[i])
                    for i in range(len(tokens))
                ]
            ]
            for context, tokens in pairs
        ]

    def _row(self, length: int, token: int) -> int:
        # The seed only shifts the choice, so that one table serves all seeds of a vocabulary.
        return (self._seed + 7919 * length + 31 * token) % _ROWS


_made: WeakKeyDictionary[Vocabulary, torch.Tensor] = WeakKeyDictionary()


def _make(vocabulary: Vocabulary) -> torch.Tensor:
    """Logits of shape (_ROWS, vocabulary): random weights within classes of fixed shares."""
    shapes = vocabulary.words
    word = shapes.letters > 0
    texts = vocabulary.texts
    mark = np.array([text in (".", "!", "?", ",") for text in texts])
    shares: list[tuple[NDArray[np.bool_], float]] = [
        (word & shapes.spaced & ~shapes.capital, 0.68),
        (word & shapes.spaced & shapes.capital, 0.04),
        (word & ~shapes.spaced, 0.10),
        (mark, 0.08),
        (vocabulary.text_mask.array & ~word & ~mark, 0.08),
        (vocabulary.eos_mask.array, 0.02),
    ]
    rng = np.random.default_rng(0)
    logits = np.full((_ROWS, vocabulary.size), -30.0, dtype=np.float32)
    for members, share in shares:
        count = int(members.sum())
        if count:
            spread = rng.normal(0.0, 1.5, size=(_ROWS, count))
            logits[:, members] = spread - np.log(np.exp(spread).sum(1, keepdims=True) / share)
    return torch.from_numpy(logits)
