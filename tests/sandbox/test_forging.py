"""Forged messages: what a program that took over its worker may write to the host.

The sessions here are the host's own, over pipes whose other end is the test's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import random
import struct
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from attacks.hostile import HOSTILE

from disciple_ext import Limits, Result, Task, run_program
from disciple_ext.errors import (
    DiscipleError,
    FollowerError,
    LimitExceeded,
    NoParticleAlive,
    ProgramCrashed,
    ProgramRejected,
    SandboxError,
)
from disciple_ext.records.events import Event, ProgramPrinted, RunFinished, RunStarted
from disciple_ext.sandbox.host import pipe, session
from disciple_ext.sandbox.host.session import Exit, Outcome, Session
from disciple_ext.sandbox.wire import batches
from disciple_ext.sandbox.wire.batches import COUNTS, NODE
from disciple_ext.sandbox.wire.frames import HEADER, LONGEST, Frames, Kind, encode, encode_json
from disciple_ext.sandbox.wire.masks import MASK as MASK_HEAD
from disciple_ext.sandbox.wire.requests import ANSWER, ASK
from disciple_ext.testing import ToyFollower

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")

LONGEST_CONTEXT = 50
LIMITS = Limits(lm_tokens=100, output=1)


def toy() -> ToyFollower:
    follower = ToyFollower.random(2, ["a", "b", "c"])
    follower.backend.max_context = LONGEST_CONTEXT
    return follower


SIZE = toy().vocabulary.size
MASK = bytes([0b11100000])
assert (SIZE + 7) // 8 == len(MASK)


# Frames -----------------------------------------------------------------------------------------


def ask(nodes: Any = (), masks: Any = (), requests: Any = (), counts: Any = None) -> bytes:
    head = COUNTS.pack(*(counts or (len(nodes), len(requests))))
    body = [*(NODE.pack(*node) for node in nodes), *requests]
    named = [mask(number, data) for number, data in enumerate(masks, 1)]
    return b"".join([*named, encode(Kind.ASK, b"".join([head, *body]))])


def mask(number: int, data: bytes, form: int = 0) -> bytes:
    return encode(Kind.MASK, MASK_HEAD.pack(number, form) + data)


def request(
    operation: int = 1,
    *,
    role: int = 0,
    slot: int = 0,
    ticket: int = 1,
    a: int = 0,
    b: int = 0,
    masks: tuple[int, int, int] = (0, 0, 0),
    u: float = 0.5,
    temperature: float = 1.0,
) -> bytes:
    return ASK.pack(operation, role, slot, ticket, a, b, *masks, u, temperature)


def said(kind: Kind, data: Any) -> bytes:
    return encode_json(kind, data)


def particle(**fields: Any) -> dict[str, Any]:
    sound = {"text": "a", "log_weight": -1.0, "weight": 0.0, "check": None, "reason": "",
             "finish_reason": "ended", "tokens": 1, "log_prob": None}  # fmt: skip
    return {k: v for k, v in {**sound, **fields}.items() if v != "(missing)"}


def done(*particles: Any, **fields: Any) -> bytes:
    return said(Kind.DONE, {"particles": list(particles), "log_evidence": None, **fields})


def failed(**fields: Any) -> bytes:
    sound = {"type": "ProgramCrashed", "message": "m", "line": 1, "particle": 0, "step": 1,
             "traceback": "", "text": None}  # fmt: skip
    return said(Kind.FAILED, {**sound, **fields})


def step_done(**fields: Any) -> bytes:
    sound = {"event": "StepDone", "step": 1, "alive": 1, "finished": 0, "ess": 1.0,
             "best_text": "a", "tokens": 1, "particles": []}  # fmt: skip
    return said(Kind.EVENT, {**sound, **fields})


STATE = {"origin": None, "kept": 0, "added": "a", "log_weight": -1.5, "log_prior": -2.0,
         "log_proposal": -0.5, "changes": [0, -1.0], "hint": 0, "finished": False,
         "line": 3}  # fmt: skip
"""A particle's state as a worker sends it: the values, as a list, in this order."""


def row_of(**fields: Any) -> list[Any]:
    return list({**STATE, **fields}.values())


