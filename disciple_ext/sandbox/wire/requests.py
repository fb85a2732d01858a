"""Requests and answers as bytes: how one side packs each kind, and how the other side reads it.

There are many of them, so that both are records of a fixed layout, which a batch holds one after
another (:mod:`.batches`). The worker packs requests and reads answers, and trusts the host; the
host reads requests, holding every number to its range, and packs answers.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ...protocol.measure import Role
from ...protocol.prefix import Prefix
from ...protocol.requests import (
    Branch,
    Branched,
    Draw,
    Drawn,
    LogProbs,
    Mass,
    NextBytes,
    Reply,
    Request,
    Score,
)
from ...protocol.vocabulary import TokenMask
from .frames import Malformed

__all__ = [
    "ANSWER",
    "ASK",
    "CODECS",
    "VECTORS",
    "Codec",
    "Op",
    "Status",
    "codec_of",
    "pack_failure",
    "pack_vector",
]

VECTORS = 16
"""Whole distributions that may be on their way at the same time, each in a place of its own."""

ASK = struct.Struct("<BBBIIIIIIdd")
"""A request: operation, role, vector slot, ticket, two prefixes, three masks (0 is none), the
uniform, the temperature. The second prefix is the prior of a ``Draw`` or ``Branch``, and what a
``Score`` leads to. A ``NextBytes`` names the bytes begun by a token and their number, in the place
of the first two masks."""
ANSWER = struct.Struct("<IBiddd")
"""An answer: ticket, status, an integer, and three floats. Scores and masses by the byte follow the
records as floats, as many as the integer says; so do the UTF-8 bytes of a failure's message."""


class Op(IntEnum):
    """Kinds of requests that are records; a ``Call`` is JSON."""

    DRAW = 1
    BRANCH = 2
    MASS = 3
    SCORE = 4
    LOG_PROBS = 5
    NEXT_BYTES = 6


class Status(IntEnum):
    """What an answer's record says."""

    ANSWERED = 0
    FLOATS = 1
    FAILED = 2


# As plain integers, for each request and answer: an enumeration's member costs a look-up each time.
_ANSWERED, _FLOATS, _FAILED = map(int, Status)

Fields = tuple[int, int, int, int, int, float, float]
"""A request's record past its ticket: two prefixes, three masks, the uniform, the temperature."""


class Numbers(Protocol):
    """The worker's side: contexts, masks and bytes as numbers that the host knows."""

    def context(self, prefix: Prefix | None) -> int:
        """The number of a context, 0 for none."""
        ...

    def mask(self, mask: TokenMask | None) -> int:
        """The number of a mask, 0 for none."""
        ...

    def beginning(self, begun: bytes) -> int:
        """A token that begins with these bytes."""
        ...


class Codec:
    """One kind of request as bytes, and its answer.

    ``pack`` and ``reply`` (or ``floats``) are the worker's, ``read`` and ``answer`` the host's.

    Attributes:
        op: its kind.
        number: the same as a plain integer.
        kind: its class.
    """

    op: ClassVar[Op]
    number: ClassVar[int]
    kind: ClassVar[type[Request]]

    @staticmethod
    def pack(request: Any, numbers: Numbers) -> Fields:
        """The fields of its record."""
        raise NotImplementedError

    @staticmethod
    def read(
        a: Prefix, b: Prefix, mask: Any, given: TokenMask | None, pending: TokenMask | None,
        u: float, temperature: float, role: Role,
    ) -> Request:  # fmt: skip
        """The request of a record, whose numbers are in range, with what they name.

        Raises:
            Malformed: they are no such request.
        """
        raise NotImplementedError

    @staticmethod
    def answer(ticket: int, reply: Any) -> tuple[bytes, bytes]:
        """The record of an answer, and what follows the records: here the reply's floats."""
        record = ANSWER.pack(ticket, _FLOATS, len(reply), 0.0, 0.0, 0.0)
        return record, struct.pack(f"<{len(reply)}d", *reply)

    @staticmethod
    def reply(n: int, x: float, y: float, z: float) -> Reply:
        """The reply of an answer's record."""
        raise NotImplementedError

    @staticmethod
    def floats(values: NDArray[np.float64]) -> Reply:
        """The reply of the floats that follow the records."""
        raise NotImplementedError


