"""Which bytes may follow, so that a text stays valid UTF-8 and holds the characters it may hold."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["bytes_of", "valid_bytes"]

BoolArray = NDArray[np.bool_]


@lru_cache(maxsize=64)
def valid_bytes(begun: bytes) -> BoolArray:
    """The bytes that go on with a text whose last, unfinished code point is ``begun``."""
    array = np.zeros(256, np.bool_)
    if not begun:
        # C0 and C1 begin overlong forms only, F5 and above nothing (RFC 3629).
        array[:0x80] = array[0xC2:0xF5] = True
        return array
    # The second byte has narrower bounds after some: E0 and F0 would be overlong, ED a surrogate,
    # F4 beyond U+10FFFF.
    low = {0xE0: 0xA0, 0xF0: 0x90}.get(begun[0], 0x80) if len(begun) == 1 else 0x80
    high = {0xED: 0x9F, 0xF4: 0x8F}.get(begun[0], 0xBF) if len(begun) == 1 else 0xBF
    array[low : high + 1] = True
    return array


@lru_cache(maxsize=1024)
def bytes_of(chars: frozenset[str], begun: bytes) -> BoolArray:
    """The bytes that go on with one of these characters, of which ``begun`` is there already."""
    array = np.zeros(256, np.bool_)
    for char in chars:
        data = char.encode()
        if data.startswith(begun) and len(data) > len(begun):
            array[data[len(begun)]] = True
    return array