def state_of(**fields: Any) -> bytes:
    """A step of one particle, whose state has other values in some fields."""
    row = row_of(**fields)
    return step_done(particles=[row], hints=[""], sources=[["draw", 7, "", ""]])


READY = encode(Kind.READY)
DRAW = ask(requests=[request()])
PREFIXES = [(0, 0), (1, 1), (2, 2)]


# Sessions ---------------------------------------------------------------------------------------


class Wire:
    """A session, and the worker's ends of its pipes."""

    def __init__(self, follower: ToyFollower, limits: Limits = LIMITS) -> None:
        theirs, self.out = os.pipe()
        self.into, ours = os.pipe()
        self.events: list[Event] = []
        self.session = Session(follower, limits, theirs, ours, None, self.events.append)
        self._frames = Frames()
        os.set_blocking(self.into, False)

    async def send(self, data: bytes) -> None:
        """Write as a worker does: until it is all read, or nobody reads any more."""
        os.set_blocking(self.out, False)
        while data and not self.session.done.done():
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(self.out, data) :]
            await asyncio.sleep(0)

    async def answer(self) -> tuple[int, bytes]:
        """The next frame from the host."""
        for _ in range(1000):
            with contextlib.suppress(BlockingIOError):
                for frame in self._frames.feed(os.read(self.into, 2**18)):
                    return frame
            await asyncio.sleep(0.002)
        raise TimeoutError("no answer from the host")

    async def outcome(self) -> Outcome:
        """How the run ended; without an end of its own, the worker dies."""
        for _ in range(20):
            if self.session.done.done():
                break
            await asyncio.sleep(0.001)
        self.session.exited(Exit(0, "", 0.0))
        return await asyncio.wait_for(self.session.done, 5)

    def close(self) -> None:
        self.session.close()
        os.close(self.out)
        os.close(self.into)


@contextlib.asynccontextmanager
async def wire(follower: ToyFollower, limits: Limits = LIMITS) -> AsyncIterator[Wire]:
    """A session that is there and gone; nothing may be raised into the loop meanwhile."""
    stray: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: stray.append(context))
    made = Wire(follower, limits)
    try:
        yield made
        await asyncio.sleep(0)
    finally:
        made.close()
        loop.set_exception_handler(before)
    assert not stray, stray


PROTOCOL = "broke the worker's protocol"

