"""One call of the planner for a whole family of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from disciple_ext import PlannerError, Result, Task, UsageError, self_steer
from disciple_ext.planner.chat.openai import OpenAIPlanner
from disciple_ext.planner.chat.recording import RecordedPlanner
from disciple_ext.planner.library.store import Library
from disciple_ext.testing import ReplayPlanner

TASK = "Please generate a sentence with exactly {} characters. Include whitespace into your count."
# As a planner is asked to write it: the constants of the task come from its words.
FAMILY = '''
def arguments(task):
    form = r"Please generate a sentence with exactly (\\d+) characters\\. "
    found = re.fullmatch(form + r"Include whitespace into your count\\.", task)
    return {"length": int(found[1])} if found else None


class InferenceModel(BaseModel):
    """A sentence of exactly so many characters."""

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    @classmethod
    def proposal_prompt(cls):
        return f"Write a sentence with {cls.length} characters."

    async def step(self):
        room = self.length - 1 - len(self) - bool(self.text)
        if room <= 7 or (room <= 10 and self.random.random() < 0.5):
            await self.next_word(min_chars=room, max_chars=room, punctuation="")
        else:
            marks = "," if room > 12 else ""
            await self.next_word(max_chars=room - 4, punctuation=marks, capital=not self.text)
        if len(self) == self.length - 1:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(text) == self.length
'''


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setenv("DISCIPLE_LIBRARY", str(tmp_path / "library"))
    return Library(tmp_path / "library")


def steer(planner: Any, length: int, **options: Any) -> Result:
    task = Task(TASK.format(length), n=8)
    return self_steer(task, planner=planner, **{"library": "on", "seed": length, **options})


def asked_once(endpoint: Any, folder: Path) -> Result:
    """The first task, with a scripted answer; what is sent is counted at three characters a token,
    which is more than a tokenizer would find."""
    from disciple_ext.planner.chat.fewshot import chosen
    from disciple_ext.planner.chat.prompt import tutorial

    sent = len(tutorial()) + sum(len(e.task) + len(e.source) + 40 for e in chosen()) + 2000
    usage = {"prompt_tokens": sent // 3, "completion_tokens": len(FAMILY) // 3, "total_tokens": 0}
    endpoint.script(endpoint.program(FAMILY, usage=usage))
    planner = OpenAIPlanner("gpt-4o", cache=False, record=folder)
    result = steer(planner, 82)
    (request,) = endpoint.requests
    assert sum(len(m["content"]) for m in request["body"]["messages"]) <= sent
    assert "def arguments(task)" in request["body"]["messages"][1]["content"]
    return result


@pytest.mark.parametrize(
    "count", [pytest.param(3, id="3"), pytest.param(100, id="100", marks=pytest.mark.slow)]
)
def test_the_other_tasks_of_a_family_need_no_call(
    count: int, endpoint: Any, tmp_path: Path
) -> None:
    first = asked_once(endpoint, tmp_path / "answers")
    assert first.text is not None and len(first.text) == 82
    costs = [first.cost]
    # A replayed planner has that one answer: whatever else it is asked ends in an error.
    planner = RecordedPlanner(tmp_path / "answers")
    for length in range(83, 82 + count):
        result = steer(planner, length)
        assert result.text is not None and len(result.text) == length
        assert result.program["planner"].startswith("library:")
        costs.append(result.cost)
    assert costs[1:] == [0.0] * (count - 1)
    total = sum(cost for cost in costs if cost is not None)
    print(f"{count} tasks of one family: ${total:.4f}")
    assert 0.01 < total <= 0.10
    (entry,) = Library(tmp_path / "library").entries()
    assert entry.uses == count - 1 and entry.planner == "openai:gpt-4o"


def test_a_task_of_another_family_is_planned(endpoint: Any, tmp_path: Path) -> None:
    asked_once(endpoint, tmp_path / "answers")
    other = TASK.format(50) + " Include 9 characters."  # the same words, and a further demand
    with pytest.raises(PlannerError) as caught:
        self_steer(Task(other, n=4), planner=RecordedPlanner(tmp_path / "answers"), library="on")
    assert [a.outcome for a in caught.value.attempts] == ["WrongFamily", "PlannerError"]
    (entry,) = Library(tmp_path / "library").entries()
    assert entry.failed == (other,), "it is not tried on this task again"


def test_the_librarys_programs_are_none_of_the_r(library: Library) -> None:
    for k in range(2):
        library.record(ReplayPlanner([f"# {k}\n{FAMILY}"]).programs[0], TASK.format(82), True)
    fails = "class InferenceModel(BaseModel):\n    async def step(self):\n        1 / 0\n"
    works = FAMILY.replace("fullmatch", "match")
    task = TASK.format(50) + " Include 9 characters."
    result = self_steer(
        Task(task, n=4),
        planner=ReplayPlanner([fails, works]),
        library="read",
        retries=2,
        sandbox="none",
    )
    outcomes = [attempt.outcome for attempt in result.attempts]
    assert outcomes == ["WrongFamily", "WrongFamily", "ProgramCrashed", "ok"]


def test_read_only_keeps_nothing(library: Library) -> None:
    steer(ReplayPlanner([FAMILY]), 60, library="read", sandbox="none")
    assert library.entries() == []


def test_a_library_that_cannot_be_written_loses_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DISCIPLE_LIBRARY", str(tmp_path / "file" / "library"))
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        result = steer(ReplayPlanner([FAMILY]), 60, sandbox="none")
    assert result.text is not None and len(result.text) == 60


def test_a_librarys_program_whose_check_rejects_its_texts_gives_way(library: Library) -> None:
    bad = FAMILY.replace("len(text) == self.length", "False")
    library.record(ReplayPlanner([bad]).programs[0], TASK.format(82), True)
    task = Task(TASK.format(50).replace("your count", "your character count"), n=8)
    library.record(ReplayPlanner([bad]).programs[0], task.instruction, True)
    result = self_steer(task, planner="expert", library="read", sandbox="none")
    assert [a.outcome for a in result.attempts][-1] == "ok" and len(result.attempts) == 2
    assert result.check is True and result.program["planner"] == "expert"


def test_an_answer_is_kept_where_its_verifier_fails(tmp_path: Path) -> None:
    def verify(text: str) -> bool:
        raise OSError("no network")

    with pytest.raises(UsageError, match="no network") as caught:
        self_steer(Task(TASK.format(50), n=8, verify=verify), planner=ReplayPlanner([FAMILY]))
    kept = caught.value.result
    assert isinstance(kept, Result) and kept.text is not None and len(kept.text) == 50


def test_a_verifier_that_is_not_there_is_told_before_anything_is_paid(endpoint: Any) -> None:
    task = Task(TASK.format(50), n=8, verify=["no-such-command"])
    with pytest.raises(UsageError, match="no such command"):
        self_steer(task, planner="openai:gpt-4o")
    assert endpoint.requests == []
