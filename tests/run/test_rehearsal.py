"""The dry run: what stops a program before its follower is asked, and what only warns."""

from __future__ import annotations

import time
from typing import Any

import pytest

from disciple_ext import Limits, Program, Result, Task, self_steer
from disciple_ext.errors import LimitExceeded, PlannerError, ProgramCrashed, ProgramRejected
from disciple_ext.follower.random import RandomFollower
from disciple_ext.loop.steer import run_program
from disciple_ext.planner.expert.planner import ExpertPlanner
from disciple_ext.run.rehearsal import inspect_source
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.testing import ReplayPlanner, ToyFollower

HEAD = "class InferenceModel(BaseModel):\n    async def step(self):\n"
WORKS = HEAD + "        await self.next_token()\n        await self.end()\n"
CHECKED = WORKS + "    def check(self, text):\n        return True\n"


class Stranger(ReplayPlanner):
    trusted = False


def toy() -> ToyFollower:
    return ToyFollower.random(2, [" a", " b", "c", "."])


def steer(*programs: str, planner: Any = None, **options: Any) -> Result:
    settings: dict[str, Any] = {"follower": toy(), "sandbox": "none", "n": 4, **options}
    return self_steer("a toy task", planner=planner or Stranger(programs), **settings)


@pytest.mark.parametrize(
    ("body", "error", "says"),
    [
        ("self.text.nope()", ProgramCrashed, "in a dry run.*line 4"),
        ("await self.next_token()\n        nope", ProgramCrashed, "NameError.*line 5"),
        ("int('x')", ProgramCrashed, "dry run.*ValueError.*line 4"),
        ("self.missing()", ProgramCrashed, "dry run.*AttributeError.*line 4"),
    ],
)
def test_what_no_text_would_mend_costs_no_follower(
    body: str, error: type[Exception], says: str
) -> None:
    follower = toy()
    # Beyond what the static check sees.
    source = HEAD + f"        None\n        {body}\n        await self.end()\n"
    with pytest.raises(error, match=says):
        steer(source, follower=follower, retries=1)
    assert follower.forwards == 0


@pytest.mark.parametrize("sandbox", ["none", "process"])
def test_a_loop_that_never_awaits_is_named_with_its_line(sandbox: str) -> None:
    follower = toy()
    source = HEAD + "        n = 1\n        while n > 0:\n            n += 1\n"
    source += "        await self.end()\n"
    begun = time.monotonic()
    with pytest.raises(LimitExceeded, match="busy in line [45]") as caught:
        steer(source, follower=follower, retries=1, sandbox=sandbox, timeout=60)
    assert caught.value.line in {4, 5} and follower.forwards == 0
    assert time.monotonic() - begun < 30  # about 2.5 s, and the sandbox's start


def test_a_real_run_that_hangs_is_named_with_its_line_too() -> None:
    source = HEAD + "        while len(self) < 9:\n            pass\n"
    for sandbox in ("none", "process"):
        run_program(WORKS, follower=toy(), sandbox=sandbox, n=1)  # start the sandbox
        with pytest.raises(LimitExceeded, match="busy in line [34]"):
            run_program(source, follower=toy(), sandbox=sandbox, n=1, timeout=0.7)


def test_what_an_odd_text_may_cause_only_warns() -> None:
    body = "        await self.next_token()\n        int(self.text)\n        await self.end()\n"
    planner = Stranger([HEAD + body])
    follower = toy()
    with pytest.raises(PlannerError):
        steer(planner=planner, follower=follower)
    (failed,) = planner.feedback[1]
    assert "dry run" not in failed.error and "ValueError" in failed.error
    assert follower.forwards > 0  # the real run had its chance
    assert any("dry run" in w and "ValueError" in w for w in failed.warnings)


def test_impossible_masks_warn_and_are_told_only_if_the_run_fails() -> None:
    half = HEAD + (
        "        async with CharsMask(self, ' a'):\n"
        "            if await self.next_token() == ' a':\n"
        "                async with CharsMask(self, 'z'):\n"
        "                    await self.next_token()\n"
        "        await self.end()\n"
    )
    planner = Stranger([half])
    with pytest.raises(PlannerError):
        steer(planner=planner)
    (failed,) = planner.feedback[1]
    assert any("dry run" in w and "line 6" in w for w in failed.warnings)
    assert any("impossible_mask" in said for said in failed.diagnosis)


def test_the_static_check_stops_what_cannot_work_and_says_all() -> None:
    source = HEAD + "        self.next_word()\n        open('x')\n        await self.end()\n"
    with pytest.raises(ProgramRejected, match="line 3.*await.*line 4.*open") as caught:
        inspect_source(Program(source))
    assert caught.value.line == 3
    assert inspect_source(Program(CHECKED)) == ()


