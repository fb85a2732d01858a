"""Expert programs as examples for a planner, and which of them it is shown.

Each file of ``examples/`` is one: its docstring is the task, the rest is the program. In an
evaluation the example of the target's own type is held out (Grand et al. 2025, appendix: "the
example(s) corresponding to the target task are always omitted from the prompt").
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["PUZZLE_NAMES", "WORD_NAMES", "Example", "chosen", "expert_examples"]

PUZZLE_NAMES = ("square_poem", "grant_abstract", "ingredients_list", "trip_itinerary")
WORD_NAMES = ("word_01", "word_02", "word_03")
"""COLLIE's tasks on words, which the paper left out."""


@dataclass(frozen=True)
class Example:
    """A task and a program that solves it.

    Attributes:
        name: the task's type, such as ``sent_01``.
        task: the task in words.
        source: the program.
    """

    name: str
    task: str
    source: str


@functools.cache
def expert_examples() -> tuple[Example, ...]:
    """The expert programs: COLLIE's nine types of the paper, its words, and the four PUZZLES."""
    folder = files("disciple_ext.planner").joinpath("examples")
    found = []
    for entry in folder.iterdir():
        name, dot, kind = entry.name.rpartition(".")
        if dot and kind == "py":
            found.append(_read(name, entry.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda example: _order(example.name)))


def chosen(hold_out: Collection[str] = ()) -> tuple[Example, ...]:
    """The examples that a planner is shown: all but those of the types that are held out.

    A task of COLLIE gets COLLIE's examples, one of PUZZLES gets both suites', as in the paper;
    those on words are for tasks on words alone. A task of none of these gets all of them.
    """
    left_out = set(hold_out)
    if hold_out and not left_out & set(PUZZLE_NAMES):
        left_out |= set(PUZZLE_NAMES)
    if hold_out and not left_out & set(WORD_NAMES):
        left_out |= set(WORD_NAMES)
    return tuple(example for example in expert_examples() if example.name not in left_out)


def _read(name: str, text: str) -> Example:
    tree = ast.parse(text)
    heading = tree.body[0]
    # Cut, not unparsed: an example must keep its comments.
    source = "\n".join(text.splitlines()[heading.end_lineno or 0 :]).strip("\n") + "\n"
    return Example(name, ast.get_docstring(tree) or "", source)


def _order(name: str) -> tuple[bool, bool, bool, str]:
    # A fixed order, not the file system's: the prompt must be the same everywhere to be cached.
    return name in PUZZLE_NAMES, name in WORD_NAMES, name.startswith("para"), name
