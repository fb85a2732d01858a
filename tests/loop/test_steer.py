"""The outer loop: attempts, feedback, errors, limits, verifiers."""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from typing import Any

import pytest

from disciple_ext import Limits, Program, Result, Task, run_program, self_steer
from disciple_ext.errors import (
    FollowerError,
    LimitExceeded,
    NoParticleAlive,
    PlannerError,
    ProgramCrashed,
    ProgramRejected,
    SandboxUnavailable,
    UsageError,
)
from disciple_ext.loop.steer import arun_program, aself_steer
from disciple_ext.records.events import AttemptFailed, AttemptStarted, RunFinished, StepDone
from disciple_ext.sandbox.host import host
from disciple_ext.testing import ReplayPlanner, ToyFollower

WORKS = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        if self.context.token_count == 3:
            await self.end()

    def check(self, text):
        return "a" in text
"""
CRASHES = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        if len(self) == 2:
            self.words[10**6]
"""
HEAD = "class InferenceModel(BaseModel):\n    async def step(self):\n"
DIES = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.next_token()
        if token == "a":
            async with CharsMask(self, "z"):
                await self.next_token()
        self.condition(False)
"""


def toy() -> ToyFollower:
    return ToyFollower.random(2, ["a", "b", "c"])


def steer(*programs: str | Program, **options: Any) -> Result:
    settings: dict[str, Any] = {"follower": toy(), "sandbox": "none", "n": 4, **options}
    settings.setdefault("planner", ReplayPlanner(programs))
    return self_steer(settings.pop("task", "a toy task"), **settings)


def texts(result: Result) -> list[str]:
    return [p.text for p in result.particles]


# Attempts and feedback -----------------------------------------------------------------------


def test_the_planner_hears_what_went_wrong_until_a_program_works() -> None:
    planner = ReplayPlanner([CRASHES, DIES, "def f(:", WORKS])
    events: list[Any] = []
    result = steer(planner=planner, retries=4, on_event=events.append)
    assert [a.outcome for a in result.attempts] == [
        "ProgramCrashed",
        "NoParticleAlive",
        "ProgramRejected",
        "ok",
    ]
    assert [len(f) for f in planner.feedback] == [0, 1, 2, 3]
    crash, dead, rejected = planner.feedback[-1]
    assert crash.program.source == CRASHES and crash.attempt == 1
    assert "line 6" in crash.error and "IndexError" in crash.error
    assert "self.words[10**6]" in crash.traceback
    assert "no particle ended" in dead.error and "line 1" in rejected.error
    assert result.text in texts(result) and result.program["source"] == WORKS
    assert [e.attempt for e in events if isinstance(e, AttemptStarted)] == [1, 2, 3, 4]
    assert [e.kind for e in events if isinstance(e, AttemptFailed)] == [
        "ProgramCrashed",
        "NoParticleAlive",
        "ProgramRejected",
    ]


def test_retries_count_every_program_and_the_last_error_is_raised() -> None:
    planner = ReplayPlanner([DIES, CRASHES, WORKS])
    with pytest.raises(ProgramCrashed) as caught:
        steer(planner=planner, retries=2)
    assert len(planner.programs) == 1  # the third was not asked for
    assert [a.outcome for a in caught.value.attempts] == ["NoParticleAlive", "ProgramCrashed"]  # type: ignore[attr-defined]


def test_attempts_with_one_program_do_not_repeat_their_draws() -> None:
    verdicts: list[str] = []

    def verify(text: str) -> bool:
        verdicts.append(text)
        return False

    source = WORKS.replace("== 3", "== 12")
    steer(source, source, source, verify=verify, seed=1)
    assert len(set(verdicts)) == 3


def test_a_planner_without_a_program_is_the_planners_error() -> None:
    with pytest.raises(PlannerError, match="call 2"):
        steer(CRASHES)


# Errors of programs ---------------------------------------------------------------------------


def run(source: str, **options: Any) -> Result:
    settings: dict[str, Any] = {"follower": toy(), "sandbox": "none", "n": 4, **options}
    return run_program(source, **settings)


def test_a_crash_has_line_particle_step_and_text() -> None:
    with pytest.raises(ProgramCrashed) as caught:
        run(CRASHES)
    error = caught.value
    assert (error.line, error.step) == (6, 2)
    assert error.particle in range(4) and error.text is not None and len(error.text) == 2
    assert "line 6, in step" in error.traceback and "disciple_ext" not in error.traceback
    assert isinstance(error.__cause__, IndexError)


def test_a_crash_of_init_and_of_check() -> None:
    init = "class InferenceModel(BaseModel):\n    def __init__(self, context):\n        1 / 0\n"
    with pytest.raises(ProgramCrashed, match="ZeroDivisionError.*line 3"):
        run(init + "    async def step(self):\n        pass\n")
    with pytest.raises(ProgramCrashed, match="check") as caught:
        run(WORKS.replace('"a" in text', "text.check()"))
    assert caught.value.line == 9


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ("    def prior_prompt(self):\n        return 'Write.'\n", "line 5.*no classmethod"),
        ("    prior_prompt = 'Write.'\n", "prior_prompt.*no classmethod"),
        (
            "    @classmethod\n    def proposal_prompt(cls):\n        return 7\n",
            "line 5.*returns something of type int",
        ),
    ],
)
def test_a_prompt_that_is_none_is_rejected_with_what_to_write(method: str, says: str) -> None:
    source = HEAD + "        await self.end()\n\n" + method
    with pytest.raises(ProgramRejected, match=says):
        run(source)
    given = "    @staticmethod\n    def prior_prompt():\n        return 'Write.'\n"
    assert run(WORKS + given).text


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("self.nextword()", r"AttributeError.*line 3.*did you mean `self\.next_word`"),
        ("CharsMask('a')", r"TypeError.*line 3.*write `CharsMask\(self, chars\)`"),
        ("MaxCharMask(self, 3)", r"NameError.*line 3.*did you mean `MaxCharsMask`"),
        ("self.condition(self.wants_to_end())", r"coroutine; write 'await'.*line 3"),
        ("await self.sample('a')", r"takes a distribution.*line 3"),
        ("self.words[0]", r"IndexError.*line 3.*test its length first"),
        ("await self.hint(5)", r"hint\(\) takes a string, not int.*line 3"),
        ("self.context.mask_dist({'a'})", r"ids of tokens, not texts.*line 3"),
    ],
)
def test_an_error_says_where_and_what_to_write_instead(body: str, says: str) -> None:
    with pytest.raises(ProgramCrashed, match=says) as caught:
        run(f"{HEAD}        {body}\n")
    assert caught.value.line == 3 and caught.value.exception.endswith("Error")


def test_nobody_alive_counts_the_reasons() -> None:
    with pytest.raises(NoParticleAlive) as caught:
        run(DIES, n=12)
    message = str(caught.value)
    assert "condition_false" in message and "impossible_mask" in message and "of 12" in message


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("def f(:", "line 1"),
        ("x = 1", "InferenceModel"),
        ("class InferenceModel:\n    pass", "InferenceModel"),
        ("class InferenceModel(BaseModel):\n    pass", "step"),
        ("class InferenceModel(BaseModel):\n    def step(self):\n        pass", "step"),
        ("null = '\0'", "parse"),
    ],
)
def test_programs_that_cannot_be_run_are_rejected(source: str, match: str) -> None:
    with pytest.raises(ProgramRejected, match=match):
        run(source)


def test_a_failing_follower_is_not_the_programs_fault() -> None:
    class Broken(ToyFollower):
        def _row_of(self, context: Any) -> Any:
            raise RuntimeError("out of memory")

    broken = Broken(lambda p, t: {"a": 1.0}, ["a"])
    with pytest.raises(FollowerError, match="out of memory"):
        run(WORKS, follower=broken)


# Limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["while True:\n            pass", "self.count = 0"])
def test_a_program_that_hangs_ends_at_its_time_limit(body: str) -> None:
    source = f"class InferenceModel(BaseModel):\n    async def step(self):\n        {body}\n"
    begun = time.monotonic()
    with pytest.raises(LimitExceeded, match="0.5 s") as caught:
        run(source, timeout=0.5, task=Task("t", limits=Limits(max_steps=10**9)))
    assert time.monotonic() - begun < 0.5 + 3.0  # about 1 s on an idle machine
    assert (caught.value.kind, caught.value.limit) == ("timeout", 0.5)
    assert run(WORKS).text is not None  # the next run is not hurt


def test_a_program_that_catches_everything_still_ends() -> None:
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        while True:
            try:
                while True:
                    pass
            except Exception:
                pass
"""
    with pytest.raises(LimitExceeded):
        run(source, timeout=0.3)
    assert run(WORKS).text is not None