FORGED: dict[str, bytes | tuple[bytes, type[DiscipleError], str]] = {
    # Framing
    "an unknown kind": encode(99, b""),  # type: ignore[arg-type]
    "a kind of the host's": encode(Kind.ANSWER, bytes(4)),
    "ready twice": READY,
    "a length over the limit": HEADER.pack(LONGEST[Kind.ASK] + 1, Kind.ASK),
    "the largest length": b"\xff" * 5,
    "half a frame, then the end": (DRAW[:20], ProgramCrashed, "ended its own process"),
    "nothing, then the end": (b"", ProgramCrashed, "ended its own process"),
    "garbage": b"\x00\xff garbage\n" * 100,
    # Batches
    "a batch without a head": encode(Kind.ASK, b"123"),
    "more prefixes than there are": ask(counts=(1, 0)),
    "more requests than there are": ask(counts=(0, 1)),
    "counts without end": ask(counts=(2**32 - 1, 2**32 - 1)),
    "more bytes than it says": ask(nodes=PREFIXES, counts=(0, 0)),
    "a mask that is too short": mask(1, b""),
    "a mask that is too long": mask(1, MASK + b"x"),
    "a mask without a head": encode(Kind.MASK, b"1"),
    "a mask with the number of none": mask(0, MASK),
    "a mask with a number out of range": mask(2**17 + 1, MASK),
    "a mask of an unknown form": mask(1, MASK, form=2),
    "half an id": mask(1, bytes(5), form=1),
    "ids out of order": mask(1, struct.pack("<2I", 2, 1), form=1),
    "an id twice": mask(1, struct.pack("<2I", 1, 1), form=1),
    "an id beyond the vocabulary": mask(1, struct.pack("<I", SIZE), form=1),
    "an id below zero": mask(1, b"\xff" * 4, form=1),
    "a parent that is not there": ask(nodes=[(7, 0)]),
    "a parent that comes later": ask(nodes=[(2, 0), (0, 0)]),
    "a token beyond the vocabulary": ask(nodes=[(0, SIZE)]),
    "a token below zero": ask(nodes=[(0, 2**32 - 1)]),
    # Requests
    "a prefix that is not there": ask(requests=[request(a=1)]),
    "a prior that is not there": ask(requests=[request(b=2**32 - 1)]),
    "a mask that is not there": ask(requests=[request(masks=(1, 0, 0))]),
    "a pending mask that is not there": ask(masks=[MASK], requests=[request(2, masks=(1, 1, 2))]),
    "a ticket used twice": ask(requests=[request(), request()]),
    "a ticket used again": DRAW + DRAW,
    "a ticket of a call's": said(Kind.CALL, {"ticket": 1, "name": "x", "payload": 0}) + DRAW,
    "u is NaN": ask(requests=[request(u=math.nan)]),
    "u is infinite": ask(requests=[request(u=math.inf)]),
    "u is negative": ask(requests=[request(u=-0.1)]),
    "u is one": ask(requests=[request(u=1.0)]),
    "temperature is NaN": ask(requests=[request(temperature=math.nan)]),
    "temperature is infinite": ask(requests=[request(temperature=math.inf)]),
    "temperature is zero": ask(requests=[request(temperature=0.0)]),
    "temperature is negative": ask(requests=[request(temperature=-1.0)]),
    "role 4": ask(requests=[request(role=4)]),
    "role 255": ask(PREFIXES, (), [request(4, role=255, a=1, b=2)]),
    "a draw scored as a proposal": ask(requests=[request(role=1)]),
    "a branch scored as shared": ask(masks=[MASK], requests=[request(2, role=2, masks=(1, 0, 0))]),
    "operation 0": ask(requests=[request(0)]),
    "operation 255": ask(requests=[request(255)]),
    "a share above one": done(particle(lost_mass=1.5)),
    "a share that is no number": done(particle(lost_mass="none")),
    "a branch without a mask": ask(requests=[request(2)]),
    "a beginning of no token": ask(requests=[request(6, masks=(SIZE, 0, 0))]),
    "a beginning longer than its token": ask(requests=[request(6, masks=(0, 2, 0))]),
    "a beginning of a special token": ask(requests=[request(6, masks=(SIZE - 1, 1, 0))]),
    "a mask of bytes that is not there": ask(requests=[request(6, masks=(0, 1, 1))]),
    "a mass without a mask": ask(requests=[request(3)]),
    "a score of what does not follow": ask([(0, 0), (0, 1)], (), [request(4, a=1, b=2)]),
    "a score of what comes before": ask(PREFIXES, (), [request(4, a=3, b=1)]),
    "a score of nothing": ask(PREFIXES, (), [request(4, a=1, b=1)]),
    "too many draws": (
        ask(requests=[request(ticket=i) for i in range(101)]), LimitExceeded, "100 tokens"),
    "too many scores": (
        ask([(i, 0) for i in range(40)], (), [request(4, ticket=i, b=40) for i in range(3)]),
        LimitExceeded, "100 tokens"),
    "too much output": (
        b"".join(said(Kind.EVENT, {"event": "ProgramPrinted", "text": "x" * 60_000})
                 for _ in range(20)), LimitExceeded, "1 MiB"),
    # Words and services
    "a need that is no JSON": encode(Kind.NEED, b"{"),
    "a need that is no text": encode(Kind.NEED, b"\xff\xfe\x00"),
    "an unknown need": said(Kind.NEED, {"file": "/etc/passwd"}),
    "a need of a number": said(Kind.NEED, {"encode": 7}),
    "a need and more": said(Kind.NEED, {"encode": "a", "prompt": "b", "hint": "c"}),
    "a prompt without a hint": said(Kind.NEED, {"prompt": "b"}),
    "a call without a ticket": said(Kind.CALL, {"name": "x"}),
    "a call with a ticket below zero": said(Kind.CALL, {"ticket": -1, "name": "x"}),
    "a call with a ticket that is true": said(Kind.CALL, {"ticket": True, "name": "x"}),
    "a call with a name of a list": said(Kind.CALL, {"ticket": 1, "name": ["x"]}),
    "a call with a long name": said(Kind.CALL, {"ticket": 1, "name": "x" * 201}),
    # JSON
    "a list": said(Kind.DONE, []),
    "a number": said(Kind.DONE, 7),
    "null": said(Kind.FAILED, None),
    "deep nesting": encode(Kind.DONE, b"[" * 100_000),
    "deep objects": encode(Kind.DONE, b'{"a":' * 100_000),
    "an integer of 400 digits": encode(Kind.DONE, b'{"log_evidence": ' + b"9" * 400 + b"}"),
    "an integer of 50000 digits": encode(Kind.EVENT, b'{"step": -' + b"9" * 50_000 + b"}"),
    "an integer of 20 digits": done(particle(tokens=10**19)),
    # Results
    "no particles' list": said(Kind.DONE, {"log_evidence": None}),
    "particles that are none": said(Kind.DONE, {"particles": [1]}),
    "a weight of NaN": done(particle(log_weight=math.nan)),
    "a weight of infinity": done(particle(log_weight=math.inf)),
    "a weight of 1e999": encode(Kind.DONE, done(particle(log_weight=1)).replace(
        b'"log_weight":1', b'"log_weight":1e999')[HEADER.size :]),
    "a weight of text": done(particle(log_weight="heavy")),
    "a weight that is true": done(particle(log_weight=True)),
    "no weight": done(particle(log_weight="(missing)")),
    "a text of bytes": done(particle(text=[97])),
    "no text": done(particle(text="(missing)")),
    "an unknown finish reason": done(particle(finish_reason="verified")),
    "a finish reason that is a list": done(particle(finish_reason=["ended"])),
    "a finish reason that is an object": done(particle(finish_reason={"ended": 1})),
    "a verdict of one": done(particle(check=1)),
    "a verdict of an object": done(particle(check={"verified": True})),
    "tokens below zero": done(particle(tokens=-1)),
    "tokens as a float": done(particle(tokens=1.0)),
    "a probability of NaN": done(particle(log_prob=math.nan)),
    "evidence of NaN": done(particle(), log_evidence=math.nan),
    "evidence of text": done(particle(), log_evidence="much"),
    "a long text": (done(particle(text="x" * (2**20 + 1))), LimitExceeded, "1 MiB"),
    # Errors
    "an error without a message": said(Kind.FAILED, {"type": "ProgramCrashed"}),
    "an error with a message of a list": failed(message=["m"]),
    "an error with a line of text": failed(line="seven"),
    "an error with a line below zero": failed(line=-1),
    "an error without a traceback": failed(traceback=None),
    "an error with a particle of a float": failed(particle=0.5),
    "an error that is a host's": (failed(type="SandboxError"), ProgramCrashed, "m"),
    "an error that is nobody's": (failed(type={"a": 1}), ProgramCrashed, "m"),
    "an error of a follower that did not fail": (failed(type="FollowerError"), ProgramCrashed, "m"),
    "an error of a rejection": (failed(type="ProgramRejected"), ProgramRejected, "m"),
    # Events
    "an event of the host's: start": said(
        Kind.EVENT, {"event": "RunStarted", "n": 1, "sampler": "x", "timeout": 1.0}),
    "an event of the host's: failure": said(
        Kind.EVENT, {"event": "AttemptFailed", "attempt": 1, "error": "e", "kind": "k"}),
    "an event of the host's: finish": said(
        Kind.EVENT, {"event": "RunFinished", "log_evidence": 0, "ess": 1, "tokens": 0, "seconds": 0}
    ),
    "an event without a name": said(Kind.EVENT, {}),
    "an event with a name of a list": said(Kind.EVENT, {"event": ["StepDone"]}),
    "an event with a step of text": step_done(step="one"),
    "an event with a step below zero": step_done(step=-1),
    "an event with NaN": step_done(ess=math.nan),
    "an event of odd particles": step_done(particles=[[]]),
    "a state that is an object": step_done(particles=[{"text": "a"}]),
    "a state with an origin of text": state_of(origin="here"),
    "a state with an origin below zero": state_of(origin=[-1, 0]),
    "a state that keeps a text that is not there": state_of(kept=1),
    "a state that adds a number": state_of(added=7),
    "a state with a weight of NaN": state_of(log_weight=math.nan),
    "a state with half a change": state_of(changes=[0]),
    "a state with a source that was never told": state_of(changes=[1, -1.0]),
    "a state with a hint that was never told": state_of(hint=1),
    "a state with a hint below zero": state_of(hint=-1),
    "a state with a line of text": state_of(line="seven"),
    "a source of three parts": step_done(
        particles=[row_of()], hints=[""], sources=[["draw", 7, ""]]),
    "a source with long masks": step_done(
        particles=[row_of()], hints=[""], sources=[["draw", 7, "m" * 1001, ""]]),
    "an event with an origin of three": said(
        Kind.EVENT, {"event": "PopulationGiven", "origins": [[1, 2, 3]]}),
    "texts that grow by joining": b"".join([
        state_of(added="x" * 10_000),
        *(step_done(step=step, hints=[], sources=[],
                    particles=[row_of(origin=[step - 1, 0], kept=10_000, added="")] * 500)
          for step in (2,))]),
    "an event with ancestors below zero": said(
        Kind.EVENT, {"event": "Resampled", "step": 1, "ancestors": [-1], "ess": 1.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
async def test_a_forged_message_ends_its_own_session_alone(name: str) -> None:
    forged = FORGED[name]
    data, kind, match = forged if isinstance(forged, tuple) else (forged, ProgramCrashed, PROTOCOL)
    follower = toy()
    async with wire(follower) as other, wire(follower) as own:
        await other.send(READY + DRAW)
        await own.send(READY + data)
        with pytest.raises(kind, match=match):
            await own.outcome()
        assert (await other.answer())[0] == Kind.ANSWER
        await other.send(ask(requests=[request(ticket=2)]))
        assert (await other.answer())[0] == Kind.ANSWER
        await other.send(done(particle()))
        assert (await other.outcome()).tokens == 2


async def test_what_comes_before_ready_is_not_read() -> None:
    for data in (DRAW, done(particle()), encode(99), b"\0" * 100):  # type: ignore[arg-type]
        async with wire(toy()) as own:
            await own.send(data)
            with pytest.raises(ProgramCrashed, match=PROTOCOL):
                await own.outcome()
    async with wire(toy()) as own:
        await own.send(said(Kind.FAILED, {"type": "lock", "message": "no Landlock"}))
        with pytest.raises(SandboxError, match="no Landlock"):
            await own.outcome()


async def test_only_the_first_end_counts() -> None:
    first, second = done(particle(text="first")), done(particle(text="second"))
    for rest in (second, failed(), DRAW, b"\xff" * 100, encode(99), second[:9]):  # type: ignore[arg-type]
        async with wire(toy()) as own:
            await own.send(READY + first + rest)
            assert [p.text for p in (await own.outcome()).particles] == ["first"]
    async with wire(toy()) as own:
        await own.send(READY + failed(message="first") + first)
        with pytest.raises(ProgramCrashed, match="first"):
            await own.outcome()


async def test_a_result_holds_only_what_a_program_may_claim() -> None:
    forged = particle(weight=1.0, verified=True, seed=7, usage={"follower_tokens": 0})
    async with wire(toy()) as own:
        await own.send(READY + DRAW + done(forged, verified=True, seed=7, tokens=0, sandbox={}))
        outcome = await own.outcome()
    assert outcome.tokens == 1, "the host counts for itself"
    (only,) = outcome.particles
    assert only.weight == 0.0, "shares are the host's"
    assert not hasattr(only, "verified") and not hasattr(only, "usage")


async def test_a_step_reports_the_hosts_count_of_tokens() -> None:
    async with wire(toy()) as own:
        await own.send(READY + DRAW + step_done(tokens=10**6) + done(particle()))
        await own.outcome()
    assert [getattr(event, "tokens", None) for event in own.events] == [1]


@pytest.mark.parametrize("excess", [1, 10])
async def test_a_request_with_a_context_that_is_too_long_fails_alone(excess: int) -> None:
    follower = toy()
    length = LONGEST_CONTEXT + excess
    async with wire(follower) as own:
        nodes = [(i, 0) for i in range(length)]
        await own.send(READY + ask(nodes, (), [request(a=length)]))
        _, payload = await own.answer()
        assert ANSWER.unpack_from(payload, 4)[:2] == (1, 2), "this request failed"
        assert follower.forwards == 0, "the model never saw it"
        await own.send(failed(type="FollowerError"))
        with pytest.raises(FollowerError, match=str(LONGEST_CONTEXT)):
            await own.outcome()


@pytest.mark.parametrize(
    ("module", "limit", "value", "data"),
    [
        (batches, "_MAX_PREFIXES", 10, ask([(0, i % SIZE) for i in range(12)])),
        (batches, "_MAX_MASK_BYTES", 10 * SIZE, ask(masks=[MASK] * 12)),
        (session, "_MAX_WAITING", 10, ask([], [MASK], [request(ticket=i) for i in range(12)])),
    ],
)
async def test_what_a_worker_makes_the_host_keep_is_bounded(
    module: Any, limit: str, value: int, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with wire(toy()) as own:  # the control
        await own.send(READY + data + done(particle()))
        await own.outcome()
    monkeypatch.setattr(module, limit, value)
    async with wire(toy()) as own:
        await own.send(READY + data)
        with pytest.raises(ProgramCrashed, match=PROTOCOL):
            await own.outcome()


async def test_a_number_may_be_given_to_another_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_MAX_MASK_BYTES", 10 * SIZE)
    follower = toy()
    only_b = mask(1, struct.pack("<I", 1), form=1)
    async with wire(follower) as own:
        await own.send(READY + (mask(1, MASK) + mask(2, MASK) + only_b) * 50)
        await own.send(ask([(0, follower.prompt("p")[0])], (), [request(a=1, masks=(1, 0, 0))]))
        _, payload = await own.answer()
        assert ANSWER.unpack_from(payload, 4)[1:3] == (0, 1)
        assert own.session._reader.mask_bytes <= 2 * SIZE
        await own.send(done(particle()))
        await own.outcome()


async def test_whole_distributions_are_few_at_a_time() -> None:
    """A worker that reads no answers would otherwise fill the host's memory with them."""
    for slots in ([0, 0], [*range(17)], [255]):
        asked = [request(5, slot=slot, ticket=i) for i, slot in enumerate(slots)]
        async with wire(toy()) as own:
            await own.send(READY + ask(requests=asked))
            with pytest.raises(ProgramCrashed, match=PROTOCOL):
                await own.outcome()


async def test_answers_that_are_left_unread_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "_MAX_UNSENT", 2**16)
    async with wire(toy()) as own:
        await own.send(READY + said(Kind.NEED, {"encode": "a" * 40_000}) * 3)
        with pytest.raises(ProgramCrashed, match="unread"):
            await own.outcome()


# Fuzzing ----------------------------------------------------------------------------------------

CONVERSATION = [
    READY,
    said(Kind.NEED, {"prompt": "p", "hint": ""}),
    said(Kind.NEED, {"encode": "ab"}),
    ask(PREFIXES, [MASK], [request(a=1, b=2, masks=(1, 0, 0)), request(4, ticket=2, a=1, b=3)]),
    mask(2, struct.pack("<I", 0), form=1),
    ask([], [b"\x80"], [request(2, ticket=3, a=3, masks=(1, 0, 2)), request(5, ticket=4, a=2)]),
    ask([(3, 1)], [], [request(3, ticket=5, a=4, masks=(2, 0, 0))]),
    ask([], [], [request(6, ticket=7, a=4, masks=(1, 1, 2)), request(6, ticket=8, a=2)]),
    said(Kind.CALL, {"ticket": 6, "name": "x", "payload": {"a": [1, None, "b"]}}),
    step_done(particles=[row_of()], hints=["short"], sources=[["draw", 7, "", "text"]]),
    said(Kind.EVENT, {"event": "Resampled", "step": 1, "ancestors": [0, 0], "ess": 1.5}),
    said(Kind.EVENT, {"event": "ProgramPrinted", "text": "printed"}),
    said(Kind.EVENT, {
        "event": "ParticleFinished", "index": 0, "step": 2, "text": "ab", "log_weight": -1.0,
        "finish_reason": "ended", "reason": ""}),
    done(particle(), particle(log_weight=-math.inf, finish_reason="timeout"), log_evidence=-1.0),
]  # fmt: skip


def mutated(rng: random.Random) -> bytes:
    """The conversation with some of its frames or bytes changed."""
    frames = list(CONVERSATION)
    for _ in range(rng.choice((0, 0, 1, 2))):
        at = rng.randrange(1, len(frames))
        match rng.randrange(4):
            case 0:
                del frames[at]
            case 1:
                frames.insert(at, rng.choice(CONVERSATION))
            case 2:  # another kind
                frames[at] = frames[at][:4] + bytes([rng.randrange(1, 20)]) + frames[at][5:]
            case 3:  # another payload of the right length
                payload = rng.randbytes(rng.randrange(80))
                frames[at] = HEADER.pack(len(payload), frames[at][4]) + payload
    data = bytearray(b"".join(frames))
    for _ in range(rng.choice((0, 1, 1, 2, 8))):
        at = rng.randrange(len(READY), len(data))
        match rng.randrange(5):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.choice((0, 1, 0x22, 0x39, 0x5B, 0x7F, 0xFF))
            case 2:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 3:
                del data[at : at + rng.randrange(1, 9)]
            case 4:
                data[at : at + 8] = struct.pack("<d", rng.choice((math.nan, math.inf, -1.0, 1e308)))
    return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.05 else data)


async def fuzz(seed: int, rounds: int) -> dict[str, int]:
    """How mutated conversations end, by the kind of the end."""
    rng, follower = random.Random(seed), toy()
    ends: dict[str, int] = {}
    for _ in range(rounds):
        data = mutated(rng)
        async with wire(follower) as own:
            await own.send(data)
            try:
                end = type(await own.outcome()).__name__
            except DiscipleError as error:
                end = type(error).__name__
                assert "cannot be read" not in str(error), (str(error), data)
        ends[end] = ends.get(end, 0) + 1
    return ends


async def test_the_conversation_itself_is_sound() -> None:
    async with wire(toy()) as own:
        await own.send(b"".join(CONVERSATION))
        outcome = await own.outcome()
    assert [p.text for p in outcome.particles] == ["a", "a"]
    assert outcome.tokens == 4
    assert len(own.events) == 4


async def test_mutated_conversations_end_in_typed_errors() -> None:
    ends = await fuzz(1, 100)
    assert ends["Outcome"] > 0 and ends["ProgramCrashed"] > 0


@pytest.mark.slow
async def test_two_thousand_mutated_conversations_end_in_typed_errors() -> None:
    ends = await fuzz(2, 2000)
    assert ends["Outcome"] > 0 and ends["ProgramCrashed"] > 500


# For real ---------------------------------------------------------------------------------------

FORGER = """
import json, os, struct

def write(kind, data):
    body = json.dumps(data).encode()
    os.write(4, struct.pack("<IB", len(body), kind) + body)

class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        forge()
        os._exit(0)

def forge():
"""


@pytest.fixture
def events() -> list[Any]:
    return []


def forge(body: str, events: list[Any] | None = None, **options: Any) -> Result:
    task = Task("t", n=1, limits=Limits(timeout=10.0))
    on_event = events.append if events is not None else None
    source = FORGER + "".join(f"    {line}\n" for line in body.strip().splitlines())
    return run_program(source, task, follower=toy(), on_event=on_event, **options)


def test_a_forged_result_gets_its_text_and_weight_and_no_more(events: list[Any]) -> None:
    claim = particle(text="forged", log_weight=-3.0, weight=9.0, check=True, verified=True)
    data = {"particles": [claim], "log_evidence": 5.0, "verified": True, "seed": 7,
            "usage": {"follower_tokens": 0}, "sandbox": {"witnessed": "forged"},
            "text": "another", "timings": {}, "program": {}, "cost": 0.0}  # fmt: skip
    result = forge(f"write(6, {data!r})", events, seed=3)
    assert (result.text, result.log_evidence, result.check) == ("forged", 5.0, True)
    assert result.verified is None
    assert result.seed == 3
    assert result.usage.follower_tokens == 1, "the draw that it made before"
    assert result.sandbox["witnessed"] == "landlock+seccomp"
    assert result.program["source"].startswith(FORGER)
    assert [p.weight for p in result.particles] == [1.0]
    assert {type(event) for event in events} <= {RunStarted, RunFinished}


def test_a_forged_result_meets_the_users_verifier() -> None:
    data = {"particles": [particle(text="forged", check=True)], "log_evidence": None}
    result = forge(f"write(6, {data!r})", verify=lambda text: text != "forged")
    assert (result.check, result.verified) == (True, False)


def test_a_text_that_cannot_be_encoded_is_no_raw_error_at_the_users_verifier() -> None:
    data = json.dumps({"particles": [particle(text="\ud800")], "log_evidence": None})
    with contextlib.suppress(DiscipleError):
        forge(f"write(6, json.loads({data!r}))", verify=["cat"])


def test_forged_events_are_the_programs_own(events: list[Any]) -> None:
    end = {"particles": [particle()], "log_evidence": None}
    forge(f"write(5, {{'event': 'ProgramPrinted', 'text': 'p'}})\nwrite(6, {end!r})", events)
    assert ProgramPrinted("p") in events
    with pytest.raises(ProgramCrashed, match=PROTOCOL):
        forge("write(5, {'event': 'RunFinished', 'tokens': 0})", events)


@pytest.mark.parametrize("particles", [[], [particle(log_weight=-math.inf)]], ids=["none", "dead"])
def test_a_forged_result_without_a_text_is_an_error(particles: Any) -> None:
    data = json.dumps({"particles": particles, "log_evidence": None})
    with pytest.raises(NoParticleAlive):
        forge(f"write(6, json.loads({data!r}))")


@pytest.mark.slow
@pytest.mark.parametrize("hostile", [h for h in HOSTILE if h.kind == "forge"], ids=lambda h: h.name)
def test_programs_that_forge_get_only_their_claims(hostile: Any) -> None:
    task = Task("t", n=2, limits=Limits(timeout=2.0))
    try:
        result = run_program(hostile.source, task, follower=toy(), seed=3)
    except DiscipleError:
        return
    assert result.verified is None
    assert result.seed == 3
    assert result.sandbox["witnessed"] == "landlock+seccomp"
    assert sum(p.weight for p in result.particles) == pytest.approx(1.0)


# Each keeps the host's own loop busy, on which the deadlines of all runs are reported.
FLOODS = {
    "lists": "send(6, b'[' + b'[],' * 2_000_000 + b'[]]')",
    "numbers": "send(6, b'[' + b'0,' * 4_000_000 + b'0]')",
    "texts to encode": """
for i in range(30):
    send(3, json.dumps({"encode": f"t{i}" * 15_000}).encode())
""",
    "contexts": """
for k in range(0, 900_000, 100_000):
    nodes = b"".join(struct.pack("<II", k + i, 1) for i in range(100_000))
    send(2, struct.pack("<III", 100_000, 0, 0) + nodes)
""",
    "answers that nobody reads": """
for i in range(20_000):
    send(3, b'{"encode": "a a a a a a"}')
""",
}

FLOOD = """
import json, os, struct, time

def send(kind, body):
    view = memoryview(struct.pack("<IB", len(body), kind) + body)
    while view:
        view = view[os.write(4, view):]

class InferenceModel(BaseModel):
    async def step(self):
        flood()
        time.sleep(100)

def flood():
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_does_not_stretch_the_deadline(name: str) -> None:
    source = FLOOD + "".join(f"    {line}\n" for line in FLOODS[name].strip().splitlines())
    run_program(STEADY, "t", follower="embedded", n=1)  # everything is loaded
    begun = time.monotonic()
    with pytest.raises(DiscipleError):
        run_program(source, "t", follower="embedded", n=1, timeout=1.0)
    # The program is dead after half a second; the host may still read what it had sent.
    assert time.monotonic() - begun < 1.0 + 1.0


STEADY = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        await self.end()
"""
