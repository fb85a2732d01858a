"""Masks by content, for all runs of this process."""

from __future__ import annotations

import numpy as np

from ..model.vocabulary import TokenMask

__all__ = ["interned_mask"]


class _Masks:
    """Masks by content: runs that use the same mask share one, and what is computed from it."""

    def __init__(self, most: int = 2**26) -> None:
        self._known: dict[tuple[int, bytes], TokenMask] = {}
        self._bytes, self._most = 0, most

    def get(self, packed: bytes, size: int) -> TokenMask:
        key = (size, packed)
        found = self._known.pop(key, None)
        if found is None:
            bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=size)
            found = TokenMask(bits.astype(np.bool_))
            self._bytes += size
        self._known[key] = found
        while self._bytes > self._most and len(self._known) > 1:
            old = next(iter(self._known))
            del self._known[old]
            self._bytes -= old[0]
        return found


_masks = _Masks()


def interned_mask(packed: bytes, size: int) -> TokenMask:
    """The one mask of these packed bits over a vocabulary of ``size`` tokens."""
    return _masks.get(packed, size)
