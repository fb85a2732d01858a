"""Frames: how everything that the worker and the host say to each other is cut into messages.

A frame is a length, a kind and a payload. Requests and answers, of which there are many, are fixed
records (:mod:`.requests`); everything else is JSON. Nothing is ever unpickled. The host trusts no
byte of a worker's: every number is held to its range, every text to its length, and
:class:`Malformed` ends that run alone.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

from ...errors import DiscipleError

__all__ = [
    "HEADER",
    "LONGEST",
    "Frames",
    "Kind",
    "Malformed",
    "encode",
    "encode_json",
    "read_records",
]

HEADER = struct.Struct("<IB")


class Kind(IntEnum):
    """Kinds of frames; those from 16 on go from the host to the worker."""

    READY = 1
    ASK = 2
    NEED = 3
    CALL = 4
    EVENT = 5
    DONE = 6
    FAILED = 7
    MASK = 8
    JOB = 16
    ANSWER = 17
    REPLY = 18
    RESULT = 19


LONGEST = {
    Kind.READY: 0,
    Kind.ASK: 2**22,
    Kind.NEED: 2**19,
    Kind.CALL: 2**22,
    Kind.EVENT: 2**22,
    Kind.DONE: 2**23,
    Kind.FAILED: 2**20,
    Kind.MASK: 2**19,
}
"""Bytes that a frame of the worker's may have: the host reads each in a moment."""


class Malformed(DiscipleError):
    """A worker's message breaks the protocol."""


def encode(kind: Kind, payload: bytes = b"") -> bytes:
    """One frame."""
    return HEADER.pack(len(payload), kind) + payload


def encode_json(kind: Kind, data: Any) -> bytes:
    """One frame of JSON. Infinities are spelled as Python's ``json`` does."""
    return encode(kind, json.dumps(data, separators=(",", ":")).encode())


class Frames:
    """Splits a stream of bytes into frames.

    Args:
        longest: bytes that the payload of each kind may have, or None where the sender is trusted.
    """

    def __init__(self, longest: Mapping[Kind, int] | None = None) -> None:
        self._buffer = bytearray()
        self._longest = longest

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Add bytes; yield the kind and payload of each frame that is now whole.

        Raises:
            Malformed: a frame is longer than its kind may be, or of an unknown kind.
        """
        self._buffer += data
        while len(self._buffer) >= HEADER.size:
            length, kind = HEADER.unpack_from(self._buffer)
            # Before the payload has come: up to 4 GiB would be collected for it otherwise.
            # A kind that only the host sends has no length here, and is refused by the -1.
            if self._longest is not None and length > self._longest.get(kind, -1):
                raise Malformed(f"a message of kind {kind} and {length} bytes is not allowed")
            end = HEADER.size + length
            if len(self._buffer) < end:
                return
            # Not a view of it: a buffer that is looked at cannot be shortened.
            payload = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            yield kind, payload


def read_records(layout: struct.Struct, payload: bytes, start: int, count: int) -> Sequence[Any]:
    """``count`` records from ``start`` on.

    Raises:
        Malformed: the payload is shorter than that.
    """
    end = start + count * layout.size
    if end > len(payload):
        raise Malformed("a message is shorter than it says")
    return list(layout.iter_unpack(memoryview(payload)[start:end]))