def test_it_can_be_switched_off_and_is_not_for_trusted_planners() -> None:
    crash = HEAD + "        nope\n        await self.end()\n"
    with pytest.raises(ProgramCrashed) as caught:
        steer(crash, retries=1, dry_run=False)
    assert "dry run" not in str(caught.value)
    assert "dry_run" in steer(CHECKED).timings
    assert "dry_run" not in steer(CHECKED, dry_run=False).timings
    assert "dry_run" not in steer(planner=ReplayPlanner([CHECKED])).timings


def test_a_dry_run_changes_no_draw() -> None:
    def texts(**options: Any) -> list[str]:
        return [p.text for p in steer(CHECKED, seed=5, n=8, **options).particles]

    assert texts() == texts(dry_run=False)


async def test_the_random_follower_writes_words_and_never_asks_the_model() -> None:
    from disciple_ext.follower.hf import embedded
    from disciple_ext.loop.steer import arun_program

    follower = embedded()
    plan = await ExpertPlanner().plan(Task("Please generate a sentence with exactly 9 words."), ())
    random = RandomFollower(follower)
    result = await arun_program(plan.program, follower=random, sandbox="none", n=4, sampler="is")
    assert follower.forwards == 0 and result.check is True
    assert len({p.text for p in result.particles}) == 4


def test_our_samplers_share_one_zygote() -> None:
    for sampler in (ImportanceSampler(), SMCSampler(), "rs"):
        run_program(WORKS, follower=(one := toy()), sandbox="process", n=1, sampler=sampler)
        assert one.forwards


def test_listening_does_not_use_up_what_a_run_may_send() -> None:
    # The hint is a part of each particle's state after each step: 60 x 8 x 3,000 characters.
    source = HEAD + "        await self.hint('c' * 3000)\n        await self.next_token()\n"
    source += "        if self.context.token_count == 60:\n            self.condition(False)\n"
    source += "            await self.end()\n"
    planner = Stranger([source])
    with pytest.raises(PlannerError):
        task = Task("a toy task", n=8, limits=Limits(output=1))
        self_steer(task, planner=planner, follower=toy(), sandbox="process", dry_run=False)
    (failed,) = planner.feedback[1]
    assert "no particle ended" in failed.error  # and not: sent more than 1 MiB
    assert "8 times a particle ended with condition_false in line 6" in failed.diagnosis[1]
    assert failed.outputs


# What is finished is not lost ---------------------------------------------------------------------

REJECTING = WORKS + "    def check(self, text):\n        return False\n"


def test_texts_that_check_rejects_go_back_with_their_verdicts() -> None:
    planner = Stranger([REJECTING, CHECKED])
    result = steer(planner=planner)
    assert [a.outcome for a in result.attempts] == ["rejected", "ok"] and result.check is True
    (failed,) = planner.feedback[1]
    assert "check (line 5) rejected every finished text" in failed.error
    assert failed.outputs and all("check rejected" in verdict for _, verdict in failed.outputs)


@pytest.mark.parametrize("later", [["nope nope"], [HEAD + "        nope\n"]])
def test_a_finished_attempt_survives_the_failure_of_later_ones(later: list[str]) -> None:
    result = steer(REJECTING, *later, retries=2)
    assert result.text and result.check is False and not result.passed
    assert [a.outcome for a in result.attempts][0] == "rejected" and len(result.attempts) == 2
    assert result.attempts[0].error and "rejected" in result.attempts[0].error
    assert result.program["source"] == REJECTING
    assert result.usage.follower_tokens > 0


def test_an_error_of_the_planner_carries_the_finished_attempt() -> None:
    with pytest.raises(PlannerError) as caught:
        steer(REJECTING, retries=2)
    kept = caught.value.result
    assert isinstance(kept, Result) and kept.text and kept.check is False
    assert [a.outcome for a in caught.value.attempts] == ["rejected", "PlannerError"]


def test_the_better_of_two_finished_attempts_is_given() -> None:
    unchecked = HEAD + "        await self.end()\n"  # empty texts, and no check
    first = steer(unchecked, REJECTING, retries=2)
    assert first.program["source"] == unchecked
    both = steer(REJECTING, REJECTING + "# again\n", retries=2)
    assert both.program["source"].endswith("# again\n")  # of equals the later one


def test_the_experts_answers_stay_as_they_are() -> None:
    class Expert(ReplayPlanner):
        name = "expert"

    result = steer(planner=Expert([REJECTING, CHECKED]))
    assert [a.outcome for a in result.attempts] == ["ok"] and result.check is False
