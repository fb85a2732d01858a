"""A look ahead: which strings fit some places, found from the likeliest beginnings on.

Characters drawn one by one do not know what must come later: few beginnings of a long word can
still become one with an ``x`` at its end. So token sequences that fit the places are searched,
the most promising ones first, up to a number of forward passes. The strings found, with their
probabilities, make a proposal; the weight does not depend on what was overlooked.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...protocol.follower import Follower
from ...protocol.prefix import Prefix
from ...protocol.requests import LogProbs
from ...protocol.vocabulary import Vocabulary
from .spelling import END, Spelling, log_fsum

__all__ = ["look_ahead", "look_ahead_once"]

BoolArray = NDArray[np.bool_]

_AT_ONCE = 32
"""Token sequences that the model is asked about together."""
_CHILDREN = 64
"""Continuations of one token sequence that are followed at most."""
_A_CHARACTER = 1.0
"""Nats that a further character of a word costs, about: long beginnings are worth their price."""


@dataclass(frozen=True, order=True)
class _Begun:
    """A token sequence: the lower ``rank``, the earlier the model is asked about it."""

    rank: float
    # Settles equal ranks, for prefixes have no order.
    number: int
    prefix: Prefix
    data: bytes
    log_tokens: float


async def look_ahead(
    spelling: Spelling,
    places: Sequence[BoolArray],
    after: BoolArray,
    requests: int,
    boldness: float = 0.0,
) -> Mapping[bytes, float]:
    """Strings that fit the places, after a string that is there.

    Args:
        spelling: the string so far.
        places: what each further byte may be, shape (256,) each.
        after: what may come after the last one, shape (257,), the end of text last.
        requests: token sequences that the model is asked about at most.
        boldness: from 0 to 1, how little the probability of the first token counts.

    Returns:
        The bytes of each string found, with a natural log: of its probability (a lower bound) and
        that of what may come after it, the first token's taken to the power of ``1 - boldness``.
    """
    # From the last token on, not the last character: a token may reach from the string into
    # the places.
    there = [np.arange(256) == byte for byte in spelling.data]
    search = _Search(spelling.follower, spelling.temperature, [*there, *places], after, boldness)
    search.add(spelling.begin, b"", 0.0)
    while search.heap and requests > 0:
        batch = [heapq.heappop(search.heap) for _ in range(min(_AT_ONCE, len(search.heap)))]
        requests -= len(batch)
        await search.ask(batch)
    return {data[len(there) :]: log_fsum(logs) for data, logs in search.found.items()}


async def look_ahead_once(
    spelling: Spelling,
    places: Sequence[BoolArray],
    after: BoolArray,
    requests: int,
    boldness: float,
) -> Mapping[bytes, float]:
    """What :func:`look_ahead` finds; particles at the same place share one search."""
    sets = tuple(array.tobytes() for array in (*places, after))
    key = (spelling.begin, spelling.data, spelling.temperature, requests, boldness, sets)
    shared = _SEARCHES.setdefault(asyncio.get_running_loop(), OrderedDict())
    search = shared.get(key)
    if search is None:
        work = look_ahead(spelling, places, after, requests, boldness)
        # The future is kept, not its result: who asks meanwhile waits for the same search.
        search = shared[key] = asyncio.ensure_future(work)
        while len(shared) > _SEARCHES_KEPT:
            shared.popitem(last=False)
    # The others still wait for it where one particle is cancelled.
    return await asyncio.shield(search)


_SEARCHES_KEPT = 16
# By loop, since a future can be awaited only in the loop that it was made in.
_SEARCHES: WeakKeyDictionary[Any, OrderedDict[Any, asyncio.Future[Mapping[bytes, float]]]] = (
    WeakKeyDictionary()
)


class _Search:
    def __init__(
        self,
        follower: Follower,
        temperature: float,
        places: Sequence[BoolArray],
        after: BoolArray,
        boldness: float,
    ) -> None:
        self.heap: list[_Begun] = []
        self.found: dict[bytes, list[float]] = {}
        self._follower, self._temperature = follower, temperature
        self._places = places
        self._boldness = boldness
        tokens = follower.vocabulary.tokens
        self._after = np.array([bool(t) and bool(after[t[0]]) for t in tokens])
        if after[END]:
            self._after[sorted(follower.vocabulary.eos)] = True
        self._fits: dict[int, NDArray[np.int64]] = {}
        self._number = 0

    def add(self, prefix: Prefix, data: bytes, log_tokens: float) -> None:
        rank = -(log_tokens + _A_CHARACTER * len(data))
        self._number += 1
        heapq.heappush(self.heap, _Begun(rank, self._number, prefix, data, log_tokens))

    async def ask(self, batch: Sequence[_Begun]) -> None:
        """Ask the model what follows some token sequences, and go on from there."""
        asked = (self._follower.ask(LogProbs(b.prefix, self._temperature)) for b in batch)
        for begun, logs in zip(batch, await asyncio.gather(*asked), strict=True):
            if len(begun.data) == len(self._places):
                log_after = log_fsum(logs[self._after].astype(np.float64))
                self.found.setdefault(begun.data, []).append(begun.log_tokens + log_after)
                continue
            ids = self._fitting(len(begun.data))
            some = logs[ids]
            # Not for the first token: a rare word begins unlikely, and that says little about it.
            if len(ids) > _CHILDREN and begun.data:
                best = np.argpartition(-some, _CHILDREN)[:_CHILDREN]
                ids, some = ids[best], some[best]
            if begun.log_tokens == 0.0:  # the first token
                some = some * (1.0 - self._boldness)
            for token, log in zip(ids.tolist(), some.tolist(), strict=True):
                if log > -math.inf:
                    data = begun.data + self._follower.vocabulary.tokens[token]
                    self.add(begun.prefix.then(token), data, begun.log_tokens + log)

    def _fitting(self, start: int) -> NDArray[np.int64]:
        found = self._fits.get(start)
        if found is None:
            found = self._fits[start] = _fit(self._follower.vocabulary, self._places[start:])
        return found


def _fit(vocabulary: Vocabulary, places: Sequence[BoolArray]) -> NDArray[np.int64]:
    """The tokens that go no further than the places, and fit them."""
    lengths, offsets, flat = vocabulary.flat
    fits = (lengths > 0) & (lengths <= len(places))
    for at, place in enumerate(places):
        there = np.flatnonzero(fits & (lengths > at))
        fits[there] = place[flat[offsets[there] + at]]
    return np.flatnonzero(fits)