class _Draw(Codec):
    op, kind = Op.DRAW, Draw

    @staticmethod
    def pack(request: Draw, numbers: Numbers) -> Fields:
        r, context = request, numbers.context
        a, b, mask = context(r.proposal), context(r.prior), numbers.mask(r.mask)
        return a, b, mask, 0, 0, r.u, r.temperature

    @staticmethod
    def read(
        a: Prefix, b: Prefix, mask: TokenMask | None, given: object, pending: object,
        u: float, temperature: float, role: Role,
    ) -> Draw:  # fmt: skip
        return Draw(a, _prior(b), mask, u, temperature, _drawn(role))

    @staticmethod
    def answer(ticket: int, reply: Drawn) -> tuple[bytes, bytes]:
        r = reply
        return ANSWER.pack(ticket, _ANSWERED, r.token, r.log_q, r.log_mass, r.log_p), b""

    @staticmethod
    def reply(n: int, x: float, y: float, z: float) -> Drawn:
        return Drawn(n, x, y, z)


class _Branch(Codec):
    op, kind = Op.BRANCH, Branch

    @staticmethod
    def pack(request: Branch, numbers: Numbers) -> Fields:
        r, context, mask = request, numbers.context, numbers.mask
        a, b = context(r.proposal), context(r.prior)
        return a, b, mask(r.mask), mask(r.given), mask(r.pending), r.u, r.temperature

    @staticmethod
    def read(
        a: Prefix, b: Prefix, mask: TokenMask | None, given: TokenMask | None,
        pending: TokenMask | None, u: float, temperature: float, role: Role,
    ) -> Branch:  # fmt: skip
        return Branch(a, _prior(b), _mask(mask), given, pending, u, temperature, _drawn(role))

    @staticmethod
    def answer(ticket: int, reply: Branched) -> tuple[bytes, bytes]:
        return ANSWER.pack(ticket, _ANSWERED, reply.value, reply.log_q, reply.log_p, 0.0), b""

    @staticmethod
    def reply(n: int, x: float, y: float, z: float) -> Branched:
        return Branched(bool(n), x, y)


class _Mass(Codec):
    op, kind = Op.MASS, Mass

    @staticmethod
    def pack(request: Mass, numbers: Numbers) -> Fields:
        a, mask = numbers.context(request.context), numbers.mask(request.mask)
        return a, 0, mask, 0, 0, 0.0, request.temperature

    @staticmethod
    def read(
        a: Prefix, b: object, mask: TokenMask | None, given: object, pending: object,
        u: float, temperature: float, role: Role,
    ) -> Mass:  # fmt: skip
        return Mass(a, _mask(mask), temperature, role)

    @staticmethod
    def answer(ticket: int, reply: float) -> tuple[bytes, bytes]:
        return ANSWER.pack(ticket, _ANSWERED, 0, reply, 0.0, 0.0), b""

    @staticmethod
    def reply(n: int, x: float, y: float, z: float) -> float:
        return x


class _Score(Codec):
    op, kind = Op.SCORE, Score

    @staticmethod
    def pack(request: Score, numbers: Numbers) -> Fields:
        a = numbers.context(request.context)
        # The tokens go as the context that they lead to, so that the record has a fixed size.
        b = numbers.context(request.context.extend(request.tokens))
        return a, b, 0, 0, 0, 0.0, request.temperature

    @staticmethod
    def read(
        a: Prefix, b: Prefix, mask: object, given: object, pending: object,
        u: float, temperature: float, role: Role,
    ) -> Score:  # fmt: skip
        try:
            tokens = b.after(a)
        except ValueError:
            raise Malformed("a score of tokens that do not follow its context") from None
        if not tokens:
            raise Malformed("a score of no tokens")
        return Score(a, tokens, temperature, role)

    @staticmethod
    def floats(values: NDArray[np.float64]) -> tuple[float, ...]:
        return tuple(values.tolist())


