"""One task of each of COLLIE's nine types, solved by a small follower.

The prompts are our own, in COLLIE's language. What judges the texts is the ground truth of
:mod:`disciple_ext.evaluation.suites.collie`, which knows nothing of the programs that wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import DiscipleError, FollowerError
from .records.result import Result
from .records.task import Limits, Task

__all__ = ["DEMO", "DemoRow", "DemoTask", "run_demo"]


@dataclass(frozen=True)
class DemoTask:
    """A task of the demo.

    Attributes:
        type: COLLIE's type as the paper names it.
        prompt: the task in COLLIE's language.
        targets: the same for the ground truth.
        n: particles.
    """

    type: str
    prompt: str
    targets: Any
    n: int


@dataclass(frozen=True)
class DemoRow:
    """What became of a task.

    Attributes:
        task: the task.
        result: its result, or None where there is none.
        passed: the ground truth's verdict on the result's text.
        error: why there is no result, or None.
    """

    task: DemoTask
    result: Result | None
    passed: bool
    error: DiscipleError | None = None


def _tasks() -> Iterator[DemoTask]:
    def sentence(type_: str, prompt: str, targets: Any) -> DemoTask:
        return DemoTask(type_, f"Please generate a sentence{prompt}", targets, n=32)

    def paragraph(type_: str, prompt: str, targets: Any) -> DemoTask:
        return DemoTask(type_, f"Please generate a paragraph{prompt}", targets, n=8)

    yield sentence(
        "sent_01",
        " with exactly 75 characters. Include whitespace into your character count.",
        75,
    )
    yield sentence(
        "sent_02",
        ":\n1) with exactly 12 words;\n"
        "2) with the 4th, 8th, 11th words to be 'old', 'river', 'stone' respectively.",
        [12, ["old", "river", "stone"]],
    )
    yield sentence(
        "sent_03",
        ":\n1) with at least 14 words;\n2) with all words having at most 6 characters.",
        [14, 6],
    )
    yield sentence(
        "sent_04",
        " containing the word 'winter', 'boat', 'market'.",
        ["winter", "boat", "market"],
    )
    yield paragraph("para_01", " with all sentences having the 1st word to be 'When'.", "When")
    yield paragraph(
        "para_02",
        ":\n1) with exactly 3 sentences;\n2) not containing the word 'the';\n"
        "3) not containing the word 'and';\n4) not containing the word 'of'.",
        [3, "the", "and", "of"],
    )
    yield paragraph(
        "para_03",
        ":\n1) with exactly 3 sentences;\n2) with all sentences having at least 9 words;\n"
        "3) with all sentences having at most 12 words.",
        [3, 9, 12],
    )
    yield paragraph(
        "para_04",
        ":\n1) with at least 2 sentences;\n2) with all sentences having at least 18 words.",
        [2, 18],
    )
    yield paragraph(
        "para_05",
        ":\n1) with exactly 3 sentences;\n2) with sentences having the last word to be "
        "'harbor', 'morning', 'door', respectively.",
        [3, ["harbor", "morning", "door"]],
    )


DEMO = tuple(_tasks())
"""The nine tasks."""


def run_demo(
    *,
    follower: str | None = None,
    seed: int = 0,
    measure: Mapping[str, Any] | None = None,
    start: Callable[[DemoTask], None] | None = None,
) -> Iterator[DemoRow]:
    """Solve the nine tasks, one by one.

    Args:
        follower: spec of the follower, or None for the default.
        seed: seed of every run.
        measure: what the base measure has other than the follower's own.
        start: called with each task before it is solved.

    Yields:
        Each task's result and verdict, as soon as it is there.

    Raises:
        FollowerError: the follower cannot be loaded.
    """
    from .evaluation.suites.collie import verify
    from .loop.steer import self_steer

    for task in DEMO:
        if start is not None:
            start(task)
        asked = Task(task.prompt, n=task.n, limits=Limits(timeout=240))
        try:
            result = self_steer(asked, follower=follower, seed=seed, measure=measure)
        except FollowerError:
            # The other eight tasks would fail with it, too.
            raise
        except DiscipleError as error:
            yield DemoRow(task, None, False, error)
            continue
        passed = result.text is not None and verify(task.type, task.targets, result.text)
        yield DemoRow(task, result, passed)
