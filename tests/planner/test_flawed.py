"""Flawed programs as models write them: each is caught, and the planner is told where and what.

Each file says in its head what is wrong, in which line, and which words the planner must read.
"""

from __future__ import annotations

import contextlib
import re
from functools import cache
from pathlib import Path

import pytest

from disciple_ext import Result, Task
from disciple_ext.errors import PlannerError, SandboxUnavailable
from disciple_ext.follower.hf import embedded
from disciple_ext.follower.host import HostFollower
from disciple_ext.loop.steer import self_steer
from disciple_ext.planner.base import Feedback
from disciple_ext.planner.chat.prompt import messages
from disciple_ext.testing import ReplayPlanner

FLAWED = sorted(Path(__file__).with_name("flawed").glob("*.py"))
SLOW = {"check_hangs", "end_missed", "loop_no_limit", "para_05"}  # seconds each, not tenths
TASK = Task("Please generate a sentence with exactly 5 words.", n=4)
WORKS = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_word()
        await self.end()

    def check(self, text):
        return True
"""


class Stranger(ReplayPlanner):
    """A planner whose programs nobody trusts."""

    trusted = False


@cache
def follower() -> HostFollower:
    return embedded()


def steer(planner: Stranger) -> Result:
    options = {"planner": planner, "follower": follower(), "retries": 2, "timeout": 6.0}
    try:
        return self_steer(TASK, **options)
    except SandboxUnavailable:  # a kernel without Landlock
        return self_steer(TASK, sandbox="process", **options)


def hear(source: str) -> Feedback | None:
    """What the planner hears of a program when it is asked for another one (it has none)."""
    planner = Stranger([source])
    with contextlib.suppress(PlannerError):
        steer(planner)
    return planner.feedback[1][0] if planner.feedback[1:] else None


def said_of(source: str, name: str) -> str:
    found = re.search(rf"^# {name}: (.+)$", source, re.MULTILINE)
    assert found, f"the head says no {name}"
    return found[1]


def test_there_are_enough_of_them() -> None:
    assert len(FLAWED) >= 40


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.slow) if p.stem in SLOW else p for p in FLAWED],
    ids=lambda path: path.stem,
)
def test_a_flawed_program_is_caught_and_the_message_has_line_and_fix(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    failed = hear(source)
    assert failed is not None, "nobody noticed"
    told = "\n".join([failed.error, failed.traceback, *failed.diagnosis, *failed.warnings])
    lines = "|".join(said_of(source, "line").split(" or "))  # a loop is cut in any of its lines
    assert re.search(rf"\bline (?:{lines})\b", told), told
    for words in said_of(source, "fix").split("; "):
        assert words.lower() in told.lower(), told
    complaint = messages(TASK, [failed])[-1]["content"]
    assert len(complaint) < 12_000 and len(complaint.splitlines()) < 120


def test_the_host_is_not_hurt_by_them() -> None:
    planner = Stranger([WORKS])
    result = steer(planner)
    assert result.check is True and len(planner.feedback) == 1
    assert result.timings["dry_run"] < 2.0