def test_the_expert_is_not_asked_again_for_what_took_too_long() -> None:
    with pytest.raises(LimitExceeded) as caught:
        self_steer(Task("Please generate a sentence with exactly 12 words.", n=2), timeout=0.001)
    assert len(caught.value.attempts) == 1


def test_a_limit_loses_no_finished_answer_of_a_planner_that_does_not_listen() -> None:
    class Deaf(ReplayPlanner):
        name = "expert"

    hangs = "class InferenceModel(BaseModel):\n    async def step(self):\n        self.count = 0\n"
    limits = Limits(max_steps=10**9)
    result = steer(
        planner=Deaf([WORKS, hangs, WORKS]),
        task=Task("t", limits=limits),
        timeout=0.5,
        verify=lambda text: False,
    )
    assert [a.outcome for a in result.attempts] == ["rejected", "LimitExceeded"]
    assert result.verified is False and result.text is not None


def test_particles_that_ended_before_the_limit_are_kept() -> None:
    source = """
import asyncio
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        if self.text[0] == "a":
            await self.end()
            return
        await asyncio.sleep(60)
"""
    result = run(source, n=12, sampler="is", timeout=1.0)
    assert {p.finish_reason for p in result.particles} == {"ended", "timeout"}
    assert result.log_evidence is None and result.text == "a"


