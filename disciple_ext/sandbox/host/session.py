"""One run in one worker, from the host's side: answers its requests, holds it to its quotas."""

from __future__ import annotations

import asyncio
import mmap
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...errors import FollowerError, LimitExceeded, SandboxError, ServiceError
from ...protocol.follower import BaseFollower
from ...protocol.requests import Call, Request
from ...protocol.rounds import Rounds
from ...protocol.waiting import Waiting
from ...records.events import Event
from ...records.result import Particle
from ...records.task import Limits
from ..wire.batches import RequestReader, encode_answers
from ..wire.calls import read_call, read_need
from ..wire.checks import read_json
from ..wire.ends import read_error, read_outcome
from ..wire.events import EventReader
from ..wire.frames import Kind, Malformed, encode_json
from ..wire.masks import read_mask
from ..wire.requests import VECTORS, codec_of, pack_failure, pack_vector
from .ending import Exit, cause
from .pipe import Pipe

__all__ = ["Exit", "Outcome", "Session"]

_MAX_WAITING = 100_000
"""Requests that a worker may have under way."""
_MAX_ENCODED = 1_000_000
"""Characters that a run may have encoded in all: it is done on the loop that all runs share."""
_MAX_CONTEXT = 1_000_000
"""Tokens of a context where the model sets no limit."""


@dataclass(frozen=True)
class Outcome:
    """What a worker gave back; the tokens are the host's count."""

    particles: tuple[Particle, ...]
    log_evidence: float | None
    tokens: int


