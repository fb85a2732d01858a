"""The record says what the events said, in LLaMPPL's format too, and stays within its bound."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llamppl.inference.smc_record import SMCRecord

from disciple_ext import DiscipleError, UsageError, run_program
from disciple_ext.model.base import BaseModel
from disciple_ext.records.events import (
    ParticleFinished,
    ParticleState,
    Resampled,
    RunStarted,
    StepDone,
    WeightChange,
)
from disciple_ext.records.task import Limits
from disciple_ext.samplers import weights
from disciple_ext.samplers.base import Population, Run
from disciple_ext.testing import ToyFollower
from disciple_ext.trace.llamppl import texts_of
from disciple_ext.trace.record import Record, Recorder


@pytest.fixture(params=["toy", "embedded"])
def traced(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def logs(values: list[float | None]) -> list[float]:
    return [-math.inf if value is None else value for value in values]


def test_steps_say_what_the_events_said(traced: Any) -> None:
    run, texts = traced.run, texts_of(traced.run)
    assert len(run["steps"]) == len(traced.steps) > 3
    for told, event in zip(run["steps"], traced.steps, strict=True):
        rows = told["rows"]
        assert (told["step"], told["alive"], told["tokens"]) == (
            event.step, event.alive, event.tokens)  # fmt: skip
        assert told["ess"] == pytest.approx(event.ess, abs=1e-4)
        assert texts[told["step"]] == [s.text for s in event.particles]
        weights = [s.log_weight for s in event.particles]
        assert logs(rows["log_weight"]) == pytest.approx(weights, abs=1e-4)
        dead = [w == -math.inf for w in weights]
        ended = [s.finished for s in event.particles]
        letters = "".join("d" if d else "e" if e else "r" for d, e in zip(dead, ended, strict=True))
        assert rows["state"] == letters


def test_every_change_of_a_weight_is_accounted_for(traced: Any) -> None:
    """What a particle had, the average after a resampling, and the step's changes add up."""
    run = traced.run
    resampled = {entry["after"] for entry in run["resampled"]}
    before: list[float] = []
    last = 0
    for step in run["steps"]:
        rows = step["rows"]
        now = logs(rows["log_weight"])
        average = weights.log_mean(before) if last in resampled else None
        for origin, flat, weight in zip(rows["from"], rows["changes"], now, strict=True):
            had = 0.0 if origin == -1 else before[origin] if average is None else average
            total = sum(logs(flat[1::2]))
            assert weight == pytest.approx(had + total, abs=2e-3)
        before, last = now, step["step"]


def test_ancestors_and_the_population_are_the_runs(traced: Any) -> None:
    heard = [e for e in traced.events if isinstance(e, Resampled)]
    assert [r["ancestors"] for r in traced.run["resampled"]] == [list(e.ancestors) for e in heard]
    assert len(heard) > 0
    texts = texts_of(traced.run)
    for told, particle in zip(traced.run["final"], traced.result.particles, strict=True):
        assert told["text"] == particle.text and told["check"] == particle.check
        assert told["weight"] == pytest.approx(particle.weight, abs=1e-6)
        step, place = told["from"]
        assert texts[step][place] == particle.text
    ends = [(e.step, e.index) for e in traced.events if isinstance(e, ParticleFinished)]
    assert [(step, index) for step, index, *_ in traced.run["ends"]] == ends


def test_a_change_names_its_line_its_masks_and_what_it_was(toy: Any) -> None:
    run, source = toy.run, toy.result.program["source"].splitlines()
    told = {
        (run["strings"][cause], run["strings"][masks], run["strings"][what]): source[line - 1]
        for cause, line, masks, what in run["sources"]
    }
    assert "next_token" in told["draw", "AvoidWordsMask(['rain'])", "text"]
    assert "force" in told["force", "", " river"]
    assert "end()" in told["end", "", "end of text"]
    (death,) = [line for (cause, *_), line in told.items() if cause == "condition_false"]
    assert "condition" in death
    hints = {run["strings"][h] for s in run["steps"] for h in s["rows"].get("hint", ())}
    assert hints - {""} == {"be brief"}
    reasons = {run["strings"][reason] for *_, reason in run["ends"]}
    assert "condition(False) (program line 11)" in reasons


