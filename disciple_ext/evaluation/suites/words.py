"""Instances of COLLIE's tasks on words, in its wording, made here: the suite needs no data.

COLLIE takes the lengths and letters from the words of a list; we take them from
:mod:`~disciple_ext.evaluation.suites.word_examples`. Lengths and letters are all that a program
sees.
"""

from __future__ import annotations

from .base import Instance
from .word_examples import ENDINGS, LONG

__all__ = ["PLACES", "word_instances"]

PLACES = (4, 8, 11)
"""Where word_02 gives letters, from 1."""

_COUNTS = (67, 67, 66)
"""Instances of each type: 200 in all."""


def word_instances() -> list[Instance]:
    """The 200 instances, always the same ones."""
    return [
        make(number, example)
        for make, examples, count in zip(
            (_word_01, _word_02, _word_03), (LONG, LONG, ENDINGS), _COUNTS, strict=True
        )
        for number, example in ((n, examples[n % len(examples)]) for n in range(count))
    ]


def _word_01(number: int, example: str) -> Instance:
    least = 10 + number % 4  # COLLIE's begin at 10
    # From its place on and round again: examples stay spread over the list.
    at = LONG.index(example)
    example = next(word for word in (*LONG[at:], *LONG) if len(word) >= least)
    prompt = f"Please generate a word with at least {least} characters."
    return _instance("word_01", number, prompt, least, example)


def _word_02(number: int, example: str) -> Instance:
    letters = [example[place - 1] for place in PLACES]
    given = ", ".join(f"'{letter}'" for letter in letters)
    prompt = (
        f"Please generate a word:\n1) with exactly {len(example)} characters;\n"
        f"2) with the 4th, 8th, 11th characters to be {given} respectively."
    )
    return _instance("word_02", number, prompt, [len(example), letters], example)


def _word_03(number: int, example: str) -> Instance:
    prompt = (
        f"Please generate a word:\n1) with exactly {len(example)} characters;\n"
        f"2) with the last character to be '{example[-1]}'."
    )
    return _instance("word_03", number, prompt, [len(example), example[-1]], example)


def _instance(task: str, number: int, prompt: str, targets: object, example: str) -> Instance:
    return Instance(f"words/{task}/{number:03}", task, prompt, targets, "words", example)
