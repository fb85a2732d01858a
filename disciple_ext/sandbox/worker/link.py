"""The worker's end of the pipe: its event loop, its follower, its words to the host.

The loop's selector is the pipe itself. When nothing is left to run, every particle waits, so what
they asked for goes out as one batch, and the process sleeps until the answers come: no timer, no
thread, and three kinds of system call.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import select
import selectors
import struct
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FollowerError, ServiceError
from ...protocol.prefix import Prefix
from ...protocol.requests import (
    Branch,
    Branched,
    Call,
    Draw,
    Drawn,
    LogProbs,
    Mass,
    NextBytes,
    Request,
    Score,
)
from ...protocol.vocabulary import Vocabulary
from ..wire import messages
from ..wire.masks import SentMasks
from ..wire.messages import Kind

__all__ = ["Link", "RemoteFollower"]

_IDLE_PASSES = 64
"""Passes of a busy loop after which waiting requests are sent all the same."""


class Link:
    """Frames to and from the host."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._in, self._out = read_fd, write_fd
        self._frames = messages.Frames()
        self._arrived: deque[tuple[int, bytes]] = deque()
        self._poll = select.poll()
        self._poll.register(read_fd, select.POLLIN)

    def send(self, frame: bytes) -> None:
        """Write a frame, waiting where the pipe is full."""
        view = memoryview(frame)
        while view:
            view = view[os.write(self._out, view) :]

    def receive(self, timeout: float | None = None) -> tuple[int, bytes] | None:
        """The next frame, or None after ``timeout`` seconds. Ends the process with the host."""
        while not self._arrived:
            # Without a timeout the read itself waits: one system call less.
            if timeout is not None and not self._poll.poll(max(0.0, timeout) * 1000):
                return None
            data = os.read(self._in, 2**18)
            if not data:
                os._exit(0)
            self._arrived.extend(self._frames.feed(data))
        return self._arrived.popleft()

    def until(self, kind: Kind) -> bytes:
        """The next frame of a kind; frames of other kinds are kept for later, in their order."""
        kept: list[tuple[int, bytes]] = []
        while True:
            frame = self.receive()
            assert frame is not None
            if frame[0] == kind:
                self._arrived.extendleft(reversed(kept))
                return frame[1]
            kept.append(frame)

    def take(self) -> tuple[int, bytes] | None:
        """The next frame that has already arrived, or None."""
        return self._arrived.popleft() if self._arrived else None


