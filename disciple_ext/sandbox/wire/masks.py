"""Masks on their way from a worker to the host, and by content, for all runs of the host."""

from __future__ import annotations

import struct
from collections import OrderedDict

import numpy as np

from ...protocol.token_mask import MaskMemo, TokenMask
from .frames import Kind, Malformed, encode

__all__ = ["MASK", "SentMasks", "read_mask"]

MASK = struct.Struct("<IB")
"""Head of a ``MASK``: its number, from 1 on, which may have been another mask's before; and its
form: 0 for packed bits, 1 for ascending ids of four bytes each."""


class SentMasks:
    """The worker's side: which masks the host has, under which numbers.

    A mask is sent once and then named. Numbers of the masks that were used longest ago are given
    to others, so that a run whose masks differ at every step does not keep them all, here or on
    the host.
    """

    def __init__(self, entries: int = 1024, nbytes: int = 2**25) -> None:
        self._most, self._left = entries, nbytes
        self._numbers: OrderedDict[TokenMask, int] = OrderedDict()
        self._free: list[int] = []

    def number(self, mask: TokenMask | None, frames: list[bytes]) -> int:
        """The number of a mask (0 for none), whose frame is added where the host lacks it."""
        if mask is None:
            return 0
        number = self._numbers.get(mask)
        if number is None:
            # Free numbers first: the host bounds how high a number may be.
            number = self._free.pop() if self._free else len(self._numbers) + 1
            self._numbers[mask] = number
            self._left -= mask.nbytes
            frames.append(_frame(number, mask))
        else:
            self._numbers.move_to_end(mask)
        return number

    def forget(self) -> None:
        """Free old numbers, once everything that uses them has been sent."""
        while len(self._numbers) > (self._most if self._left >= 0 else 1):
            mask, number = self._numbers.popitem(last=False)
            self._left += mask.nbytes
            self._free.append(number)


def _frame(number: int, mask: TokenMask) -> bytes:
    # An id takes 32 bits, and packed bits take one for each token of the vocabulary.
    few = 32 * len(mask) < mask.size
    data = mask.ids.astype("<u4") if few else np.packbits(mask.array)
    return encode(Kind.MASK, MASK.pack(number, few) + data.tobytes())


def read_mask(payload: bytes, size: int) -> tuple[int, TokenMask]:
    """The number and the mask of a frame; equal masks of all runs are one object.

    Args:
        payload: the frame's.
        size: the vocabulary's size.

    Raises:
        Malformed: it is no mask over a vocabulary of that size.
    """
    if len(payload) < MASK.size:
        raise Malformed("a mask without a head")
    number, form = MASK.unpack_from(payload)
    body = payload[MASK.size :]
    if form > 1 or len(body) != (-(-size // 8) if form == 0 else len(body) // 4 * 4):
        raise Malformed("a mask of another length or form")
    return number, _masks.get((size, form, body), lambda: _mask(form, body, size))


def _mask(form: int, body: bytes, size: int) -> TokenMask:
    if form == 0:
        bits = np.unpackbits(np.frombuffer(body, np.uint8), count=size)
        return TokenMask(bits.view(np.bool_))
    ids = np.frombuffer(body, "<u4").astype(np.int64)
    # Where they ascend, the last id bounds all of them, and none comes twice.
    if len(ids) and (ids[-1] >= size or np.any(ids[1:] <= ids[:-1])):
        raise Malformed("a mask whose ids are out of order or out of range")
    return TokenMask.of_ids(ids, size)


# Bounded, since a worker may send as many masks as it likes.
_masks: MaskMemo[tuple[int, int, bytes]] = MaskMemo(entries=2**14, nbytes=2**26)
