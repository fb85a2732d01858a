"""Hostile programs: each ends in time, in a result or a typed error, and harms nothing else."""

from __future__ import annotations

import functools
import gc
import resource
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from attacks.hostile import HOSTILE, KINDS, Hostile

from disciple_ext import Limits, Result, Task, run_program
from disciple_ext.cli.console import escape
from disciple_ext.errors import DiscipleError, SandboxUnavailable
from disciple_ext.records.events import ParticleFinished, ProgramPrinted, StepDone
from disciple_ext.testing import ToyFollower

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the locks are Linux's")

TIMEOUT = 0.5
LATE = 0.5
"""Seconds by which a run may outlive its deadline."""
GROWTH = 64 * 2**20
"""Bytes that one hostile run may add to the host's memory."""

FOLLOWER = ToyFollower.random(3, ["a", "b", "c", "."])
FOLLOWER.backend.max_context = 2048  # the model's own limit, as real ones have
GOOD = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        if len(self) > 5:
            await self.end()
"""

QUICK = {h.name for kind in KINDS for h in [h for h in HOSTILE if h.kind == kind][1::10]}


def run(source: str, level: str, **options: Any) -> Result:
    task = Task("a task", n=4, limits=Limits(timeout=TIMEOUT, memory=128))
    return run_program(source, task, **{"follower": FOLLOWER, "sandbox": level, **options})


def good(level: str) -> Result:
    """The run that must come out the same whatever ran before it; it warms the sandbox up."""
    try:
        return run(GOOD, level, seed=3, timeout=20.0)
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@functools.cache
def expected(level: str) -> Any:
    return good(level).particles


def memory() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def texts(end: Result | DiscipleError, events: list[Any]) -> list[str]:
    """All that a program gets shown somewhere."""
    if isinstance(end, Result):
        shown = [end.text or "", *(t for p in end.particles for t in (p.text, p.reason))]
    else:
        shown = [str(end), getattr(end, "traceback", ""), getattr(end, "text", "") or ""]
    for event in events:
        match event:
            case ProgramPrinted(text):
                shown.append(text)
            case ParticleFinished():
                shown += [event.text, event.reason]
            case StepDone():
                shown += [event.best_text, *(t for p in event.particles for t in (p.text, p.hint))]
    return shown


@pytest.mark.parametrize(
    ("level", "hostile"),
    [
        pytest.param(
            level,
            h,
            id=f"{level}-{h.name}",
            marks=() if level != "seccomp" and h.name in QUICK else pytest.mark.slow,
        )
        for level in ("landlock+seccomp", "seccomp")
        for h in HOSTILE
    ],
)
def test_a_hostile_program_ends_well(level: str, hostile: Hostile) -> None:
    before = expected(level)
    events: list[Any] = []
    held = memory()
    begun = time.monotonic()
    end: Result | DiscipleError
    try:
        end = run(hostile.source, level, on_event=events.append)
    except DiscipleError as error:
        end = error
    took = time.monotonic() - begun
    assert took < TIMEOUT + LATE, f"{took:.2f} s: {end!r:.200}"
    if isinstance(end, Result):
        assert end.verified is None and end.seed == 0
        assert end.sandbox["witnessed"] == level
        assert all(p.log_weight < float("inf") for p in end.particles), "no NaN, no infinity"
    for text in texts(end, events):
        shown = escape(text)
        assert not any(c < " " and c not in "\n\t" or c in "\x7f\x9b\u202e" for c in shown)
        shown.encode()
    if isinstance(end, DiscipleError):
        assert len(str(end)) < 10_000
    del end, events
    assert memory() - held < GROWTH
    assert good(level).particles == before, "the next run is not touched"