class _PipeSelector(selectors.BaseSelector):
    """Waits for the host's answers. Other descriptors (the loop's own pipe) never become ready."""

    def __init__(self, follower: RemoteFollower) -> None:
        self._follower = follower
        self._keys: dict[Any, selectors.SelectorKey] = {}
        self._passes = 0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            self._passes += 1
            if self._passes < _IDLE_PASSES:
                return []
        self._passes = 0
        self._follower.exchange(timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class RemoteFollower:
    """The follower as a worker sees it: the protocol over the pipe.

    Prefixes and masks are sent once and then named by number.
    """

    def __init__(
        self,
        link: Link,
        vocabulary: Vocabulary,
        *,
        name: str,
        max_context: int | None,
        vectors: mmap.mmap | None,
    ) -> None:
        self.name = name
        self.vocabulary = vocabulary
        self.max_context = max_context
        self.tokens = 0
        self._link = link
        self._queue: list[tuple[int, Request]] = []
        self._waiting: dict[int, tuple[Request, asyncio.Future[Any]]] = {}
        self._ticket = 0
        self._answered = False
        self._prefixes: dict[Prefix, int] = {Prefix.ROOT: 0}
        self._masks = SentMasks()
        self._prompts: dict[tuple[str, str], tuple[int, ...]] = {}
        self._texts: dict[str, tuple[int, ...]] = {}
        self._vectors = vectors
        self._slots = deque(range(messages.VECTORS))
        self._slot_of: dict[int, int] = {}
        self._no_slot: deque[tuple[int, Request]] = deque()

    def __deepcopy__(self, memo: object) -> RemoteFollower:
        return self

    def loop(self) -> asyncio.AbstractEventLoop:
        """An event loop that waits for this follower's answers."""
        return asyncio.SelectorEventLoop(_PipeSelector(self))

    # The protocol ----------------------------------------------------------------------------

    async def ask(self, request: Request) -> Any:
        """Answer one request (see the protocol); all that wait go out together."""
        if isinstance(request, Draw):
            self.tokens += 1
        elif isinstance(request, Score):
            self.tokens += len(request.tokens)
        elif isinstance(request, NextBytes):
            self.tokens += not request.begun
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._ticket += 1
        self._waiting[self._ticket] = (request, future)
        self._queue.append((self._ticket, request))
        return await future

    def prompt(self, user: str, hint: str = "") -> tuple[int, ...]:
        """Token ids of a user message; the host is asked once for each."""
        key = (user, hint)
        if key not in self._prompts:
            self._prompts[key] = self._need({"prompt": user, "hint": hint})
        return self._prompts[key]

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a text; the host is asked once for each."""
        if text not in self._texts:
            self._texts[text] = self._need({"encode": text})
        return self._texts[text]

    def _need(self, what: dict[str, str]) -> tuple[int, ...]:
        if max(map(len, what.values())) > messages.MAX_NEED:
            raise ValueError(f"a text of more than {messages.MAX_NEED} characters")
        self._link.send(messages.encode_json(Kind.NEED, what))
        reply = json.loads(self._link.until(Kind.REPLY))
        if "error" in reply:
            raise ValueError(reply["error"])
        return tuple(reply["ids"])

    # The wire --------------------------------------------------------------------------------

    def exchange(self, timeout: float | None) -> None:
        """Send what is asked, then take answers; wait for them up to ``timeout`` seconds."""
        if self._queue or (self._answered and self._waiting):
            # An empty batch tells the host that nothing more will come until it answers.
            self._send()
            if self._answered:  # some have failed on this side, and go on at once
                return
        frame = self._link.receive(timeout)
        while frame is not None:
            self._take(*frame)
            frame = self._link.take()

    def _send(self) -> None:
        self._answered = False
        nodes: list[bytes] = []
        masks: list[bytes] = []
        records: list[bytes] = []
        calls: list[bytes] = []
        for ticket, request in self._queue:
            if isinstance(request, Call):
                data = {"ticket": ticket, "name": request.name, "payload": request.payload}
                try:
                    calls.append(messages.encode_json(Kind.CALL, data))
                except (TypeError, ValueError) as error:
                    reason = f"the payload of a call is not JSON: {error}"
                    self._fail(ticket, ValueError(reason))
            elif isinstance(request, LogProbs) and not self._slots:
                self._no_slot.append((ticket, request))
            else:
                try:
                    records.append(self._record(ticket, request, nodes, masks))
                except Exception as error:  # a request that a program made up: it fails alone
                    reason = f"the request is malformed: {type(error).__name__}: {error}"
                    self._fail(ticket, FollowerError(reason))
        self._queue.clear()
        head = messages.COUNTS.pack(len(nodes), len(records))
        payload = b"".join((head, *nodes, *records))
        self._link.send(b"".join((*calls, *masks, messages.encode(Kind.ASK, payload))))
        self._masks.forget()

    def _record(
        self, ticket: int, request: Request, nodes: list[bytes], masks: list[bytes]
    ) -> bytes:
        pack, node, mask = messages.ASK.pack, self._prefix, self._masks.number
        match request:
            case Draw():
                a, b = node(request.proposal, nodes), node(request.prior, nodes)
                allowed = mask(request.mask, masks)
                return pack(1, 0, ticket, a, b, allowed, 0, 0, request.u, request.temperature)
            case Branch():
                a, b = node(request.proposal, nodes), node(request.prior, nodes)
                three = (mask(m, masks) for m in (request.mask, request.given, request.pending))
                return pack(2, 0, ticket, a, b, *three, request.u, request.temperature)
            case Mass(context, allowed, temperature):
                a, m = node(context, nodes), mask(allowed, masks)
                return pack(3, 0, ticket, a, 0, m, 0, 0, 0.0, temperature)
            case Score(context, tokens, temperature):
                a, b = node(context, nodes), node(context.extend(tokens), nodes)
                return pack(4, 0, ticket, a, b, 0, 0, 0, 0.0, temperature)
            case NextBytes(context, begun, allowed, temperature):
                a, m = node(context, nodes), mask(allowed, masks)
                token = self._beginning(begun)
                return pack(6, 0, ticket, a, 0, token, len(begun), m, 0.0, temperature)
            case LogProbs(context, temperature):
                slot = self._slot_of[ticket] = self._slots.popleft()
                return pack(5, slot, ticket, node(context, nodes), 0, 0, 0, 0, 0.0, temperature)
        raise TypeError(f"not a request: {type(request).__name__}")

    def _beginning(self, begun: bytes) -> int:
        """A token that begins with these bytes: the host names them by it."""
        if not begun:
            return 0
        ids = self.vocabulary.trie.node(begun[:-1])
        for byte, start in zip(ids.bytes.tolist(), ids.starts.tolist(), strict=True):
            if byte == begun[-1]:
                return int(ids.ids[start])
        raise ValueError(f"no token begins with {begun!r}")

    def _prefix(self, prefix: Prefix | None, nodes: list[bytes]) -> int:
        """The number of a prefix; it and the parents that the host lacks are sent."""
        if prefix is None:
            return 0
        known = self._prefixes
        number = known.get(prefix)
        if number is not None:
            return number
        new: list[Prefix] = []
        node: Prefix | None = prefix
        while node is not None and node not in known:
            new.append(node)
            node = node.parent
        for node in reversed(new):
            assert node.parent is not None
            nodes.append(messages.NODE.pack(known[node.parent], node.token))
            known[node] = len(known)
        return known[prefix]

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == Kind.RESULT:
            reply = json.loads(payload)
            if "error" in reply:
                self._fail(reply["ticket"], _error(reply))
            else:
                self._give(reply["ticket"], reply["value"])
            return
        assert kind == Kind.ANSWER, kind
        self._answered = True
        (count,) = _COUNT.unpack_from(payload)
        rest = _COUNT.size + count * messages.ANSWER.size
        for ticket, status, n, x, y, z in messages.read_records(
            messages.ANSWER, payload, _COUNT.size, count
        ):
            if status == 0:
                request, future = self._waiting.pop(ticket)
                reply = self._reply(request, ticket, n, x, y, z)
                if not future.done():
                    future.set_result(reply)
            elif status == 1:
                self._give(ticket, self._floats(ticket, np.frombuffer(payload, "<f8", n, rest)))
                rest += 8 * n
            else:
                self._fail(ticket, FollowerError(payload[rest : rest + n].decode()))
                rest += n

    def _reply(self, request: Request, ticket: int, n: int, x: float, y: float, z: float) -> Any:
        if isinstance(request, Draw):
            return Drawn(n, x, y, z)
        if isinstance(request, Branch):
            return Branched(bool(n), x, y)
        return self._vector(self._slot_of.pop(ticket)) if ticket in self._slot_of else x

    def _floats(self, ticket: int, floats: NDArray[np.float64]) -> Any:
        """Log-probabilities of scored tokens, or a distribution where there is no shared memory."""
        if ticket in self._slot_of:
            self._free(self._slot_of.pop(ticket))
            return floats.astype(np.float32)
        if isinstance(self._waiting[ticket][0], NextBytes):
            return floats.copy()
        return tuple(floats.tolist())

    def _vector(self, slot: int) -> NDArray[np.float32]:
        assert self._vectors is not None
        size = self.vocabulary.size
        shared = np.frombuffer(self._vectors, np.float32, size, 4 * size * slot)
        vector = shared.copy()
        self._free(slot)
        return vector

    def _free(self, slot: int) -> None:
        self._slots.append(slot)
        if self._no_slot:
            self._queue.append(self._no_slot.popleft())

    def _give(self, ticket: int, value: Any) -> None:
        self._answered = True
        _, future = self._waiting.pop(ticket)
        if not future.done():
            future.set_result(value)

    def _fail(self, ticket: int, error: Exception) -> None:
        self._answered = True
        if ticket in self._slot_of:
            self._free(self._slot_of.pop(ticket))
        _, future = self._waiting.pop(ticket)
        if not future.done():
            future.set_exception(error)


def _error(reply: dict[str, Any]) -> Exception:
    """Why a call failed: by what the program asked, by the service, or else."""
    message = reply["error"]
    if reply.get("kind") == "service":
        return ServiceError(message, service=reply["service"])
    return ValueError(message) if reply.get("kind") == "payload" else FollowerError(message)


_COUNT = struct.Struct("<I")