def test_the_tasks_token_limit_comes_before_the_programs() -> None:
    with pytest.raises(NoParticleAlive, match="4 max_tokens of 4"):
        run(WORKS, max_tokens=2)


# Answers, seeds, verifiers --------------------------------------------------------------------


def test_one_seed_gives_one_result() -> None:
    first, again, other = (run(WORKS, n=8, seed=s) for s in (5, 5, 6))
    assert texts(first) == texts(again) != texts(other)
    assert first.text == again.text and first.log_evidence == again.log_evidence
    assert first.seed == 5


def test_the_answer_is_drawn_by_weight_among_those_that_pass() -> None:
    answers = [run(WORKS, n=16, seed=s) for s in range(8)]
    for result in answers:
        assert result.text is not None and result.check is True and "a" in result.text
        assert result.text_rule == "weighted_passing" and result.passed
        assert sum(p.weight for p in result.particles) == pytest.approx(1.0)
    nothing = run(WORKS.replace('"a" in text', "False"), n=8)
    assert (nothing.text_rule, nothing.check, nothing.passed) == ("weighted_all", False, False)


def test_results_go_through_json_and_back() -> None:
    result = run(WORKS, sampler="is", n=6)
    assert len(result.particles) == 6
    again = Result.from_dict(json.loads(result.to_json()))
    assert again.to_dict() == result.to_dict()
    assert again.particles == result.particles


def test_events_tell_the_run() -> None:
    events: list[Any] = []
    result = run(WORKS, on_event=events.append)
    steps = [e for e in events if isinstance(e, StepDone)]
    assert [e.step for e in steps] == [1, 2, 3] and steps[-1].finished == 4
    total = [sum(c.amount for s in steps for c in s.particles[i].changes) for i in range(4)]
    finished = [e for e in events if isinstance(e, RunFinished)]
    assert len(finished) == 1 and finished[0].log_evidence == result.log_evidence
    assert all(math.isfinite(t) for t in total)


def test_a_verifier_may_be_a_callable_or_a_command() -> None:
    assert steer(WORKS, verify=lambda text: len(text) == 3).verified is True
    command = [sys.executable, "-c", "import sys; sys.exit(len(sys.stdin.read()) != 3)"]
    assert steer(WORKS, verify=command).verified is True
    result = steer(WORKS, WORKS, verify=lambda text: False, retries=2)
    assert result.verified is False and len(result.attempts) == 2 and not result.passed
    assert steer(WORKS).verified is None


def test_what_the_verifier_rejects_goes_back_to_the_planner() -> None:
    planner = ReplayPlanner([WORKS, WORKS.replace("== 3", "== 4")])
    result = steer(planner=planner, verify=lambda text: len(text) == 4)
    assert result.verified is True
    assert "verifier rejected" in planner.feedback[1][0].error


@pytest.mark.parametrize("verify", [lambda text: 1 / 0, ["/no/such/command"]])
def test_a_broken_verifier_is_the_users_error(verify: Any) -> None:
    with pytest.raises(UsageError, match="verifier"):
        steer(WORKS, verify=verify)


