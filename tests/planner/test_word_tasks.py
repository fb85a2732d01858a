"""Tasks on a single word, in COLLIE's words and others."""

from __future__ import annotations

import pytest

from disciple_ext.errors import TaskNotUnderstood
from disciple_ext.planner.expert.constraints import LAST, Range, Word, Writing
from disciple_ext.planner.expert.language import parse
from disciple_ext.planner.expert.planner import write_program
from disciple_ext.sandbox.check.check import check


@pytest.mark.parametrize(
    ("task", "word"),
    [
        ("Please generate a word with at least 12 characters.", Word(Range(12))),
        (
            "Please generate a word:\n1) with exactly 13 characters;\n2) with the 4th, 8th, 11th "
            "characters to be 'e', 'A', 'o' respectively.",
            Word(Range(13, 13), ((4, "e"), (8, "a"), (11, "o"))),
        ),
        (
            "Please generate a word:\n1) with exactly 9 characters;\n2) with the last character to "
            "be 'c'.",
            Word(Range(9, 9), ((LAST, "c"),)),
        ),
        ("Give me a word with 5 to 7 letters.", Word(Range(5, 7))),
        (
            "write a single word that starts with 'q' and ends with 'y'",
            Word(Range(1), ((1, "q"), (LAST, "y"))),
        ),
        (
            "Find a word that has six letters, the second letter being 'x'.",
            Word(Range(6, 6), ((2, "x"),)),
        ),
        ("Write a word with at most 8 letters and the 6th letter 'z'.", None),
    ],
)
def test_words_are_read(task: str, word: Word | None) -> None:
    if word is None:
        with pytest.raises(TaskNotUnderstood):
            parse(task)
        return
    assert parse(task) == word
    assert check(write_program(task)) == []


def test_sentences_with_a_word_are_still_sentences() -> None:
    assert isinstance(parse("Write a sentence that contains the word 'sea'."), Writing)
    assert isinstance(
        parse("Please generate a sentence with all words having at most 7 characters."), Writing
    )


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("Write a word about cats.", "cannot read 'about cats'"),
        ("Write a word with exactly 3 letters, the 5th letter to be 'a'.", "no word with"),
        ("Write a word with exactly 900 letters.", "no word with"),
        ("Write a word with the 2nd letter to be 'ab'.", "is no letter"),
        ("Write a word with the 2nd, 3rd letters to be 'a'.", "2 places and 1 letters"),
        (
            "Write a word starting with 'a', with the 1st letter to be 'b'.",
            "two letters for one place",
        ),
        (
            "Write a word with exactly 2 letters, the 2nd letter to be 'a', ending with 'b'.",
            "the task gives two",
        ),
    ],
)
def test_what_cannot_be_is_refused(task: str, message: str) -> None:
    with pytest.raises(TaskNotUnderstood, match=message):
        write_program(task)
