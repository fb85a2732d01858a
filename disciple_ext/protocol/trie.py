"""A vocabulary's tokens in the order of their bytes: what a token that has begun may go on with.

Tokens that share their first bytes are one range of this order. Within a range the next byte parts
them into segments: each token that ends with that byte is a segment of its own, and the longer
ones make one more. The host sums probabilities by segment and a program reads the sums, both by
the same order, so that no index travels with them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["ByteTrie", "TrieNode"]

_NODES = 4096
"""Nodes remembered: a program may ask for any of them."""


@dataclass(frozen=True, eq=False)
class TrieNode:
    """The tokens that begin with some bytes and are longer than these.

    Attributes:
        ids: their ids, in the order of their bytes.
        starts: place in ``ids`` at which each segment begins, shape (segments,).
        bytes: the byte after those begun, shape (segments,), ascending.
        tokens: the token that ends with that byte, or -1 where the segment is of longer ones.
    """

    ids: NDArray[np.int64]
    starts: NDArray[np.int64]
    bytes: NDArray[np.int64]
    tokens: tuple[int, ...]


class ByteTrie:
    """The text tokens of a vocabulary, by their bytes.

    Attributes:
        longest: bytes of the longest token.
    """

    def __init__(self, tokens: Sequence[bytes]) -> None:
        """Sort the tokens; those without bytes are no text and are left out."""
        self._ids = sorted((i for i, t in enumerate(tokens) if t), key=tokens.__getitem__)
        self._sorted = [tokens[i] for i in self._ids]
        self.longest = max(map(len, self._sorted), default=0)
        # Not a decorator: its one cache would serve all tries, and keep each of them alive.
        self.node = lru_cache(maxsize=_NODES)(self._node)
        """The node of the bytes begun, remembered."""

    def _node(self, begun: bytes) -> TrieNode:
        depth = len(begun)
        low = bisect_left(self._sorted, begun + b"\0")  # past the tokens that are just these bytes
        after = _successor(begun)
        high = len(self._ids) if after is None else bisect_left(self._sorted, after)
        starts, following, tokens = [], [], []
        last = -1  # the byte whose longer tokens the open segment holds
        for place in range(low, high):
            token = self._sorted[place]
            ends = len(token) == depth + 1
            if ends or token[depth] != last:
                starts.append(place - low)
                following.append(token[depth])
                tokens.append(self._ids[place] if ends else -1)
                # A token that ends closes the segment: longer ones after it begin another.
                last = -1 if ends else token[depth]
        return TrieNode(
            np.array(self._ids[low:high], np.int64),
            np.array(starts, np.int64),
            np.array(following, np.int64),
            tuple(tokens),
        )


def _successor(prefix: bytes) -> bytes | None:
    """The first bytes after everything that begins with ``prefix``; None where there are none."""
    # No byte comes after 0xFF, so the one before it has to grow.
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None