# What the user may ask for --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"task": "  "}, "task is empty"),
        ({"n": 0}, "at least 1"),
        ({"timeout": -1.0}, "timeout"),
        ({"timeout": 0.0}, "timeout"),
        ({"timeout": math.nan}, "timeout"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"retries": 0}, "retries"),
        ({"sampler": "gibbs"}, "gibbs"),
        ({"sampler": "smc:3"}, "no option"),
        ({"planner": "oracle"}, "oracle"),
        ({"follower": "nobody"}, "nobody"),
        ({"follower": 7}, "int"),
        ({"sandbox": "bunker"}, "bunker"),
    ],
)
def test_wrong_arguments_are_usage_errors(options: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match) as caught:
        steer(WORKS, **options)
    assert caught.value.exit_code == 2


def test_a_missing_model_path_is_a_follower_error() -> None:
    """And no attempt: no program was tried, and a planner that may cost something is not asked."""
    planner = ReplayPlanner([WORKS])
    planner.trusted = False
    events: list[Any] = []
    with pytest.raises(FollowerError, match="no model directory") as caught:
        steer(planner=planner, follower="hf:./no/such/model", on_event=events.append)
    assert not planner.feedback and not events  # it was never asked
    assert caught.value.exit_code == 4 and caught.value.attempts == ()


def test_the_expert_is_asked_first_and_an_unloadable_follower_is_no_attempt() -> None:
    """It costs nothing, and says of a task what it cannot read before a model is loaded."""
    events: list[Any] = []
    options: Any = {"planner": "expert", "follower": "hf:./no/such/model", "task": "Sing to me."}
    with pytest.raises(UsageError, match="expert planner cannot read"):
        steer(**options)
    options["task"] = "Please generate a sentence with exactly 5 words."
    with pytest.raises(FollowerError, match="no model directory") as caught:
        steer(**options, on_event=events.append)
    assert caught.value.attempts == () and caught.value.cost == 0.0
    assert not [event for event in events if isinstance(event, AttemptFailed)]


def test_no_level_is_weakened_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without Landlock only programs that ship with the package run by default."""

    async def without_landlock(*_: Any) -> host.Witness:
        seen = await real()
        layers = {**seen.layers, "landlock": "the kernel has no Landlock"}
        return host.Witness("seccomp", layers, 0, seen.uid, seen.namespaces)

    real = host.witness
    monkeypatch.setattr(host, "witness", without_landlock)
    for sandbox in (None, "landlock+seccomp"):
        with pytest.raises(
            SandboxUnavailable, match="no Landlock.*5.13.*seccomp, process"
        ) as caught:
            steer(WORKS, sandbox=sandbox)
        assert caught.value.exit_code == 4
    assert steer(WORKS, sandbox="seccomp").sandbox["witnessed"] == "seccomp"
    ours = Program(WORKS, planner="expert", trusted=True)
    assert steer(ours, sandbox=None).sandbox["witnessed"] == "seccomp"
    with pytest.raises(SandboxUnavailable):
        steer(ours, sandbox="landlock+seccomp")


def test_without_fork_only_none_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.fork")
    with pytest.raises(SandboxUnavailable, match="sandbox none"):
        steer(WORKS, sandbox=None)
    ours = Program(WORKS, planner="expert", trusted=True)
    assert steer(ours, sandbox=None).sandbox["witnessed"] == "none"


# Loops ----------------------------------------------------------------------------------------


async def test_the_synchronous_forms_work_inside_a_running_loop() -> None:
    assert run(WORKS).text is not None
    assert steer(WORKS).text is not None


async def test_runs_side_by_side_share_a_follower_and_give_the_same_results() -> None:
    follower = toy()
    together = await asyncio.gather(
        *(
            arun_program(WORKS, follower=follower, sandbox="none", n=4, seed=s, timeout=60)
            for s in range(5)
        )
    )
    for seed, result in enumerate(together):
        alone = await arun_program(WORKS, follower=toy(), sandbox="none", n=4, seed=seed)
        assert texts(result) == texts(alone) and result.text == alone.text


async def test_a_cancelled_run_leaves_the_follower_usable() -> None:
    follower = toy()
    endless = "class InferenceModel(BaseModel):\n    async def step(self):\n"
    endless += "        await self.next_token()\n"
    planner = ReplayPlanner([endless])
    task = asyncio.ensure_future(
        aself_steer(
            Task("t", limits=Limits(max_steps=10**9)),
            planner=planner,
            follower=follower,
            sandbox="none",
        )
    )
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await arun_program(WORKS, follower=follower, sandbox="none", n=4, seed=3)
    fresh = await arun_program(WORKS, follower=toy(), sandbox="none", n=4, seed=3)
    assert texts(result) == texts(fresh)
