"""The expert programs: each is short, is accepted, and solves its task."""

from __future__ import annotations

import pytest

from disciple_ext import Limits, Task, run_program
from disciple_ext.demo import DEMO
from disciple_ext.evaluation import collie
from disciple_ext.evaluation.puzzles import PUZZLES
from disciple_ext.planner.fewshot import PUZZLE_NAMES, Example, chosen, expert_examples
from disciple_ext.sandbox.check import check

DEMO_BY_TYPE = {task.type: task for task in DEMO}
EXAMPLES = {example.name: example for example in expert_examples()}


def verified(example: Example, text: str) -> bool:
    """The ground truth, which knows nothing of the programs."""
    if example.name in PUZZLES:
        return PUZZLES[example.name].verify(text).passed
    task = DEMO_BY_TYPE[example.name]
    return collie.verify(task.type, task.targets, text)


def test_there_is_one_for_each_type_with_the_task_it_solves() -> None:
    prompts = {task.type: task.prompt for task in DEMO} | {n: p.prompt for n, p in PUZZLES.items()}
    assert {name: example.task for name, example in EXAMPLES.items()} == prompts
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