class _NextBytes(Codec):
    op, kind = Op.NEXT_BYTES, NextBytes

    @staticmethod
    def pack(request: NextBytes, numbers: Numbers) -> Fields:
        a, mask = numbers.context(request.context), numbers.mask(request.mask)
        token = numbers.beginning(request.begun)
        return a, 0, token, len(request.begun), mask, 0.0, request.temperature

    @staticmethod
    def read(
        a: Prefix, b: object, mask: bytes, given: object, pending: TokenMask | None,
        u: float, temperature: float, role: Role,
    ) -> NextBytes:  # fmt: skip
        return NextBytes(a, mask, pending, temperature, role)  # the bytes stand where a mask does

    @staticmethod
    def floats(values: NDArray[np.float64]) -> NDArray[np.float64]:
        # A copy: this one cannot be written to, and keeps the whole frame in memory.
        return values.copy()


class _LogProbs(Codec):
    """Its reply goes through memory that both sides share, or as floats where there is none."""

    op, kind = Op.LOG_PROBS, LogProbs

    @staticmethod
    def pack(request: LogProbs, numbers: Numbers) -> Fields:
        return numbers.context(request.context), 0, 0, 0, 0, 0.0, request.temperature

    @staticmethod
    def read(
        a: Prefix, b: object, mask: object, given: object, pending: object,
        u: float, temperature: float, role: Role,
    ) -> LogProbs:  # fmt: skip
        return LogProbs(a, temperature, role)

    @staticmethod
    def floats(values: NDArray[np.float64]) -> NDArray[np.float32]:
        # As a distribution is that comes through the shared memory.
        return values.astype(np.float32)


def _prior(context: Prefix) -> Prefix | None:
    # Number 0 stands for no context and for the empty one alike: no prior is empty.
    return None if context is Prefix.ROOT else context


def _drawn(role: Role) -> Role:
    """What a draw is scored as."""
    if role not in (Role.PRIOR, Role.PLAIN):
        raise Malformed("a draw that is scored as a proposal")
    return role


def _mask(mask: TokenMask | None) -> TokenMask:
    if mask is None:
        raise Malformed("a request without its mask")
    return mask


_ALL: tuple[type[Codec], ...] = (_Draw, _Branch, _Mass, _Score, _NextBytes, _LogProbs)
for _codec in _ALL:
    _codec.number = int(_codec.op)
CODECS: dict[int, type[Codec]] = {codec.number: codec for codec in _ALL}
"""By number, for the host."""
_OF: dict[type, type[Codec]] = {codec.kind: codec for codec in _ALL}


def codec_of(request: Request) -> type[Codec]:
    """The codec of a request.

    Raises:
        TypeError: it is no request that goes as a record.
    """
    codec = _OF.get(type(request))
    if codec is None:
        raise TypeError(f"not a request: {type(request).__name__}")
    return codec


def pack_vector(ticket: int) -> bytes:
    """The record of an answer whose distribution lies in shared memory."""
    return ANSWER.pack(ticket, _ANSWERED, 0, 0.0, 0.0, 0.0)


def pack_failure(ticket: int, message: str) -> tuple[bytes, bytes]:
    """The record of a request that failed, and the message that follows the records."""
    # A message may quote half of a surrogate pair, which UTF-8 cannot spell.
    said = message[:1000].encode(errors="backslashreplace")
    return ANSWER.pack(ticket, _FAILED, len(said), 0.0, 0.0, 0.0), said
