"""Where calls wait: batches, what is remembered, limits, errors; the same at every level."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from disciple_ext import Task, run_program, self_steer
from disciple_ext.errors import ProgramCrashed, ServiceError, UsageError
from disciple_ext.protocol.requests import Call
from disciple_ext.services import LONGEST, Score, Services, from_python
from disciple_ext.testing import ReplayPlanner, ToyFollower

TOY = ToyFollower.random(2, "ab")
ASKS = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        self.said = await self.ask("echo", {"text": self.text, "at": [1, (2.5, None)]})
        await self.weigh("a")
        if self.context.token_count == 3:
            await self.end()

    def check(self, text):
        return self.said == {"text": text, "at": [1, [2.5, None]]}
"""


class Echo:
    """Repeats what it is asked, and counts its batches."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []

    def batch(self, payloads: list[Any]) -> list[Any]:
        self.batches.append(payloads)
        return payloads


def ask(services: dict[str, Any], *calls: Call) -> list[Any]:
    served = Services(services).serve(TOY)

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*map(served.ask, calls), return_exceptions=True)

    return asyncio.run(all_of_them())


def batched_at(level: str | None) -> set[tuple[str, float]]:
    echo = Echo()
    services = {"echo": echo, "a": Score(lambda text: text.count("a"))}
    result = run_program(
        ASKS, follower=TOY, n=64, seed=3, sandbox=level, sampler="is", services=services
    )
    assert result.check is True
    texts = [[payload["text"] for payload in batch] for batch in echo.batches]
    written = {p.text for p in result.particles}
    # One batch a step, each text in it once, though 64 particles ask.
    assert [sorted(batch) for batch in texts] == [
        sorted({text[:k] for text in written}) for k in (1, 2, 3)
    ]
    return {(p.text, p.log_weight) for p in result.particles}


def test_calls_that_wait_together_are_one_batch_at_every_level() -> None:
    assert batched_at(None) == batched_at("none")


@pytest.mark.slow
@pytest.mark.parametrize("level", ["process", "seccomp"])
def test_the_weaker_levels_too(level: str) -> None:
    assert batched_at(level) == batched_at("none")


def test_a_payload_is_computed_once_whoever_asks() -> None:
    calls: list[Any] = []

    async def slow(payload: Any) -> Any:
        calls.append(payload)
        await asyncio.sleep(0.01)
        return {"n": np.float32(0.5)}

    same = Call("slow", {"a": 1, "b": 2}), Call("slow", {"b": 2, "a": 1}), Call("slow", 7)
    assert ask({"slow": slow}, *same) == [{"n": 0.5}] * 3
    assert calls == [{"a": 1, "b": 2}, 7]


def test_what_is_remembered_has_a_bound() -> None:
    class Few(Echo):
        remembered = 2

    few = Few()
    served = Services({"few": few}).serve(TOY)

    async def in_turn() -> None:
        for payload in (1, 2, 1, 3, 1, 2):
            assert await served.ask(Call("few", payload)) == payload

    asyncio.run(in_turn())
    assert few.batches == [[1], [2], [3], [2]]


def test_one_call_that_fails_fails_alone() -> None:
    def third(payload: int) -> float:
        return 1 / (payload - 3)

    class Some:
        def batch(self, payloads: list[int]) -> list[Any]:
            return [OSError("no") if p == 3 else p for p in payloads]

    for service in (third, Some()):
        good, bad = ask({"s": service}, Call("s", 4), Call("s", 3))
        assert good in (1.0, 4) and isinstance(bad, ServiceError)
        assert bad.service == "s" and isinstance(bad.__cause__, ZeroDivisionError | OSError)


def test_services_are_called_and_fail_alone() -> None:
    async def double(x: Any) -> Any:
        return 2 * x

    async def broken(x: Any) -> Any:
        raise KeyError(x)

    services = {"double": double, "broken": broken}
    replies = ask(services, Call("double", 21), Call("broken", "x"), Call("double", [1]))
    assert replies[0] == 42 and replies[2] == [1, 1]
    assert isinstance(replies[1], ServiceError) and "KeyError" in str(replies[1])


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not done():
            await asyncio.sleep(0)


async def test_a_services_reply_may_be_none_and_its_error_is_no_reply() -> None:
    got: list[tuple[Any, BaseException | None]] = []

    async def nothing(payload: Any) -> None:
        return None

    async def broken(payload: Any) -> None:
        raise KeyError(payload)

    served = Services({"nothing": nothing, "broken": broken}).serve(TOY)
    served.submit(Call("nothing"), lambda *answer: got.append(answer))
    await until(lambda: len(got) == 1)
    served.submit(Call("broken", "x"), lambda *answer: got.append(answer))
    await until(lambda: len(got) == 2)
    assert got[0] == (None, None)
    assert got[1][0] is None and isinstance(got[1][1], ServiceError)


async def test_dropped_calls_are_forgotten() -> None:
    got: list[Any] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(payload: Any) -> str:
        begun.set()
        await go_on.wait()
        return "late"

    served = Services({"slow": slow}).serve(TOY)
    waiting = served.submit(Call("slow"), lambda *answer: got.append(answer))
    await begun.wait()
    waiting.drop()
    waiting.drop()
    go_on.set()
    assert await served.ask(Call("slow")) == "late"
    assert got == []


class Late:
    timeout = 0.05

    async def batch(self, payloads: list[Any]) -> list[Any]:
        await asyncio.sleep(10)
        return payloads


class Short:
    def batch(self, payloads: list[Any]) -> list[Any]:
        return []


@pytest.mark.parametrize(
    ("service", "payload", "kind", "said"),
    [
        (Late(), 1, ServiceError, "'s' gave no reply within 0.05 s"),
        (Short(), 1, ServiceError, "0 replies to 1 payloads"),
        (lambda p: {1}, 1, ServiceError, "no JSON: set in a reply"),
        (lambda p: "x" * LONGEST, 1, ServiceError, f"at most {LONGEST} are taken"),
        (len, "x" * LONGEST, ValueError, f"at most {LONGEST} are allowed"),
        (len, {1}, ValueError, "is not JSON"),
    ],
)
def test_limits_and_broken_replies_are_named(
    service: Any, payload: Any, kind: type[Exception], said: str
) -> None:
    (error,) = ask({"s": service}, Call("s", payload))
    assert isinstance(error, kind) and said in str(error)


def test_what_fails_on_the_host_reaches_the_caller_out_of_the_sandbox() -> None:
    weighs = ASKS.replace(
        'await self.ask("echo", {"text": self.text, "at": [1, (2.5, None)]})', "1"
    )
    with pytest.raises(ServiceError, match="the service 'a' failed: ZeroDivisionError") as caught:
        run_program(weighs, follower=TOY, n=2, services={"a": lambda payload: 1 / 0})
    assert caught.value.service == "a" and caught.value.exit_code == 4
    with pytest.raises(ProgramCrashed, match="no service 'a' was given.*there are: 'b'") as crash:
        run_program(weighs, follower=TOY, n=2, services={"b": len})
    assert crash.value.line == 6


def test_what_is_no_service_is_refused_at_once(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="'x' is a int: give a function"):
        run_program(ASKS, follower=TOY, services={"x": 7})
    with pytest.raises(UsageError, match="unknown service 'nobody'; there are: judge, python"):
        run_program(ASKS, follower=TOY, services={"x": "nobody"})
    with pytest.raises(UsageError, match="python:FILE.py:NAME"):
        from_python("nowhere")
    with pytest.raises(UsageError, match="FileNotFoundError"):
        from_python(f"{tmp_path}/none.py:x")
    (tmp_path / "mine.py").write_text("def size(payload):\n    return len(payload)\n")
    spec = f"python:{tmp_path}/mine.py:size"
    source = ASKS.replace('await self.weigh("a")', 'self.n = await self.ask("size", "abc")')
    result = run_program(
        source.replace("return self.said", "return self.n == 3 and self.said"),
        follower=TOY, n=2, sandbox="none", services={"size": spec, "echo": Echo()},
    )  # fmt: skip
    assert result.check is True


class Told(ReplayPlanner):
    paragraphs: tuple[str, ...] = ()


def test_planners_hear_of_services_and_dry_runs_do_not_ask_them() -> None:
    """A dry run's texts are noise: a judge that is paid for must not read them."""
    seen: list[str] = []

    def taste(text: str) -> float:
        """How good it tastes."""
        seen.append(text)
        return math.log(2.0)

    planner = Told([ASKS])
    services = {"a": Score(taste), "echo": Echo()}
    result = self_steer(Task("x", n=4), planner=planner, follower=TOY, services=services)
    assert result.check is True
    assert any("`a`" in p and "How good it tastes." in p for p in planner.paragraphs)
    assert set(seen) <= {p[:k] for p in ("aaa", "aab", "aba", "abb", "baa", "bab", "bba", "bbb")
                         for k in (1, 2, 3)}  # fmt: skip
    with_dry_run = len(seen)
    seen.clear()
    services = {"a": Score(taste), "echo": Echo()}
    self_steer(Task("x", n=4), planner=Told([ASKS]), follower=TOY, services=services, dry_run=False)
    assert len(seen) == with_dry_run
