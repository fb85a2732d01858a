"""The suites that the package registers: COLLIE, its words, and PUZZLES.

Budgets are the paper's, where it has them.
"""

from __future__ import annotations

from pathlib import Path

from ...errors import UsageError
from .base import Budget, Instance, Suite
from .collie import ALL_TASKS, TOKENIZER, WORD_TASKS, load_instances, prescribed_words, verify
from .punkt import default_splitter
from .puzzles import PUZZLES, verify_puzzle
from .words import word_instances

__all__ = ["PRIOR_PROMPTS", "REPEATS", "collie", "puzzles", "words"]

REPEATS = 10
"""Runs of each puzzle, as in the paper: instances that differ in their seed alone."""

PRIOR_PROMPTS = {
    "sent": "Write a sentence.",
    "para": "Write a paragraph.",
    "word": "Write a word.",
    "pass": "Write a text.",
    "square_poem": "Write a poem.",
    "grant_abstract": "Write an abstract for a grant proposal.",
    "ingredients_list": "Write a list of ingredients.",
    "trip_itinerary": "Write an itinerary for a trip.",
}
"""The prior prompt of each level of COLLIE, and of each puzzle."""


_LEVELS = {
    "sent": Budget("sent", 32, 120.0, 32, PRIOR_PROMPTS["sent"]),
    "para": Budget("para", 8, 240.0, 128, PRIOR_PROMPTS["para"]),
    "word": Budget("word", 8, 120.0, 16, PRIOR_PROMPTS["word"]),
    "pass": Budget("pass", 8, 240.0, 384, PRIOR_PROMPTS["pass"]),
}


def collie() -> Suite:
    """COLLIE: the nine types of the paper, and words and passages where the data has them."""
    splitter = default_splitter()
    return Suite(
        name="collie",
        budgets={task: _LEVELS[task.partition("_")[0]] for task in ALL_TASKS},
        instances=load_instances,
        verify=lambda i, text: verify(i.task, i.targets, text, splitter=splitter),
        settings={"splitter": splitter.name, "tokenizer": TOKENIZER},
        prescribed=lambda i: prescribed_words(i.task, i.targets),
    )


def words() -> Suite:
    """COLLIE's three types of words, in 200 instances that the package brings with it."""
    return Suite(
        name="words",
        budgets={task: _LEVELS["word"] for task in WORD_TASKS},
        instances=_made,
        verify=lambda i, text: verify(i.task, i.targets, text),
    )


def puzzles() -> Suite:
    """The four puzzles, each to be run ten times."""
    return Suite(
        name="puzzles",
        budgets={name: Budget("puzzle", 16, 360.0, 512, PRIOR_PROMPTS[name]) for name in PUZZLES},
        instances=_repeated,
        verify=lambda i, text: verify_puzzle(i.task, text).passed,
    )


def _made(path: str | Path | None) -> list[Instance]:
    if path is not None:
        raise UsageError("the suite 'words' brings its instances with it: leave --data out")
    return word_instances()


def _repeated(path: str | Path | None) -> list[Instance]:
    if path is not None:
        raise UsageError("the suite 'puzzles' brings its instances with it: leave --data out")
    return [
        Instance(f"puzzles/{name}/{number:02}", name, puzzle.prompt)
        for name, puzzle in PUZZLES.items()
        for number in range(REPEATS)
    ]
