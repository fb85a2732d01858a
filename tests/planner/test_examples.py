"""The expert programs: each is short, is accepted, and solves its task."""

from __future__ import annotations

from typing import Any

import pytest

from disciple_ext import Limits, Task, UsageError, run_program
from disciple_ext.cli.planner import make_planner
from disciple_ext.demo import DEMO
from disciple_ext.evaluation.suites import collie
from disciple_ext.evaluation.suites.puzzles import PUZZLES
from disciple_ext.planner.chat.fewshot import (
    PUZZLE_NAMES,
    WORD_NAMES,
    Example,
    chosen,
    expert_examples,
)
from disciple_ext.sandbox.check.check import check

DEMO_BY_TYPE = {task.type: task for task in DEMO}
WORDS = {"word_01": 10, "word_02": [13, ["e", "a", "o"]], "word_03": [9, "c"]}
EXAMPLES = {example.name: example for example in expert_examples()}


def verified(example: Example, text: str) -> bool:
    """The ground truth, which knows nothing of the programs."""
    if example.name in PUZZLES:
        return PUZZLES[example.name].verify(text).passed
    if example.name in WORDS:
        return collie.verify(example.name, WORDS[example.name], text)
    task = DEMO_BY_TYPE[example.name]
    return collie.verify(task.type, task.targets, text)


def test_there_is_one_for_each_type_with_the_task_it_solves() -> None:
    prompts = {task.type: task.prompt for task in DEMO} | {n: p.prompt for n, p in PUZZLES.items()}
    found = {name: example.task for name, example in EXAMPLES.items() if name not in WORDS}
    assert found == prompts and set(WORDS) == set(WORD_NAMES)
    assert set(PUZZLE_NAMES) == set(PUZZLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_short_and_passes_the_static_check(name: str) -> None:
    source = EXAMPLES[name].source
    assert source.startswith("class InferenceModel(BaseModel):")
    assert len(source.splitlines()) <= 60
    assert max(map(len, source.splitlines())) <= 100
    assert check(source) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_solves_its_task(name: str) -> None:
    example = EXAMPLES[name]
    task = Task(example.task, n=8, limits=Limits(timeout=120))
    result = run_program(example.source, task, seed=1)
    alive = [p for p in result.particles if p.weight > 0]
    passed = sum(p.weight for p in alive if verified(example, p.text))
    assert passed == pytest.approx(1.0), [p.text for p in alive]
    assert all(p.check == verified(example, p.text) for p in alive)


def test_the_targets_own_type_is_held_out() -> None:
    assert [e.name for e in chosen()] == list(EXAMPLES)
    assert "sent_02" not in {e.name for e in chosen(["sent_02"])}
    assert len(chosen(["sent_02"])) == 8, "COLLIE's examples for a task of COLLIE"
    assert len(chosen(["square_poem"])) == 12, "both suites' for one of PUZZLES"
    assert {e.name for e in chosen(["word_02"])} >= {"word_01", "word_03", "sent_01"}


def told(examples: str, family: str | None) -> set[str]:
    """The names of the examples that a chat planner's model is shown."""
    planner: Any = make_planner("openai:m", examples=examples)
    conversation = planner._messages(Task("Write a poem.", family=family), ())
    system = conversation[0]["content"]
    return {name for name, example in EXAMPLES.items() if example.source.strip() in system}


def test_a_chat_model_is_shown_examples_and_never_its_targets_own() -> None:
    assert told("held-out", None) == set(EXAMPLES)
    assert "para_05" not in told("held-out", "para_05") and len(told("held-out", "para_05")) == 8
    assert told("reference", "para_05") == {"para_05"} and told("none", "para_05") == set()


def test_other_examples_and_planners_without_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="held-out, reference, none"):
        make_planner("openai:m", examples="some")
    with pytest.raises(UsageError, match="no use for --examples"):
        make_planner("expert", examples="none")
