"""What the worker and the host say to each other: framing, layouts, and the host's checks.

A frame is a length, a kind and a payload. Requests and answers, of which there are many, are fixed
records; everything else is JSON. Nothing is ever unpickled. The host trusts no byte of a worker's:
every number is held to its range, every text to its length, and :class:`Malformed` ends that run
alone.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

from ...errors import (
    DiscipleError,
    FollowerError,
    LimitExceeded,
    ProgramCrashed,
    ProgramError,
    ProgramRejected,
    SamplerError,
    ServiceError,
    WrongFamily,
)
from ...records.particle import FINISH_REASONS, Particle
from ...text.shorten import shortened

__all__ = [
    "ANSWER",
    "ASK",
    "COUNTS",
    "LONGEST",
    "MASK",
    "MAX_NEED",
    "MAX_PARTICLES",
    "MAX_TEXT",
    "NODE",
    "VECTORS",
    "Frames",
    "Kind",
    "Malformed",
    "as_count",
    "as_dict",
    "as_float",
    "as_list",
    "as_log",
    "as_optional_count",
    "as_text",
    "encode",
    "encode_json",
    "read_call",
    "read_error",
    "read_json",
    "read_need",
    "read_outcome",
    "read_records",
]

HEADER = struct.Struct("<IB")
MAX_TEXT = 2**20
"""Characters of one text (a prompt, a particle's text, a message) at most."""
MAX_NEED = 2**16
"""Characters of a text that the host is asked to encode at most."""
MAX_PARTICLES = 100_000
VECTORS = 16
"""Whole distributions that may be on their way at the same time, each in a place of its own."""

_MAX_BRACKETS = 300_000
_MAX_ITEMS = 1_000_000
"""Lists and objects, and commas, of one JSON message at most: they take far more memory and time
than their bytes."""

COUNTS = struct.Struct("<II")
"""Head of an ``ASK``: how many prefixes and requests follow."""
MASK = struct.Struct("<IB")
"""Head of a ``MASK``: its number, from 1 on, which may have been another mask's before; and its
form: 0 for packed bits, 1 for ascending ids of four bytes each."""
NODE = struct.Struct("<II")
"""A new prefix: the number of its parent (0 is the empty one), and the token after it. Prefixes
are numbered from 1 in the order in which they are sent."""
ASK = struct.Struct("<BBIIIIIIdd")
"""A request: operation, vector slot, ticket, two prefixes, three masks (0 is none), the uniform,
the temperature. The second prefix is the prior of a ``Draw`` or ``Branch``, and what a ``Score``
leads to. A ``NextBytes`` names the bytes begun by a token and their number, in the place of the
first two masks."""
ANSWER = struct.Struct("<IBiddd")
"""An answer: ticket, status (0 answered, 1 floats, 2 failed), an integer, and three floats.
Scores and masses by the byte follow the records as floats, as many as the integer says; so do the
UTF-8 bytes of a failure's message."""


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


# Frames ---------------------------------------------------------------------------------------


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
            if self._longest is not None and length > self._longest.get(kind, -1):
                raise Malformed(f"a message of kind {kind} and {length} bytes is not allowed")
            end = HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            yield kind, payload


# What the host reads ----------------------------------------------------------------------------


def read_json(payload: bytes) -> Any:
    """JSON of bounded numbers, bounded depth, and a bounded number of lists and objects.

    Raises:
        Malformed: it is no JSON, or holds an integer of more than 18 digits.
    """
    if (
        payload.count(b"[") + payload.count(b"{") > _MAX_BRACKETS
        or payload.count(b",") > _MAX_ITEMS
    ):
        raise Malformed("a message has too many lists, objects or items")
    try:
        return json.loads(payload, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"a message is no JSON: {error}") from None


def _integer(digits: str) -> int:
    if len(digits) > 19:
        raise Malformed("a message has an integer of more than 18 digits")
    return int(digits)


def read_records(layout: struct.Struct, payload: bytes, start: int, count: int) -> Sequence[Any]:
    """``count`` records from ``start`` on.

    Raises:
        Malformed: the payload is shorter than that.
    """
    end = start + count * layout.size
    if end > len(payload):
        raise Malformed("a message is shorter than it says")
    return list(layout.iter_unpack(memoryview(payload)[start:end]))


def read_need(payload: bytes) -> dict[str, str]:
    """What the worker waits for: ``{"encode": text}`` or ``{"prompt": text, "hint": text}``."""
    data = as_dict(read_json(payload))
    if set(data) not in ({"encode"}, {"prompt", "hint"}):
        raise Malformed("an unknown need")
    return {key: as_text(value, MAX_NEED) for key, value in data.items()}


def read_call(payload: bytes) -> tuple[int, str, Any]:
    """Ticket, name and payload of a call of a service."""
    data = as_dict(read_json(payload))
    return as_count(data.get("ticket"), 2**32), as_text(data.get("name"), 200), data.get("payload")


def read_outcome(payload: bytes) -> tuple[tuple[Particle, ...], float | None]:
    """The particles of a run, without shares of the weight, and the log evidence."""
    data = as_dict(read_json(payload))
    rows = as_list(data.get("particles"), MAX_PARTICLES)
    evidence = data.get("log_evidence")
    particles = []
    for row in map(as_dict, rows):
        reason = row.get("finish_reason")
        if not isinstance(reason, str) or reason not in FINISH_REASONS:
            raise Malformed("an unknown finish reason")
        particles.append(
            Particle(
                text=as_text(row.get("text")),
                log_weight=as_log(row.get("log_weight")),
                weight=0.0,
                check=_verdict(row.get("check")),
                finish_reason=reason,
                reason=as_text(row.get("reason")),
                tokens=as_count(row.get("tokens"), 2**31),
                log_prob=None if row.get("log_prob") is None else as_log(row["log_prob"]),
                lost_mass=_share(row.get("lost_mass", 0.0)),
            )
        )
    return tuple(particles), None if evidence is None else as_log(evidence)


_ERRORS: dict[str, type[ProgramError]] = {
    "ProgramCrashed": ProgramCrashed,
    "ProgramRejected": ProgramRejected,
    "WrongFamily": WrongFamily,
}


def read_error(
    payload: bytes, failure: FollowerError | ServiceError | None, seconds: float
) -> DiscipleError:
    """The error that ended a run in the worker.

    Args:
        payload: the message.
        failure: the last error of the follower or of a service, if any.
        seconds: the run's time limit.
    """
    data = as_dict(read_json(payload))
    message = shortened(as_text(data.get("message", "")), 4000)
    if failure is not None and data.get("type") == type(failure).__name__:
        return failure
    if data.get("type") == "SamplerError":
        return SamplerError(message)
    if data.get("type") == "Busy":
        return LimitExceeded.timeout(seconds, as_optional_count(data.get("line")))
    kind = _ERRORS.get(str(data.get("type")), ProgramCrashed)
    return kind(
        message,
        line=as_optional_count(data.get("line")),
        traceback=shortened(as_text(data.get("traceback")), 20_000),
        particle=as_optional_count(data.get("particle")),
        step=as_optional_count(data.get("step")),
        text=None if data.get("text") is None else as_text(data["text"]),
        exception=as_text(data.get("exception", ""), 200),
        of_none=data.get("of_none") is True,
    )


def as_dict(value: Any) -> dict[str, Any]:
    """The value, held to be an object."""
    if not isinstance(value, dict):
        raise Malformed("a message should be an object")
    return value


def as_list(value: Any, longest: int) -> list[Any]:
    """The value, held to be a list of at most ``longest`` items."""
    if not isinstance(value, list) or len(value) > longest:
        raise Malformed(f"a message should hold a list of at most {longest} items")
    return value


def as_text(value: Any, longest: int = MAX_TEXT) -> str:
    """The value, held to be a text of at most ``longest`` characters."""
    if not isinstance(value, str) or len(value) > longest:
        raise Malformed(f"a message should hold a text of at most {longest} characters")
    # Half of a surrogate pair is no character: no file, pipe or verifier takes it.
    return value if value.isascii() else value.encode(errors="replace").decode()


def as_count(value: Any, below: int = 2**53) -> int:
    """The value, held to be an integer from 0 to below ``below``."""
    if type(value) is not int or not 0 <= value < below:
        raise Malformed(f"a message should hold an integer from 0 to {below - 1}")
    return value


def as_optional_count(value: Any) -> int | None:
    """The same, or None."""
    return None if value is None else as_count(value)


def as_float(value: Any) -> float:
    """The value, held to be a number."""
    if type(value) not in (int, float):
        raise Malformed("a message should hold a number")
    return float(value)


def as_log(value: Any) -> float:
    """A natural log of something finite: a number, or minus infinity."""
    number = as_float(value)
    if math.isnan(number) or number == math.inf:
        raise Malformed(f"a log weight cannot be {number}")
    return number


def _share(value: Any) -> float:
    number = as_float(value)
    if not 0.0 <= number <= 1.0:
        raise Malformed(f"a share cannot be {number}")
    return number


def _verdict(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise Malformed("a verdict is true, false or null")
    return value
