"""Batches of requests and of answers: what is named by number, and the records after it.

A worker sends each context and each mask once, and names it by its number from then on. A context
is its parent and one token more, so that a batch stays as short however long the texts become.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from ...protocol.measure import Role
from ...protocol.prefix import Prefix
from ...protocol.requests import Request
from ...protocol.vocabulary import TokenMask, Vocabulary
from .frames import Kind, Malformed, encode, read_records
from .masks import SentMasks
from .requests import ANSWER, ASK, CODECS, Op, codec_of

__all__ = ["COUNTS", "NODE", "RequestReader", "RequestWriter", "encode_answers", "read_answers"]

COUNTS = struct.Struct("<II")
"""Head of an ``ASK``: how many prefixes and requests follow."""
NODE = struct.Struct("<II")
"""A new prefix: the number of its parent (0 is the empty one), and the token after it. Prefixes
are numbered from 1 in the order in which they are sent."""
_COUNT = struct.Struct("<I")
"""Head of an ``ANSWER``: how many records follow."""

_ROLES = tuple(Role)
_NEXT_BYTES, _LOG_PROBS = int(Op.NEXT_BYTES), int(Op.LOG_PROBS)

# A context keeps its number to the end of the run, so that their count needs a bound.
_MAX_PREFIXES = 1_000_000
_MAX_MASKS = 2**17
_MAX_MASK_BYTES = 2**28
"""Of the masks that a worker may name at one time; it gives old ones' numbers to others."""


