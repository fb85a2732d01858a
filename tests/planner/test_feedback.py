"""The diagnosis of a run, made of its events."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from disciple_ext import Program, Result, run_program
from disciple_ext.errors import NoParticleAlive
from disciple_ext.planner.feedback import Diagnosis, judge, outputs
from disciple_ext.records.events import ParticleFinished, ParticleState, RunStarted, StepDone
from disciple_ext.records.result import Particle, Usage
from disciple_ext.testing import ToyFollower

MASKED = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        if len(self) == 3:
            async with CharsMask(self, "ab"), AvoidCharsMask(self, "ab"):
                await self.next_token()
"""
SCORED = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.next_token()
        if len(self) == 2:
            self.score(-40.0 if token != "a" else 0.0)
        if len(self) == 4:
            await self.end()
"""


def listen(source: str, n: int = 16, sampler: str = "is") -> Diagnosis:
    diagnosis = Diagnosis(source)
    follower = ToyFollower.random(2, ["a", "b", "c", "d", "e"])
    try:
        run_program(
            Program(source),
            follower=follower,
            sandbox="none",
            n=n,
            sampler=sampler,
            on_event=diagnosis,
        )
    except NoParticleAlive:
        pass
    return diagnosis


def test_it_says_which_masks_left_nothing_and_where() -> None:
    diagnosis = listen(MASKED)
    (end,) = diagnosis.ends()
    assert end.startswith("16 times a particle ended with impossible_mask in line 7")
    assert "first at step 3" in end and "CharsMask(ab), AvoidCharsMask(ab)" in end
    assert "the text so far is" in end and "Fix: test the room" in end
    assert diagnosis.began and diagnosis.over
    assert "16 particles made 3 steps and 64 tokens" in diagnosis.sentences()[0]
    assert [len(text) for text, _ in diagnosis.texts()] == [3, 3, 3]


def test_it_says_where_the_weights_collapsed_and_why() -> None:
    diagnosis = listen(SCORED)
    told = diagnosis.sentences()
    (fall,) = [s for s in told if "collapsed" in s]
    assert "at step 2" in fall and "score -" in fall
    assert "16 ended well" in told[0] and not diagnosis.ends()


def test_what_it_keeps_is_bounded_whatever_the_program_says() -> None:
    diagnosis = Diagnosis(SCORED)
    diagnosis(RunStarted(2, "smc", 1.0))
    state = ParticleState("x", -math.inf, 0.0, 0.0, (), "", True, None)
    for step in range(1, 500):
        for index in (0, 1, 7):
            diagnosis(ParticleFinished(index, step, "x", -math.inf, f"reason {step}", "r" * 10_000))
        diagnosis(StepDone(step, 0, 0, 1.0, "x", step, (state, state)))
    told = diagnosis.sentences()
    assert len(told) < 12 and sum(map(len, told)) < 8_000


def test_a_run_that_was_cut_off_has_a_diagnosis_too() -> None:
    diagnosis = Diagnosis("this is not Python (")
    diagnosis(RunStarted(8, "smc", 1.0))
    assert not diagnosis.over and diagnosis.texts() == ()
    assert diagnosis.sentences() == ("no particle came to the end of its first step",)


# Judging ----------------------------------------------------------------------------------------


def particle(text: str, check: bool | None = None, log_weight: float = 0.0) -> Particle:
    return Particle(text, log_weight, 0.1, check, "ended", "", 3)


def result(*particles: Particle, ess: float = 8.0, **facts: object) -> Result:
    settled = {"verified": None, "check": particles[0].check, **facts}
    return Result(
        text=particles[0].text,
        text_rule="weighted_all",
        particles=particles,
        log_evidence=0.0,
        ess=ess,
        program={},
        attempts=(),
        usage=Usage(),
        cost=None,
        seed=0,
        sandbox={},
        **settled,  # type: ignore[arg-type]
    )


MANY = [particle(f"text {k}") for k in range(8)]
SOURCE = SCORED + "\n    def check(self, text):\n        return False\n"


@pytest.mark.parametrize(
    ("found", "warnings", "says"),
    [
        (result(*MANY), (), ""),
        (result(*MANY, verified=False), (), "verifier rejected the answer 'text 0'"),
        (result(*MANY), ("line 3: off by one",), "line 3: off by one"),
        (result(*MANY, verified=True), ("line 3: off by one",), ""),
        (result(*MANY, ess=1.1), (), "one particle holds nearly all the weight"),
        (result(*MANY, ess=1.1, check=True), (), ""),
        (result(*[particle("same")] * 8), (), "the same text"),
        (result(*[particle("same")] * 4), (), ""),
        (result(*[particle("same", True)] * 8), (), ""),
        (result(particle(" ", True)), (), "empty"),
        (
            result(*[particle("a", False)] * 3),
            (),
            "check (line 10) rejected every finished text, 3",
        ),
        (result(particle("a", False), particle("b", True)), (), ""),
    ],
)
def test_what_speaks_against_a_finished_run(
    found: Result, warnings: tuple[str, ...], says: str
) -> None:
    told = judge(found, SOURCE, warnings)
    assert says in told and bool(told) == bool(says)


def test_outputs_are_three_different_texts_with_their_verdicts() -> None:
    dead = replace(particle("dead"), log_weight=-math.inf)
    told = outputs([dead, particle("b", False, -2.0), *[particle("a", True, -1.0)] * 9, *MANY])
    assert len(told) == 3 and "dead" not in dict(told)
    assert dict(outputs([particle("b", False)])) == {"b": "check rejected it, 1 characters"}
