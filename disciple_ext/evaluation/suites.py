"""The suites that the package registers: COLLIE and PUZZLES, with the paper's budgets."""

from __future__ import annotations

from pathlib import Path

from ..errors import UsageError
from .collie import TASKS, TOKENIZER, load_instances, prescribed_words, verify
from .punkt import default_splitter
from .puzzles import PUZZLES, verify_puzzle
from .suite import Budget, Instance, Suite

__all__ = ["PRIOR_PROMPTS", "REPEATS", "collie", "puzzles"]

REPEATS = 10
"""Runs of each puzzle, as in the paper: instances that differ in their seed alone."""

PRIOR_PROMPTS = {
    "sent": "Write a sentence.",
    "para": "Write a paragraph.",
    "square_poem": "Write a poem.",
    "grant_abstract": "Write an abstract for a grant proposal.",
    "ingredients_list": "Write a list of ingredients.",
    "trip_itinerary": "Write an itinerary for a trip.",
}
"""The prior prompt of a sentence task, of a paragraph task, and of each puzzle."""


def collie() -> Suite:
    """COLLIE's nine types of sentences and paragraphs."""
    splitter = default_splitter()
    levels = {
        "sent": Budget("sent", 32, 120.0, 32, PRIOR_PROMPTS["sent"]),
        "para": Budget("para", 8, 240.0, 128, PRIOR_PROMPTS["para"]),
    }
    return Suite(
        name="collie",
        budgets={task: levels[task.partition("_")[0]] for task in TASKS},
        instances=load_instances,
        verify=lambda i, text: verify(i.task, i.targets, text, splitter=splitter),
        settings={"splitter": splitter.name, "tokenizer": TOKENIZER},
        prescribed=lambda i: prescribed_words(i.task, i.targets),
    )


def puzzles() -> Suite:
    """The four puzzles, each to be run ten times."""
    return Suite(
        name="puzzles",
        budgets={name: Budget("puzzle", 16, 360.0, 512, PRIOR_PROMPTS[name]) for name in PUZZLES},
        instances=_repeated,
        verify=lambda i, text: verify_puzzle(i.task, text).passed,
    )


def _repeated(path: str | Path | None) -> list[Instance]:
    if path is not None:
        raise UsageError("the suite 'puzzles' brings its instances with it: leave --data out")
    return [
        Instance(f"puzzles/{name}/{number:02}", name, puzzle.prompt)
        for name, puzzle in PUZZLES.items()
        for number in range(REPEATS)
    ]
