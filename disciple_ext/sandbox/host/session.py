"""The host's end of one worker's pipe: answers its requests, holds it to its quotas."""

from __future__ import annotations

import asyncio
import math
import mmap
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...errors import (
    DiscipleError,
    FollowerError,
    LimitExceeded,
    ProgramCrashed,
    SandboxError,
    ServiceError,
)
from ...protocol.prefix import Prefix
from ...protocol.requests import (
    Branch,
    Branched,
    Call,
    Draw,
    Drawn,
    Follower,
    LogProbs,
    Mass,
    NextBytes,
    Request,
    Score,
)
from ...protocol.vocabulary import TokenMask
from ...records.events import Event
from ...records.result import Particle
from ...records.task import Limits
from ..wire import messages
from ..wire.events import EventReader
from ..wire.masks import read_mask
from ..wire.messages import VECTORS, Kind, Malformed
from .ending import Exit, cause

__all__ = ["Exit", "Outcome", "Session"]

_MAX_WAITING = 100_000
"""Requests that a worker may have under way."""
_MAX_PREFIXES = 1_000_000
_MAX_MASKS = 2**17
_MAX_MASK_BYTES = 2**28
"""Of the masks that a worker may name at one time; it gives old ones' numbers to others."""
_MAX_ENCODED = 1_000_000
"""Characters that a run may have encoded in all: it is done on the loop that all runs share."""
_MAX_UNSENT = 2**25
"""Bytes of answers that a worker may leave unread; ours reads them all."""
_MAX_CONTEXT = 1_000_000
"""Tokens of a context where the model sets no limit."""
_EASY_ROUNDS = 16
"""Rounds without a forward pass in a row, as in the follower itself."""


@dataclass(frozen=True)
class Outcome:
    """What a worker gave back; the tokens are the host's count."""

    particles: tuple[Particle, ...]
    log_evidence: float | None
    tokens: int