def test_nothing_is_explained_where_nobody_asked(run_toy: Callable[..., Any]) -> None:
    silent = run_toy(trace=False)
    changes = [c for e in silent.steps for s in e.particles for c in s.changes]
    assert changes and all((c.line, c.masks, c.what) == (None, "", "") for c in changes)
    assert silent.result.record is None
    assert silent.result.particles == run_toy().result.particles


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_a_worker_tells_the_same(toy: Any, run_toy: Callable[..., Any]) -> None:
    def without_times(run: dict[str, Any]) -> dict[str, Any]:
        steps = [{**step, "seconds": 0} for step in run["steps"]]
        return {**run, "seconds": 0, "steps": steps}

    assert without_times(run_toy(sandbox="process").run) == without_times(toy.run)


@pytest.mark.parametrize("sampler", ["is", "rs:stop_after=3", "smc-steer"])
def test_lineages_hold_under_other_samplers(sampler: str, run_toy: Callable[..., Any]) -> None:
    traced = run_toy(sampler=sampler)
    texts = texts_of(traced.run)
    assert [texts[e.step] for e in traced.steps] == [
        [s.text for s in e.particles] for e in traced.steps
    ]
    for step in traced.run["steps"]:
        assert "kept" not in step["rows"], "every text goes on from where the particle was"
    for told in traced.run["final"]:
        assert texts[told["from"][0]][told["from"][1]] == told["text"]


class Beside:
    """Plain SMC that keeps LLaMPPL's own record of the same particles."""

    name, kind = "beside", "weighted"

    def __init__(self) -> None:
        self.record: Any = None

    async def __call__(self, run: Run, n: int) -> Population:
        self.record, ancestors = SMCRecord(n), None
        particles = await run.spawn(n)
        while not all(p.done_stepping() for p in particles):
            await run.step(particles)
            if not self.record.history:
                self.record.add_init(particles)
            elif ancestors is not None:
                self.record.add_resample(ancestors, particles)
            else:
                self.record.add_smc_step(particles)
            ancestors = None
            average = weights.log_mean([p.weight for p in particles])
            if run.steps % 2 == 0 and average > -math.inf:
                shares = weights.normalise([p.weight for p in particles])
                ancestors = sorted(run.rng.choice(n, n, p=shares).tolist())
                particles = run.resample(particles, ancestors)
                for particle in particles:
                    particle.weight = average
        return Population(tuple(particles), weights.log_mean([p.weight for p in particles]))


def test_the_record_contains_llamppls_own(run_toy: Callable[..., Any]) -> None:
    sampler = Beside()
    traced = run_toy(sampler=sampler)
    theirs = json.loads(sampler.record.to_json())
    ours = json.loads(json.dumps(traced.result.record.llamppl()))
    assert {step["mode"] for step in theirs} == {"init", "smc_step", "resample"}
    assert len(ours) == len(theirs)
    for mine, own in zip(ours, theirs, strict=True):
        assert {k: mine[k] for k in mine if k != "particles"} == {
            k: own[k] for k in own if k != "particles"
        }
        for a, b in zip(mine["particles"], own["particles"], strict=True):
            assert set(a) == set(b)
            text = b["contents"].removeprefix("<<<>>>")
            assert a["contents"].replace("<<<", "").replace(">>>", "") == text
            assert a["contents"].endswith(">>>")
            assert (a["logweight"] == "-Infinity") == (b["logweight"] == "-Infinity")
            for name in ("logweight", "weight_incr"):
                told, known = (float(x[name].replace("Infinity", "inf")) for x in (a, b))
                assert told == pytest.approx(known, abs=2e-4, nan_ok=True)


async def test_a_recorder_hears_a_bare_run() -> None:
    """Without a task, a program or the outer loop: an observer of a sampler's run."""
    from disciple_ext.records.task import Task
    from disciple_ext.run.particles import make_particle
    from disciple_ext.samplers.smc import SMCSampler

    class Two(BaseModel):
        async def step(self) -> None:
            await self.next_token()
            if len(self.words) == 2:
                self.finish()

    follower, recorder = ToyFollower.random(1, [" a", " b"]), Recorder()
    run = Run(
        lambda index: make_particle(Two, Task("t"), follower, 1, index),
        seed=1,
        limits=Limits(),
        observers=(recorder,),
    )
    await SMCSampler()(run, 4)
    (told,) = recorder.record().data["runs"]
    assert [len(step["rows"]["add"]) for step in told["steps"]] == [4, 4]
    assert told["sources"] and told["final"] == []


# Bounds -----------------------------------------------------------------------------------------