class Session:
    """One run in one worker.

    Attributes:
        tokens: tokens that the run has asked the follower for.
        ready_at: ``time.monotonic()`` at which the worker's locks were on, or None before.
        done: how the run ended.
    """

    def __init__(
        self,
        follower: BaseFollower,
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
        self.ready_at: float | None = None
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Outcome] = self.loop.create_future()
        # Whoever waits may be gone: an error that nobody asks for is not asyncio's to report.
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._longest = follower.max_context or _MAX_CONTEXT
        self._reader = RequestReader(follower.vocabulary, self._longest)
        self._events = EventReader()
        self._rounds = Rounds()
        self._spent = 0
        self._encoded = 0
        self._vectors = vectors
        self._emit = emit
        self._slots: set[int] = set()
        # By ticket, what is under way; None where the follower has not been asked yet.
        self._waiting: dict[int, Waiting | None] = {}
        self._held: list[tuple[int, int, Request]] = []
        self._held_calls: list[tuple[int, Call]] = []
        self._records: list[bytes] = []
        self._tail: list[bytes] = []
        self._failure: FollowerError | ServiceError | None = None
        self._pipe = Pipe(
            read_fd,
            write_fd,
            output=limits.output,
            take=self._take,
            fail=self.fail,
            over=self.done.done,
        )

    def start(self, job: dict[str, Any]) -> None:
        """Send the job; it waits in the pipe until the worker is locked."""
        self._pipe.send(encode_json(Kind.JOB, job))

    def close(self) -> None:
        """Forget the worker: nothing is read, answered or asked for any more."""
        for handle in self._waiting.values():
            if handle is not None:
                handle.drop()
        self._waiting.clear()
        self._held.clear()
        self._held_calls.clear()
        self._pipe.close()
        if self._vectors is not None:
            self._vectors.close()

    def exited(self, end: Exit) -> None:
        """The worker's process is gone; whatever it wrote before is still read."""
        if not self.done.done():
            self._pipe.read()
        if not self.done.done():
            self.fail(cause(end, self.limits))

    def fail(self, error: BaseException) -> None:
        """End the run with an error."""
        if not self.done.done():
            self.done.set_exception(error)

    def _take(self, kind: int, payload: bytes) -> None:
        if self.ready_at is None:
            if kind == Kind.READY:
                self.ready_at = time.monotonic()
            elif kind == Kind.FAILED:  # not one untrusted byte has been read yet
                message = read_json(payload)["message"]
                raise SandboxError(f"the worker could not lock itself: {message}")
            else:
                raise Malformed("a message before the first one")
            return
        match kind:
            case Kind.ASK:
                self._asked(payload)
            case Kind.MASK:
                self._reader.name_mask(*read_mask(payload, self.follower.vocabulary.size))
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
            # The pipe reads nothing more after it: only the first end counts.
            case Kind.DONE:
                particles, log_evidence = read_outcome(payload)
                self.done.set_result(Outcome(particles, log_evidence, self.tokens))
            case Kind.FAILED:
                self.fail(read_error(payload, self._failure, self.limits.timeout))
            case _:
                raise Malformed(f"a message of the unknown kind {kind}")

    # Requests ---------------------------------------------------------------------------------

    def _asked(self, payload: bytes) -> None:
        self._admit(payload)
        at_once = self.follower.answers_at_once
        # The follower does the same for all runs together; but what it has taken it answers in
        # its next forward pass, and here the rest can wait for what this worker asks next.
        chosen, self._held = self._rounds.next(self._held, lambda item: at_once(item[2]))
        for ticket, slot, request in chosen:
            self._submit(ticket, slot, request)
        # A batch ends each round of the worker's: the calls before it wait together.
        calls, self._held_calls = self._held_calls, []
        for ticket, call in calls:
            self._waiting[ticket] = self.follower.submit(call, partial(self._result, ticket))

    def _admit(self, payload: bytes) -> None:
        """Hold a batch's requests to their quotas, and keep them for the next round."""
        records = self._reader.records(payload)
        # Before requests are made of them: a batch beyond the quota costs no more than its bytes.
        self._spend(len(records))
        for ticket, slot, request in self._reader.requests(records):
            if ticket in self._waiting:
                raise Malformed("a ticket is used twice")
            self._waiting[ticket] = None
            if slot >= 0:
                if slot >= VECTORS or slot in self._slots:
                    raise Malformed("a distribution without a free place for it")
                self._slots.add(slot)
            more = request.quota - 1
            if more:
                self._spend(more)
            self.tokens += request.tokens_asked
            self._held.append((ticket, slot, request))
        if len(self._waiting) > _MAX_WAITING:
            raise Malformed("too many requests wait")

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
        deliver = partial(self._deliver, ticket, slot, request)
        # Requests are looked at one by one only once there is such a context.
        if self._reader.overlong and (problem := self._too_long(request)):
            deliver(None, problem)
            return
        handle = self.follower.submit(request, deliver)
        if ticket in self._waiting:  # a follower of others' may have answered on the spot
            self._waiting[ticket] = handle

    def _too_long(self, request: Request) -> FollowerError | None:
        """Refuse what is longer than the model takes; not every follower looks by itself."""
        length = max(context.length for context in request.contexts)
        if length <= self._longest:
            return None
        return FollowerError(f"the context has {length} tokens; the model takes {self._longest}")

    # Answers ----------------------------------------------------------------------------------

    def _deliver(
        self, ticket: int, slot: int, request: Request, reply: Any, error: BaseException | None
    ) -> None:
        # The run is over, and the memory for distributions may be unmapped.
        if ticket not in self._waiting:
            return
        del self._waiting[ticket]
        if slot >= 0:
            self._slots.discard(slot)
        if not self._records:
            # All answers of this pass in one frame: what costs most is waking the worker.
            self.loop.call_soon(self._flush)
        if error is not None:
            own = isinstance(error, FollowerError)
            self._failure = error if own else FollowerError(str(error))  # type: ignore[assignment]
            record, tail = pack_failure(ticket, str(error))
        elif slot >= 0 and self._vectors is not None and isinstance(reply, np.ndarray):
            begin = slot * reply.nbytes
            self._vectors[begin : begin + reply.nbytes] = reply.tobytes()
            record, tail = pack_vector(ticket), b""
        else:
            record, tail = codec_of(request).answer(ticket, reply)
        self._records.append(record)
        if tail:
            self._tail.append(tail)

    def _flush(self) -> None:
        frame = encode_answers(self._records, self._tail)
        self._records, self._tail = [], []
        self._pipe.send(frame)

    # Words and services -------------------------------------------------------------------------

    def _needed(self, payload: bytes) -> None:
        need = read_need(payload)
        # Counted before the work is done, which is on the loop that all runs share.
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
        self._pipe.send(encode_json(Kind.REPLY, reply))

    def _called(self, payload: bytes) -> None:
        ticket, name, data = read_call(payload)
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
            frame = encode_json(Kind.RESULT, {"ticket": ticket, "value": value})
        except Exception as failed:
            data = {"ticket": ticket, "error": f"{failed}"[:1000]}
            if isinstance(failed, ValueError):
                data["kind"] = "payload"
            elif isinstance(failed, ServiceError):
                self._failure = failed
                data |= {"kind": "service", "service": failed.service}
            frame = encode_json(Kind.RESULT, data)
        self._pipe.send(frame)
