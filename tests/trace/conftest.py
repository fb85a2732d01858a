"""Recorded runs that several tests look at."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from disciple_ext import Result, run_program, self_steer
from disciple_ext.records.events import Event, StepDone
from disciple_ext.testing import ToyFollower
from disciple_ext.trace.record import Recorder

sys.path.insert(0, str(Path(__file__).parent))  # for chromium.py

PROGRAM = '''
class InferenceModel(BaseModel):
    """Words under a mask, one that is forced, and a condition."""

    async def step(self):
        async with AvoidWordsMask(self, ["rain"]):
            await self.next_token()
        if len(self.words) == 3:
            await self.hint("be brief")
            await self.force(" river")
            self.condition(self.random.random() < 0.8)
        if len(self.words) > 6:
            await self.end()

    def check(self, text):
        return "old" in text
'''
WORDS = [" the", " old", " man", " river", " rain", " saw", " a", " boat"]
TASK = "Please generate a sentence with exactly 6 words."


@dataclass
class Traced:
    """A run, what its observers heard, and its record."""

    result: Result
    events: list[Event] = field(default_factory=list)

    @property
    def run(self) -> dict[str, Any]:
        assert self.result.record is not None
        run: dict[str, Any] = self.result.record.data["runs"][-1]
        return run

    @property
    def steps(self) -> list[StepDone]:
        return [e for e in self.events if isinstance(e, StepDone)]


def toy_run(
    source: str = PROGRAM, sampler: Any = "smc", n: int = 12, trace: Any = True, **options: Any
) -> Traced:
    events: list[Event] = []
    follower = ToyFollower.random(5, WORDS)
    result = run_program(
        source, "t", follower=follower, sampler=sampler, n=n, seed=3, trace=trace,
        on_event=events.append, **{"sandbox": "none", **options},
    )  # fmt: skip
    return Traced(result, events)


@pytest.fixture(scope="session")
def toy() -> Traced:
    return toy_run()


@pytest.fixture(scope="session")
def embedded() -> Traced:
    events: list[Event] = []
    result = self_steer(TASK, n=6, seed=2, sandbox="none", trace=Recorder(), on_event=events.append)
    return Traced(result, events)


@pytest.fixture
def run_toy() -> Callable[..., Traced]:
    return toy_run