def crowd(step: int, texts: list[str], cause: str = "draw") -> StepDone:
    change = (WeightChange(cause, -1.0, 3, "", "x"),)
    origin = (lambda i: (step - 1, i)) if step > 1 else (lambda i: None)
    states = [
        ParticleState(t, -1.0, 0.0, 0.0, change, "", False, None, origin(i))
        for i, t in enumerate(texts)
    ]
    return StepDone(step, len(texts), 0, 1.0, "", 1, tuple(states))


@pytest.mark.parametrize(
    "grow",
    [
        lambda step: [f"{step} {i} " + "<" * 3000 for i in range(40)],
        lambda step: ["é" * 20 * step] * 1500,
        lambda step: [f"{step}-{i}" for i in range(1000)],
        lambda step: ["x" * 900_000],
    ],
    ids=["brackets", "many", "strings", "long"],
)
def test_a_record_is_bounded_and_says_what_it_left_out(grow: Callable[[int], list[str]]) -> None:
    recorder = Recorder(limit=200_000)
    recorder(RunStarted(1, "smc", 1.0))
    for step in range(1, 25):
        recorder(crowd(step, grow(step), cause=f"cause {step}"))
        recorder(Resampled(step, tuple(range(1500)), 1.0))
        recorder(ParticleFinished(0, step, "", -1.0, "ended", f"{step}" * 300))
    record = recorder.record()
    written = record.to_json().replace("<", "\\u003c").encode()
    assert len(written) < 230_000
    run = record.data["runs"][0]
    assert len(run["steps"]) == 24
    if len(grow(1)) > 1:
        assert run["cut"]["untold"] == sum("rows" not in step for step in run["steps"]) > 0
    assert record.to_html()


def test_a_later_run_takes_the_room_of_earlier_ones() -> None:
    recorder = Recorder(limit=100_000)
    for _ in range(3):
        recorder(RunStarted(50, "smc", 1.0))
        for step in range(1, 20):
            recorder(crowd(step, [f"{step} {i} and on" for i in range(50)]))
    first, _, last = recorder.record().data["runs"]
    assert first["cut"]["forgotten"] > 0 and not any("rows" in s for s in first["steps"])
    assert sum("rows" in step for step in last["steps"]) > 10
    assert len(recorder.record().to_json()) < 115_000


# Files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run.json", "run.html"])
def test_a_record_is_read_back_from_either_file(name: str, toy: Any, tmp_path: Path) -> None:
    toy.result.record.save(tmp_path / name)
    assert Record.load(tmp_path / name).data == json.loads(toy.result.record.to_json())


def test_what_is_no_record_is_refused(toy: Any, tmp_path: Path) -> None:
    for name, text, said in [
        ("a.json", "{", "cannot read"),
        ("b.json", "[1]", "no trace"),
        ("c.json", '{"schema": 1}', "no trace of this version"),
        ("d.html", "<p>hello</p>", "holds no trace"),
        ("e.json", json.dumps({**toy.result.record.data, "schema": 2}), "schema 2"),
    ]:
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError, match=said):
            Record.load(tmp_path / name)
    with pytest.raises(UsageError, match="cannot read"):
        Record.load(tmp_path / "none.json")
    with pytest.raises(UsageError, match=r"name\.html or name\.json"):
        toy.result.record.save(tmp_path / "run.txt")
    with pytest.raises(UsageError, match="no folder|folder is not there"):
        toy.result.record.save(tmp_path / "none" / "run.html")


def test_a_run_that_fails_leaves_its_record_and_its_error() -> None:
    recorder = Recorder()
    source = (
        "class InferenceModel(BaseModel):\n"
        "    async def step(self):\n"
        "        await self.next_token()\n"
        "        if len(self.words) == 3: 1 / 0\n"
    )
    follower = ToyFollower.random(1, [" a", " b"])
    with pytest.raises(DiscipleError) as caught:
        run_program(source, follower=follower, n=3, sandbox="none", trace=recorder)
    record = recorder.close(caught.value)
    (attempt,) = record.data["attempts"]
    assert attempt["outcome"] == "ProgramCrashed" and "line 4" in attempt["error"]
    assert "1 / 0" in attempt["traceback"] and attempt["program"] == source
    assert len(record.data["runs"][0]["steps"]) == 2 and record.data["answer"] is None


def test_numbers_of_a_record_are_json(toy: Any) -> None:
    text = toy.result.record.to_json()
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert np.isfinite(toy.run["log_evidence"])