class RequestWriter:
    """The worker's side: requests as frames, with the contexts and masks that the host lacks."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._prefixes: dict[Prefix, int] = {Prefix.ROOT: 0}
        self._masks = SentMasks()
        self._nodes: list[bytes] = []
        self._mask_frames: list[bytes] = []
        self._records: list[bytes] = []

    def add(self, ticket: int, request: Request, slot: int = 0) -> None:
        """Add a request to the batch.

        Args:
            ticket: what its answer will name.
            request: the request.
            slot: the place in shared memory for its distribution, where it is one.

        Raises:
            TypeError: it is no request, or holds what is not of its type.
            ValueError: no token begins with its bytes.
        """
        codec = codec_of(request)
        fields = codec.pack(request, self)
        self._records.append(ASK.pack(codec.number, request.role, slot, ticket, *fields))

    def frames(self) -> bytes:
        """The frames of the batch; the next one begins."""
        head = COUNTS.pack(len(self._nodes), len(self._records))
        # Masks are frames of their own, before it: the records name them.
        payload = b"".join((head, *self._nodes, *self._records))
        frames = b"".join((*self._mask_frames, encode(Kind.ASK, payload)))
        self._nodes, self._mask_frames, self._records = [], [], []
        # Not before: this batch names masks by the numbers that may now be given away.
        self._masks.forget()
        return frames

    def context(self, prefix: Prefix | None) -> int:
        """The number of a prefix; it and the parents that the host lacks are sent."""
        if prefix is None:
            return 0
        known = self._prefixes
        number = known.get(prefix)
        if number is not None:
            return number
        new: list[Prefix] = []
        node: Prefix | None = prefix
        # A loop, no recursion: a forced text may have more new tokens than the stack has room for.
        while node is not None and node not in known:
            new.append(node)
            node = node.parent
        for node in reversed(new):
            assert node.parent is not None
            self._nodes.append(NODE.pack(known[node.parent], node.token))
            known[node] = len(known)
        return known[prefix]

    def mask(self, mask: TokenMask | None) -> int:
        """The number of a mask; one that the host lacks is sent."""
        return self._masks.number(mask, self._mask_frames)

    def beginning(self, begun: bytes) -> int:
        """A token that begins with these bytes: the host names them by it."""
        if not begun:
            return 0
        ids = self._vocabulary.trie.node(begun[:-1])
        for byte, start in zip(ids.bytes.tolist(), ids.starts.tolist(), strict=True):
            if byte == begun[-1]:
                return int(ids.ids[start])
        raise ValueError(f"no token begins with {begun!r}")


class RequestReader:
    """The host's side: the contexts and masks of one worker by number, and its requests.

    Attributes:
        overlong: whether some context was longer than the model takes.
        mask_bytes: size of the masks that have a number.
    """

    def __init__(self, vocabulary: Vocabulary, longest: int) -> None:
        """Begin with no context and no mask but the empty ones.

        Args:
            vocabulary: the follower's.
            longest: tokens that a context may have.
        """
        self.overlong = False
        self.mask_bytes = 0
        self._vocabulary = vocabulary
        self._longest = longest
        self._prefixes = [Prefix.ROOT]
        self._masks: dict[int, TokenMask | None] = {0: None}

    def records(self, payload: bytes) -> Sequence[Any]:
        """The records of a batch, whose new contexts get their numbers.

        Raises:
            Malformed: the batch is not as it says, or a context is out of range.
        """
        if len(payload) < COUNTS.size:
            raise Malformed("a batch without a head")
        nodes, requests = COUNTS.unpack_from(payload)
        at = COUNTS.size
        self._new_prefixes(read_records(NODE, payload, at, nodes))
        at += nodes * NODE.size
        if at + requests * ASK.size != len(payload):
            raise Malformed("a batch is longer than it says")
        return read_records(ASK, payload, at, requests)

    def _new_prefixes(self, records: Sequence[Any]) -> None:
        prefixes, size = self._prefixes, self._vocabulary.size
        for parent, token in records:
            # A parent is there already: no circles. A token out of range would be an assertion on
            # the GPU, after which this whole process cannot use it.
            if parent >= len(prefixes) or token >= size:
                raise Malformed("a context that is out of range")
            if len(prefixes) > _MAX_PREFIXES:
                raise Malformed(f"more than {_MAX_PREFIXES} contexts")
            node = prefixes[parent].then(token)
            # Noted and not refused: what asks for it fails alone, and the run goes on.
            self.overlong |= node.length > self._longest
            prefixes.append(node)

    def name_mask(self, number: int, mask: TokenMask) -> None:
        """Give a mask its number, which may have been another's.

        Raises:
            Malformed: the number is out of range, or there are too many masks.
        """
        old = self._masks.get(number)
        self.mask_bytes += mask.nbytes - (0 if old is None else old.nbytes)
        if not 0 < number <= _MAX_MASKS or self.mask_bytes > _MAX_MASK_BYTES:
            raise Malformed(f"a mask numbered {number}, after {len(self._masks) - 1} others")
        self._masks[number] = mask

    def requests(self, records: Sequence[Any]) -> Iterator[tuple[int, int, Request]]:
        """Ticket, slot (-1 for none) and request of each record, one at a time.

        What a request costs is the caller's to count before it takes the next one.

        Raises:
            Malformed: a number is out of range.
        """
        prefixes, masks = self._prefixes, self._masks
        for op, role, slot, ticket, a, b, m, given, pending, u, temperature in records:
            codec = CODECS.get(op)
            if codec is None:
                raise Malformed("an unknown request")
            try:
                first, second, third = prefixes[a], prefixes[b], masks[pending]
                one: Any
                if op == _NEXT_BYTES:  # bytes that have begun are named by a token and their number
                    one, two = self._beginning(m, given), None
                else:
                    one, two = masks[m], masks[given]
            except (IndexError, KeyError):
                message = "a request names a context or a mask that was never sent"
                raise Malformed(message) from None
            # Written so that what is not a number is out of range, too.
            if not (0.0 <= u < 1.0 and 0.0 < temperature < math.inf):
                raise Malformed("a request with a uniform or a temperature that is out of range")
            if role >= len(_ROLES):
                raise Malformed("a request in an unknown role")
            request = codec.read(first, second, one, two, third, u, temperature, _ROLES[role])
            yield ticket, slot if op == _LOG_PROBS else -1, request

    def _beginning(self, token: int, length: int) -> bytes:
        """The first bytes of a token."""
        tokens = self._vocabulary.tokens
        if token >= len(tokens) or length > len(tokens[token]):
            raise Malformed("the beginning of a token that there is not")
        return tokens[token][:length]


def encode_answers(records: Sequence[bytes], tail: Sequence[bytes]) -> bytes:
    """The frame of answers: their records, and what follows them."""
    return encode(Kind.ANSWER, b"".join((_COUNT.pack(len(records)), *records, *tail)))


def read_answers(payload: bytes) -> tuple[Sequence[Any], int]:
    """The records of answers, and where in the payload begins what follows them."""
    (count,) = _COUNT.unpack_from(payload)
    records = read_records(ANSWER, payload, _COUNT.size, count)
    return records, _COUNT.size + count * ANSWER.size