class Session:
    """One run in one worker."""

    def __init__(
        self,
        follower: Follower,
        limits: Limits,
        read_fd: int,
        write_fd: int,
        vectors: mmap.mmap | None,
        emit: Callable[[Event], None] | None,
    ) -> None:
        """Watch a worker's pipe.

        Args:
            follower: what answers.
            limits: quotas of the run.
            read_fd: what the worker writes.
            write_fd: what the worker reads.
            vectors: memory shared with the worker for whole distributions, or None.
            emit: called with each event of the worker's, checked.
        """
        self.follower = follower
        self.limits = limits
        self.tokens = 0
        self._spent = 0
        self._slots: set[int] = set()
        self._overlong = False
        self._encoded = 0
        self.loop = asyncio.get_running_loop()
        self.ready_at: float | None = None  # time.monotonic() at which the locks were on
        self.done: asyncio.Future[Outcome] = self.loop.create_future()
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._read_fd, self._write_fd = read_fd, write_fd
        self._vectors = vectors
        self._emit = emit
        self._frames = messages.Frames(messages.LONGEST)
        self._events = EventReader()
        self._received = 0
        self._unsent = bytearray()
        self._prefixes = [Prefix.ROOT]
        self._masks: dict[int, TokenMask | None] = {0: None}
        self._mask_bytes = 0
        self._waiting: dict[int, Any] = {}
        self._held: list[tuple[int, int, Request]] = []
        self._easy_rounds = 0
        self._records: list[bytes] = []
        self._tail: list[bytes] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._held_calls: list[tuple[int, Call]] = []
        self._failure: FollowerError | ServiceError | None = None
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        self.loop.add_reader(read_fd, self._readable)

    def start(self, job: dict[str, Any]) -> None:
        """Send the job; it waits in the pipe until the worker is locked."""
        self._send(messages.encode_json(Kind.JOB, job))

    def close(self) -> None:
        """Forget the worker: nothing is read, answered or asked for any more."""
        for handle in self._waiting.values():
            if handle is not None:
                handle.drop()
        for task in self._calls:
            task.cancel()
        self._waiting.clear()
        self._held.clear()
        self._held_calls.clear()
        self.loop.remove_reader(self._read_fd)
        self.loop.remove_writer(self._write_fd)
        os.close(self._read_fd)
        os.close(self._write_fd)
        if self._vectors is not None:
            self._vectors.close()

    def exited(self, end: Exit) -> None:
        """The worker's process is gone; whatever it wrote before is still read."""
        if not self.done.done():
            self._readable()
        if not self.done.done():
            self.fail(cause(end, self.limits))

    def fail(self, error: BaseException) -> None:
        """End the run with an error."""
        if not self.done.done():
            self.done.set_exception(error)

    # Reading ----------------------------------------------------------------------------------

    def _readable(self) -> None:
        while not self.done.done():
            try:
                data = os.read(self._read_fd, 2**18)
            except BlockingIOError:
                return
            if not data:  # how it ended is for the zygote to say
                self.loop.remove_reader(self._read_fd)
                return
            self._received += len(data)
            try:
                if self._received > self.limits.output * 2**20:
                    raise LimitExceeded(
                        f"the program sent more than {self.limits.output} MiB to the host",
                        kind="output",
                        value=self._received / 2**20,
                        limit=self.limits.output,
                    )
                for kind, payload in self._frames.feed(data):
                    self._take(kind, payload)
            except Malformed as error:
                self.fail(ProgramCrashed(f"the program broke the worker's protocol: {error}"))
            except DiscipleError as error:
                self.fail(error)
            except Exception as error:
                self.fail(ProgramCrashed(f"the worker's message cannot be read: {error}"))
            if len(data) < 2**18:
                return

    def _take(self, kind: int, payload: bytes) -> None:
        if self.ready_at is None:
            if kind == Kind.READY:
                self.ready_at = time.monotonic()
            elif kind == Kind.FAILED:  # not one untrusted byte has been read yet
                message = messages.read_json(payload)["message"]
                raise SandboxError(f"the worker could not lock itself: {message}")
            else:
                raise Malformed("a message before the first one")
            return
        match kind:
            case Kind.ASK:
                self._asked(payload)
            case Kind.MASK:
                self._named(*read_mask(payload, self.follower.vocabulary.size))
            case Kind.NEED:
                self._needed(payload)
            case Kind.CALL:
                self._called(payload)
            case Kind.EVENT:
                event = self._events.read(payload, self.tokens)
                if self._emit is not None:
                    try:
                        self._emit(event)
                    except Exception as error:  # the observer's fault, not the program's
                        self.fail(error)
            case Kind.DONE:
                particles, log_evidence = messages.read_outcome(payload)
                self.done.set_result(Outcome(particles, log_evidence, self.tokens))
            case Kind.FAILED:
                self.fail(messages.read_error(payload, self._failure, self.limits.timeout))
            case _:
                raise Malformed(f"a message of the unknown kind {kind}")

    # Requests ---------------------------------------------------------------------------------

    def _asked(self, payload: bytes) -> None:
        if len(payload) < messages.COUNTS.size:
            raise Malformed("a batch without a head")
        nodes, requests = messages.COUNTS.unpack_from(payload)
        at = messages.COUNTS.size
        self._new_prefixes(messages.read_records(messages.NODE, payload, at, nodes))
        at += nodes * messages.NODE.size
        if at + requests * messages.ASK.size != len(payload):
            raise Malformed("a batch is longer than it says")
        records = messages.read_records(messages.ASK, payload, at, requests)
        asked = self._requests(records)
        # As the follower does for particles of its own process: what needs no forward pass goes
        # first, and the rest waits for what its answers lead to, so that one forward serves all.
        self._held += asked
        at_once = getattr(self.follower, "answers_at_once", None)
        easy: list[tuple[int, int, Request]] = []
        hard: list[tuple[int, int, Request]] = []
        for item in self._held:
            (easy if at_once is not None and at_once(item[2]) else hard).append(item)
        if easy and self._easy_rounds < _EASY_ROUNDS:
            self._easy_rounds += 1
            chosen, self._held = easy, hard
        else:
            self._easy_rounds = 0
            chosen, self._held = self._held, []
        for ticket, slot, request in chosen:
            self._submit(ticket, slot, request)
        # A batch ends each round of the worker's: the calls before it wait together.
        calls, self._held_calls = self._held_calls, []
        for ticket, call in calls:
            self._run(self._ask(call, partial(self._result, ticket)))

    def _new_prefixes(self, records: Any) -> None:
        prefixes, size = self._prefixes, self.follower.vocabulary.size
        longest = self.follower.max_context or _MAX_CONTEXT
        for parent, token in records:
            if parent >= len(prefixes) or token >= size:
                raise Malformed("a context that is out of range")
            if len(prefixes) > _MAX_PREFIXES:
                raise Malformed(f"more than {_MAX_PREFIXES} contexts")
            node = prefixes[parent].then(token)
            self._overlong |= node.length > longest
            prefixes.append(node)

    def _named(self, number: int, mask: TokenMask) -> None:
        old = self._masks.get(number)
        self._mask_bytes += mask.nbytes - (0 if old is None else old.nbytes)
        if not 0 < number <= _MAX_MASKS or self._mask_bytes > _MAX_MASK_BYTES:
            raise Malformed(f"a mask numbered {number}, after {len(self._masks) - 1} others")
        self._masks[number] = mask

    def _requests(self, records: Any) -> list[tuple[int, int, Request]]:
        prefixes, masks, waiting = self._prefixes, self._masks, self._waiting
        contexts = len(prefixes)
        self._spend(len(records))
        asked: list[tuple[int, int, Request]] = []
        for kind, slot, ticket, a, b, m, given, pending, u, temperature in records:
            named = {pending} if kind == 6 else {m, given, pending}
            if max(a, b) >= contexts or not named <= masks.keys():
                raise Malformed("a request names a context or a mask that was never sent")
            if not (0.0 <= u < 1.0 and 0.0 < temperature < math.inf):
                raise Malformed("a request with a uniform or a temperature that is out of range")
            if ticket in waiting:
                raise Malformed("a ticket is used twice")
            waiting[ticket] = None
            request: Request
            prior = prefixes[b] if b else None
            if kind == 1:
                self.tokens += 1
                request = Draw(prefixes[a], prior, masks[m], u, temperature)
            elif kind == 4:
                request = self._score(prefixes[a], prefixes[b], temperature)
            elif kind == 6:
                begun = self._beginning(m, given)
                request = NextBytes(prefixes[a], begun, masks[pending], temperature)
            elif kind == 5:
                if slot >= VECTORS or slot in self._slots:
                    raise Malformed("a distribution without a free place for it")
                self._slots.add(slot)
                request = LogProbs(prefixes[a], temperature)
            else:
                mask = masks[m]
                if mask is None or kind not in (2, 3):
                    raise Malformed("an unknown request, or one without its mask")
                if kind == 3:
                    request = Mass(prefixes[a], mask, temperature)
                else:
                    request = Branch(
                        prefixes[a], prior, mask, masks[given], masks[pending], u, temperature
                    )
            asked.append((ticket, slot if kind == 5 else -1, request))
        if len(waiting) > _MAX_WAITING:
            raise Malformed("too many requests wait")
        return asked

    def _score(self, context: Prefix, end: Prefix, temperature: float) -> Score:
        try:
            tokens = end.after(context)
        except ValueError:
            raise Malformed("a score of tokens that do not follow its context") from None
        if not tokens:
            raise Malformed("a score of no tokens")
        self._spend(len(tokens))
        self.tokens += len(tokens)
        return Score(context, tokens, temperature)

    def _beginning(self, token: int, length: int) -> bytes:
        """The first bytes of a token."""
        tokens = self.follower.vocabulary.tokens
        if token >= len(tokens) or length > len(tokens[token]):
            raise Malformed("the beginning of a token that there is not")
        self.tokens += not length  # nothing has begun: the model is asked for a distribution
        return tokens[token][:length]

    def _spend(self, amount: int) -> None:
        """Hold the run to its quota: each request counts as one, and each token of a score."""
        self._spent += amount
        if self._spent > self.limits.lm_tokens:
            raise LimitExceeded(
                f"the program asked the follower for more than {self.limits.lm_tokens} tokens",
                kind="tokens",
                value=self._spent,
                limit=self.limits.lm_tokens,
            )

    def _submit(self, ticket: int, slot: int, request: Request) -> None:
        deliver = partial(self._deliver, ticket, slot)
        if self._overlong and (problem := self._too_long(request)):
            deliver(None, problem)
            return
        submit = getattr(self.follower, "submit", None)
        if submit is not None:
            handle = submit(request, deliver)
            if ticket in self._waiting:  # it may have been answered on the spot
                self._waiting[ticket] = handle
        else:
            self._run(self._ask(request, deliver))

    def _too_long(self, request: Any) -> FollowerError | None:
        """Refuse what is longer than the model takes; not every follower looks by itself."""
        longest = self.follower.max_context or _MAX_CONTEXT
        names = ("proposal", "prior", "context")
        contexts = [c for name in names if (c := getattr(request, name, None)) is not None]
        length = max(map(len, contexts)) + len(getattr(request, "tokens", ()))
        if length <= longest:
            return None
        return FollowerError(f"the context has {length} tokens; the model takes {longest}")

    async def _ask(self, request: Request, deliver: Callable[..., None]) -> None:
        try:
            reply = await self.follower.ask(request)
        except Exception as error:
            deliver(None, error)
        else:
            deliver(reply, None)

    def _run(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    def _deliver(self, ticket: int, slot: int, reply: Any, error: BaseException | None) -> None:
        if ticket not in self._waiting:
            return
        del self._waiting[ticket]
        if slot >= 0:
            self._slots.discard(slot)
        if not self._records:
            self.loop.call_soon(self._flush)
        pack = messages.ANSWER.pack
        if error is not None:
            own = isinstance(error, FollowerError)
            self._failure = error if own else FollowerError(str(error))  # type: ignore[assignment]
            message = str(error)[:1000].encode(errors="backslashreplace")
            self._records.append(pack(ticket, 2, len(message), 0.0, 0.0, 0.0))
            self._tail.append(message)
            return
        match reply:
            case Drawn(token, log_q, log_mass, log_p):
                record = pack(ticket, 0, token, log_q, log_mass, log_p)
            case Branched(value, log_q, log_p):
                record = pack(ticket, 0, value, log_q, log_p, 0.0)
            case float():
                record = pack(ticket, 0, 0, reply, 0.0, 0.0)
            case np.ndarray() if slot >= 0 and self._vectors is not None:
                begin = slot * reply.nbytes
                self._vectors[begin : begin + reply.nbytes] = reply.tobytes()
                record = pack(ticket, 0, 0, 0.0, 0.0, 0.0)
            case _:
                record = pack(ticket, 1, len(reply), 0.0, 0.0, 0.0)
                self._tail.append(struct.pack(f"<{len(reply)}d", *reply))
        self._records.append(record)

    def _flush(self) -> None:
        payload = b"".join((_COUNT.pack(len(self._records)), *self._records, *self._tail))
        self._records, self._tail = [], []
        self._send(messages.encode(Kind.ANSWER, payload))

    # Words and services -------------------------------------------------------------------------

    def _needed(self, payload: bytes) -> None:
        need = messages.read_need(payload)
        self._encoded += sum(map(len, need.values()))
        if self._encoded > _MAX_ENCODED:
            raise Malformed(f"more than {_MAX_ENCODED} characters to encode")
        try:
            if "encode" in need:
                ids = self.follower.vocabulary.encode(need["encode"])
            else:
                ids = self.follower.prompt(need["prompt"], need["hint"])
            reply: dict[str, Any] = {"ids": [int(i) for i in ids]}
        except Exception as error:
            reply = {"error": str(error)}
        self._send(messages.encode_json(Kind.REPLY, reply))

    def _called(self, payload: bytes) -> None:
        ticket, name, data = messages.read_call(payload)
        if ticket in self._waiting or len(self._waiting) >= _MAX_WAITING:
            raise Malformed("a ticket is used twice, or too many requests wait")
        self._waiting[ticket] = None
        self._spend(1)
        self._held_calls.append((ticket, Call(name, data)))

    def _result(self, ticket: int, value: Any, error: BaseException | None) -> None:
        self._waiting.pop(ticket, None)
        try:
            if error is not None:
                raise error
            frame = messages.encode_json(Kind.RESULT, {"ticket": ticket, "value": value})
        except Exception as failed:
            data = {"ticket": ticket, "error": f"{failed}"[:1000]}
            if isinstance(failed, ValueError):
                data["kind"] = "payload"
            elif isinstance(failed, ServiceError):
                self._failure = failed
                data |= {"kind": "service", "service": failed.service}
            frame = messages.encode_json(Kind.RESULT, data)
        self._send(frame)

    def _send(self, frame: bytes) -> None:
        if self.done.done():
            return
        if not self._unsent:
            try:
                frame = frame[os.write(self._write_fd, frame) :]
            except BlockingIOError:
                pass
            except BrokenPipeError:  # it has gone; the zygote will say how
                return
        if frame:
            if not self._unsent:
                self.loop.add_writer(self._write_fd, self._writable)
            self._unsent += frame
            if len(self._unsent) > _MAX_UNSENT:
                self.fail(ProgramCrashed("the program leaves its answers unread"))

    def _writable(self) -> None:
        try:
            del self._unsent[: os.write(self._write_fd, self._unsent)]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent.clear()
        if not self._unsent:
            self.loop.remove_writer(self._write_fd)


_COUNT = struct.Struct("<I")
