"""What a planner answered is on record, and is replayed without a key."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from disciple_ext import self_steer
from disciple_ext.errors import PlannerError, UsageError
from disciple_ext.planner.chat.openai import OpenAIPlanner
from disciple_ext.planner.chat.recording import RecordedPlanner
from disciple_ext.records.result import Usage
from disciple_ext.records.task import Task
from disciple_ext.testing import ToyFollower

TASK = Task("Write three letters.")
CRASHES = "class InferenceModel(BaseModel):\n    async def step(self):\n        1 / 0\n"
WORKS = (
    "class InferenceModel(BaseModel):\n    async def step(self):\n        await self.next_token()\n"
    "        if self.context.token_count == 3:\n            await self.end()\n"
)


def steer(planner: Any, **options: Any) -> Any:
    toy = ToyFollower.random(2, ["a", "b", "c"])
    return self_steer(TASK, planner=planner, follower=toy, sandbox="none", n=4, **options)


def test_a_run_is_repeated_from_its_recordings(
    endpoint: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.script(endpoint.program(CRASHES), endpoint.program(WORKS))
    live = steer(OpenAIPlanner("gpt-4o", record=tmp_path))
    assert [a.outcome for a in live.attempts] == ["ProgramCrashed", "ok"]
    assert live.cost > 0 and len(list(tmp_path.iterdir())) == 2
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    again = steer(f"replay:{tmp_path}")
    assert [p.text for p in again.particles] == [p.text for p in live.particles]
    assert [a.program for a in again.attempts] == [a.program for a in live.attempts]
    assert all(a.cached_answer and a.cost == 0.0 for a in again.attempts)
    assert (again.cost, again.usage.planner_input) == (0.0, 0)
    assert again.program["planner"] == f"replay:{tmp_path}"
    assert len(endpoint.requests) == 2


async def test_a_person_can_read_a_recording(endpoint: Any, tmp_path: Path) -> None:
    endpoint.script(endpoint.program())
    planner = OpenAIPlanner("gpt-4o", record=tmp_path)
    await planner.plan(TASK, ())
    (path,) = tmp_path.iterdir()
    assert re.fullmatch(r"gpt-4o-[0-9a-f]{16}\.json", path.name)
    text = path.read_text()
    recording = json.loads(text)
    assert recording["asked"]["model"] == "gpt-4o" and recording["retry"] == 0
    assert recording["messages"][-1]["content"].count(TASK.instruction)
    assert recording["answer"]["cost"] == pytest.approx(0.00074)
    assert "sk-secret" not in text and text.count("\n") > 10
    # What comes from the cache is recorded too, with what it cost when it was asked for.
    path.unlink()
    await planner.plan(TASK, ())
    assert json.loads(path.read_text())["answer"] == recording["answer"]


async def test_a_missing_recording_says_what_there_is(endpoint: Any, tmp_path: Path) -> None:
    endpoint.script(endpoint.program())
    await OpenAIPlanner("m", record=tmp_path).plan(TASK, ())
    with pytest.raises(PlannerError) as caught:
        await RecordedPlanner(tmp_path).plan(Task("Write an ode."), ())
    said = str(caught.value)
    key = re.search(r"no recording ([0-9a-f]{16})", said)
    assert key and "Write an ode." in said and "Write three letters." in said
    assert caught.value.cost == 0.0
    (path,) = tmp_path.iterdir()
    recording = json.loads(path.read_text())
    recording["messages"][0]["content"] = "another tutorial"
    path.write_text(json.dumps(recording))
    with pytest.raises(PlannerError, match="same with another tutorial"):
        await RecordedPlanner(tmp_path).plan(TASK, ())


async def test_directories_that_cannot_be_replayed(endpoint: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no directory.*--record"):
        RecordedPlanner(tmp_path / "gone")
    with pytest.raises(UsageError, match="holds no recordings"):
        RecordedPlanner(tmp_path)
    (tmp_path / "other.json").write_text("[1, 2]")
    with pytest.raises(UsageError, match="other.json is no recording"):
        RecordedPlanner(tmp_path)
    (tmp_path / "other.json").unlink()
    endpoint.script(endpoint.program(), endpoint.program())
    for model in ("a", "b"):
        await OpenAIPlanner(model, record=tmp_path).plan(TASK, ())
    with pytest.raises(UsageError, match="two answers to one conversation, of a and b"):
        RecordedPlanner(tmp_path)


async def test_a_recording_that_cannot_be_written(endpoint: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    endpoint.script(endpoint.program())
    with pytest.raises(UsageError, match="cannot be recorded") as caught:
        await OpenAIPlanner("gpt-4o", record=tmp_path / "file").plan(TASK, ())
    assert caught.value.cost == pytest.approx(0.00074)
    # The answer was paid for, and is not lost: it is in the cache.
    assert (await OpenAIPlanner("gpt-4o").plan(TASK, ())).usage == Usage()
