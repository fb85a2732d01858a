"""The program library: what is kept, what is found again, and what is left alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from disciple_ext import EvaluationError, Program, Task, UsageError
from disciple_ext.evaluation.suites.collie import TASKS, load_instances
from disciple_ext.planner.base import Feedback, Plan
from disciple_ext.planner.library.planner import LibraryPlanner, is_from_library
from disciple_ext.planner.library.store import ALIKE, Library, likeness

STEP = "class InferenceModel(BaseModel):\n    async def step(self):\n        await self.end()\n"
FAMILY = f"def arguments(task):\n    return None\n\n{STEP}"
CHARS = "Please generate a sentence with exactly {} characters. Include whitespace into your count."
GIVEN = "Please generate a sentence:\n1) with exactly {} words;\n2) with the {} words to be {}."


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "library")


class Asked:
    """A planner that writes its tasks into programs, and remembers what it was asked."""

    name = "asked"

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Feedback, ...]]] = []

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        self.calls.append((task.instruction, tuple(feedback)))
        return Plan(Program(f"# {len(self.calls)}\n{FAMILY}", planner="asked"))


def failed(program: Program) -> Feedback:
    return Feedback(program, "it failed", "", 1)


def test_likeness_sees_the_family_and_not_the_constants() -> None:
    assert likeness(CHARS.format(82), CHARS.format(7)) == 1.0
    one = GIVEN.format(12, "4th, 8th, 11th", "'old', 'river', 'stone' respectively")
    other = GIVEN.format(9, "2nd", "'a b, c' respectively")
    assert likeness(one, other) == 1.0
    assert likeness(one, CHARS.format(82)) < ALIKE


def test_the_types_of_collie_are_told_apart() -> None:
    try:
        instances = load_instances(None)
    except EvaluationError:
        pytest.skip("COLLIE's instances are not here; set DISCIPLE_COLLIE")
    first = {task: next(i.prompt for i in instances if i.task == task) for task in TASKS}
    for instance in instances:
        alike = {t for t, prompt in first.items() if likeness(prompt, instance.prompt) >= ALIKE}
        assert alike == {instance.task}, instance.prompt


def test_a_program_for_a_family_is_found_for_its_other_tasks(library: Library) -> None:
    entry = library.record(Program(FAMILY, planner="openai:x"), CHARS.format(82), True)
    assert entry is not None and entry.general
    assert library.candidates(CHARS.format(40)) == [entry]
    assert library.candidates("Write a poem about rain.") == []
    assert entry.program.planner == f"library:{entry.name}" and not entry.program.trusted


def test_a_program_without_arguments_is_for_its_own_task(library: Library) -> None:
    entry = library.record(Program(STEP), CHARS.format(82), True)
    assert entry is not None and not entry.general
    assert library.candidates(CHARS.format(82)) == [entry]
    assert library.candidates(CHARS.format(40)) == []


def test_what_failed_on_a_task_is_not_used_for_it(library: Library) -> None:
    program = Program(FAMILY)
    assert library.record(program, CHARS.format(3), False) is None, "only what passed is kept"
    library.record(program, CHARS.format(82), True)
    library.record(program, CHARS.format(3), False)
    assert library.candidates(CHARS.format(3)) == []
    assert len(library.candidates(CHARS.format(5))) == 1


def test_a_held_out_family_is_neither_used_nor_shown(library: Library) -> None:
    library.record(Program(FAMILY), CHARS.format(82), True, family="sent_01")
    other = library.record(Program(f"#\n{FAMILY}"), "Write a poem.", True, family="poem")
    assert library.candidates(CHARS.format(40), hold_out="sent_01") == []
    assert library.nearest(CHARS.format(40), 5, hold_out="sent_01") == [other]
    assert len(library.nearest(CHARS.format(40), 5)) == 2


def test_entries_carry_where_they_come_from_and_how_they_did(library: Library) -> None:
    program = Program(FAMILY, planner="openai:gpt-4o")
    library.record(program, CHARS.format(82), True, family="sent_01")
    library.record(program, CHARS.format(40), True)
    library.record(program, CHARS.format(40), True)
    (entry,) = library.entries()
    assert (entry.planner, entry.family, entry.uses) == ("openai:gpt-4o", "sent_01", 2)
    assert entry.passed == (CHARS.format(82), CHARS.format(40))
    assert entry.created.endswith("Z") and entry.version


def test_what_is_no_entry_is_left_out(library: Library) -> None:
    library.record(Program(FAMILY), CHARS.format(82), True)
    (path,) = library.folder.glob("*.json")
    (library.folder / "notes.json").write_text("no JSON")
    (library.folder / "list.json").write_text("[]")
    changed = json.loads(path.read_text()) | {"source": "import os"}
    (library.folder / f"{'0' * 12}.json").write_text(json.dumps(changed))
    assert len(library.entries()) == 1, "a source that is not the named one is not run"
    whole = json.loads(path.read_text())
    wrong: list[dict[str, object]] = [
        *({"task": 5}, {"source": 5}, {"created": None}, {"passed": "x"}, {"failed": [1]}),
        *({"uses": None}, {"family": 3}, {"source": "\ud800"}, {"more": 1}),
    ]
    for k, change in enumerate(wrong):
        (library.folder / f"{k:012}.json").write_text(json.dumps(whole | change))
    (library.folder / "deep.json").write_text("[" * 100_000)
    (library.folder / "folder.json").mkdir()
    assert len(library.entries()) == 1


def test_a_pass_wipes_out_a_failure(library: Library) -> None:
    program, task = Program(FAMILY), CHARS.format(40)
    library.record(program, CHARS.format(82), True)
    library.record(program, task, False)
    library.record(program, task, True)
    (entry,) = library.candidates(task)
    assert entry.failed == ()


def test_a_word_that_no_task_of_the_family_had_is_a_further_demand(library: Library) -> None:
    library.record(Program(FAMILY), "Write a sentence of exactly 6 words.", True)
    assert library.candidates("Write a sentence of exactly 5 words.")
    assert not library.candidates("Write a sentence of exactly 5 words without commas.")


def test_a_program_is_named_by_how_its_name_begins(library: Library) -> None:
    entry = library.record(Program(FAMILY), "x", True)
    assert entry is not None
    assert library.get(entry.name[:4]) == entry
    with pytest.raises(UsageError, match="library list"):
        library.get("zzz")
    library.forget(entry.name)
    assert library.entries() == []


def test_a_folder_that_cannot_be_used_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        Library(tmp_path / "file" / "library").record(Program(FAMILY), "x", True)


async def test_the_planner_is_asked_only_where_the_library_has_nothing(library: Library) -> None:
    inner = Asked()
    planner = LibraryPlanner(inner, library, writable=True)
    first = await planner.plan(Task(CHARS.format(82)), ())
    assert first.asked and len(inner.calls) == 1
    planner.learn(Task(CHARS.format(82)), first.program, True)
    for k in range(3, 20):
        plan = await planner.plan(Task(CHARS.format(k)), ())
        assert not plan.asked and is_from_library(plan.program)
    assert len(inner.calls) == 1
    assert (await planner.plan(Task("Write a poem."), ())).asked


async def test_the_planner_hears_nothing_of_the_librarys_failures(library: Library) -> None:
    inner = Asked()
    planner = LibraryPlanner(inner, library, writable=False)
    for k in range(3):
        library.record(Program(f"#{k}\n{FAMILY}"), CHARS.format(82), True)
    task = Task(CHARS.format(40))
    feedback: list[Feedback] = []
    for _ in range(2):
        plan = await planner.plan(task, feedback)
        assert is_from_library(plan.program)
        feedback.append(failed(plan.program))
    assert feedback[0].program != feedback[1].program
    plan = await planner.plan(task, feedback)
    assert plan.asked and inner.calls == [(task.instruction, ())]
    feedback.append(failed(plan.program))
    plan = await planner.plan(task, feedback)
    assert plan.asked and [f.program.planner for f in inner.calls[1][1]] == ["asked"]


async def test_an_evaluation_leaves_the_tasks_own_family_alone(library: Library) -> None:
    library.record(Program(FAMILY), CHARS.format(82), True, family="sent_01")
    task = replace(Task(CHARS.format(40)), family="sent_01")
    assert (
        await LibraryPlanner(Asked(), library, writable=True, hold_out=True).plan(task, ())
    ).asked
    assert not (await LibraryPlanner(Asked(), library, writable=True).plan(task, ())).asked


def test_read_only_libraries_are_not_written(library: Library) -> None:
    LibraryPlanner(Asked(), library, writable=False).learn(Task("x"), Program(FAMILY), True)
    assert not library.folder.exists()
