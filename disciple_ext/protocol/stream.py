"""Randomness that depends on the seed, the particle's lineage and the index of the draw alone.

A counter-based generator: the n-th value is a hash of (key, n), and a clone gets a key of its
own, derived from its parent's. Neither the order in which requests arrive nor what else is
running can change a draw.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from typing import Any

__all__ = ["Stream"]


class Stream(random.Random):
    """A ``random.Random`` whose values are BLAKE2b(key, counter).

    Args:
        seed: seed of the run.
        path: lineage so far, such as the index of the particle.
    """

    def __new__(cls, seed: int = 0, path: tuple[int, ...] = ()) -> Stream:
        """Make a stream; ``random.Random`` would take the arguments for a seed of its own."""
        return super().__new__(cls)

    def __init__(self, seed: int = 0, path: tuple[int, ...] = ()) -> None:
        self._key = hashlib.blake2b(repr((int(seed), path)).encode(), digest_size=32).digest()
        self._counter = 0
        self._children = 0
        self.gauss_next = None  # what ``random.Random.gauss`` reads; a seed would set it

    def random(self) -> float:
        """The next uniform in [0, 1), with 53 bits."""
        # No more than 53 bits: with all 64 the float could round up to 1.
        return (self._next() >> 11) * 2.0**-53

    def choose(self, shares: Sequence[float]) -> int:
        """A place in ``shares``, drawn in proportion to them (they need not sum to 1)."""
        target, begun, last = self.random() * math.fsum(shares), 0.0, -1
        for place, share in enumerate(shares):
            if share > 0.0:
                begun, last = begun + share, place
                if begun > target:
                    return place
        if last < 0:
            raise ValueError("there is nothing to choose: every share is zero")
        return last  # rounding stepped past it

    def getrandbits(self, k: int) -> int:
        """The next ``k`` random bits."""
        # Random's other methods (randrange, shuffle, gauss) draw by this and by `random` alone.
        value = 0
        for shift in range(0, k, 64):
            value |= self._next() << shift
        return value & ((1 << k) - 1)

    def _next(self) -> int:
        # Key and counter are all the state, so that a clone is cheap: Mersenne Twister would copy
        # 2.5 kB with each.
        block = self._counter.to_bytes(8, "little")
        self._counter += 1
        return int.from_bytes(hashlib.blake2b(block, key=self._key, digest_size=8).digest())

    def child(self) -> Stream:
        """A stream of its own for the next clone; each call gives another one."""
        # The draws have a count of their own: making a clone does not change what comes next here.
        self._children += 1
        stream = Stream.__new__(Stream)
        label = (
            b"child" + self._children.to_bytes(8, "little") + self._counter.to_bytes(8, "little")
        )
        stream._key = hashlib.blake2b(label, key=self._key, digest_size=32).digest()
        stream._counter = stream._children = 0
        stream.gauss_next = None
        return stream

    def __deepcopy__(self, memo: dict[int, Any]) -> Stream:
        # A clone must not share randomness with its parent, whoever does the copying.
        clone = memo[id(self)] = self.child()
        return clone

    def seed(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the key is the seed, and a program may not choose it."""

    def __reduce__(self) -> Any:
        # A copy would draw the same numbers again; a clone gets its own from `child`.
        raise TypeError("a particle's stream cannot be pickled")
