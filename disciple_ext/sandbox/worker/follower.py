"""The follower as a worker sees it: the protocol over the pipe, and the loop that waits for it.

The loop's selector is the pipe itself. When nothing is left to run, every particle waits, so what
they asked for goes out as one batch, and the process sleeps until the answers come: no timer and
no thread.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import selectors
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FollowerError, ServiceError
from ...protocol.follower import BaseFollower
from ...protocol.measure import BaseMeasure
from ...protocol.requests import Call, LogProbs, Request, Tokens
from ...protocol.vocabulary import Vocabulary
from ...protocol.waiting import Deliver, Waiting
from ..wire.batches import RequestWriter, read_answers
from ..wire.calls import MAX_NEED
from ..wire.frames import Kind, encode_json
from ..wire.requests import VECTORS, Status, codec_of
from .link import Link

__all__ = ["RemoteFollower"]

_ANSWERED, _FLOATS = int(Status.ANSWERED), int(Status.FLOATS)
_IDLE_PASSES = 64
"""Passes of a busy loop after which waiting requests are sent all the same."""


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
            # Something else is ready to run, and may ask for more. A program that spins on sleep(0)
            # is never idle, though, and its requests must go out all the same.
            if self._passes < _IDLE_PASSES:
                return []
        self._passes = 0
        self._follower.exchange(timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class RemoteFollower(BaseFollower):
    """The follower as a worker sees it.

    Attributes:
        tokens: tokens asked for so far.
    """

    max_context: int | None = None
    tokens = 0

    def __init__(
        self,
        link: Link,
        vocabulary: Vocabulary,
        *,
        name: str,
        max_context: int | None,
        measure: BaseMeasure,
        vectors: mmap.mmap | None,
    ) -> None:
        """Ask over a pipe.

        Args:
            link: the pipe.
            vocabulary: the follower's tokens.
            name: the follower's name.
            max_context: tokens that a context may have, or None for no limit.
            measure: what the answers are under.
            vectors: memory that the host writes whole distributions to, or None.
        """
        self.name = name
        self.vocabulary = vocabulary
        self.max_context = max_context
        self.measure = measure
        self._link = link
        self._writer = RequestWriter(vocabulary)
        self._queue: list[tuple[int, Waiting]] = []
        self._waiting: dict[int, Waiting] = {}
        self._ticket = 0
        self._answered = False
        self._prompts: dict[tuple[str, str], Tokens] = {}
        self._texts: dict[str, Tokens] = {}
        self._vectors = vectors
        self._slots = deque(range(VECTORS))
        self._slot_of: dict[int, int] = {}
        self._no_slot: deque[tuple[int, Waiting]] = deque()

    def loop(self) -> asyncio.AbstractEventLoop:
        """An event loop that waits for this follower's answers."""
        return asyncio.SelectorEventLoop(_PipeSelector(self))

    # The protocol ----------------------------------------------------------------------------

    def submit(self, request: Request, deliver: Deliver) -> Waiting:
        """Answer one request (see the protocol); all that wait go out together."""
        if isinstance(request, Request):  # a program may ask for anything; that fails when sent
            self.tokens += request.tokens_asked
        waiting = Waiting(request, deliver)
        self._ticket += 1
        self._waiting[self._ticket] = waiting
        self._queue.append((self._ticket, waiting))
        return waiting

    def prompt(self, user: str, hint: str = "") -> Tokens:
        """Token ids of a user message; the host is asked once for each."""
        key = (user, hint)
        if key not in self._prompts:
            self._prompts[key] = self._need({"prompt": user, "hint": hint})
        return self._prompts[key]

    def encode(self, text: str) -> Tokens:
        """Token ids of a text; the host is asked once for each."""
        if text not in self._texts:
            self._texts[text] = self._need({"encode": text})
        return self._texts[text]

    def _need(self, what: dict[str, str]) -> Tokens:
        if max(map(len, what.values())) > MAX_NEED:
            raise ValueError(f"a text of more than {MAX_NEED} characters")
        # It holds the loop until the answer comes: prompt and encode are plain functions.
        self._link.send(encode_json(Kind.NEED, what))
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
        calls: list[bytes] = []
        for ticket, waiting in self._queue:
            request = waiting.request
            if isinstance(request, Call):
                calls += self._call(ticket, request)
            elif isinstance(request, LogProbs) and not self._slots:
                # The host ends a run that asks for more places than there are.
                self._no_slot.append((ticket, waiting))
            else:
                try:
                    self._record(ticket, request)
                except Exception as error:  # a request that a program made up: it fails alone
                    reason = f"the request is malformed: {type(error).__name__}: {error}"
                    self._fail(ticket, FollowerError(reason))
        self._queue.clear()
        # Calls first: a batch ends the round, and the host makes one batch of the calls before it.
        self._link.send(b"".join((*calls, self._writer.frames())))

    def _call(self, ticket: int, call: Call) -> list[bytes]:
        """The frame of a call, or none where its payload cannot be sent."""
        data = {"ticket": ticket, "name": call.name, "payload": call.payload}
        try:
            return [encode_json(Kind.CALL, data)]
        except (TypeError, ValueError) as error:
            self._fail(ticket, ValueError(f"the payload of a call is not JSON: {error}"))
            return []

    def _record(self, ticket: int, request: Request) -> None:
        slot = 0
        # A place of its own for each, since all lie in the shared memory until they are read.
        if isinstance(request, LogProbs):
            slot = self._slot_of[ticket] = self._slots.popleft()
        self._writer.add(ticket, request, slot)

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
        records, rest = read_answers(payload)
        for ticket, status, n, x, y, z in records:
            if status == _ANSWERED:
                waiting = self._waiting.pop(ticket)
                if ticket in self._slot_of:
                    waiting.give(self._vector(self._slot_of.pop(ticket)))
                else:
                    waiting.give(codec_of(waiting.request).reply(n, x, y, z))
            elif status == _FLOATS:
                if ticket in self._slot_of:  # there is no shared memory
                    self._free(self._slot_of.pop(ticket))
                codec = codec_of(self._waiting[ticket].request)
                self._give(ticket, codec.floats(np.frombuffer(payload, "<f8", n, rest)))
                rest += 8 * n
            else:
                self._fail(ticket, FollowerError(payload[rest : rest + n].decode()))
                rest += n

    def _vector(self, slot: int) -> NDArray[np.float32]:
        assert self._vectors is not None
        size = self.vocabulary.size
        shared = np.frombuffer(self._vectors, np.float32, size, 4 * size * slot)
        # The place is free from now on, and the next distribution is written to it.
        vector = shared.copy()
        self._free(slot)
        return vector

    def _free(self, slot: int) -> None:
        self._slots.append(slot)
        if self._no_slot:
            self._queue.append(self._no_slot.popleft())

    def _give(self, ticket: int, value: Any) -> None:
        self._answered = True
        self._waiting.pop(ticket).give(value)

    def _fail(self, ticket: int, error: Exception) -> None:
        self._answered = True
        if ticket in self._slot_of:
            self._free(self._slot_of.pop(ticket))
        self._waiting.pop(ticket).give(None, error)


def _error(reply: dict[str, Any]) -> Exception:
    """Why a call failed: by what the program asked, by the service, or else."""
    message = reply["error"]
    if reply.get("kind") == "service":
        return ServiceError(message, service=reply["service"])
    return ValueError(message) if reply.get("kind") == "payload" else FollowerError(message)
