"""The program is found in the answers that models give."""

import textwrap

import pytest

from disciple_ext.planner.chat.extract import extract_program

CODE = "class InferenceModel(BaseModel):\n    async def step(self):\n        await self.end()\n"
OTHER = "def helper():\n    return 1\n"


@pytest.mark.parametrize(
    "answer",
    [
        CODE,
        f"```python\n{CODE}```",
        f"```\n{CODE}```\n",
        f"~~~py\n{CODE}~~~",
        f"Here it is:\n\n```python\n{CODE}```\nIt works because ...",
        f"Here it is:\n\n```python\n{CODE}",
        f"```python\n{OTHER}```\nand then\n```python\n{CODE}```\n```\nsome output\n```",
        f"<think>\n```python\nclass InferenceModel: bad\n```\nno.</think>\n```python\n{CODE}```",
        f"Sure! The program follows.\n\n{CODE}\nThis ends at once, as you asked.",
        "1. First:\n\n" + textwrap.indent(f"```python\n{CODE}```", "   "),
        f"```python\n{CODE}```".replace("\n", "\r\n"),
        f"so\n```python\nclass InferenceModel: bad\n```\nno.\n</think>\n\n```python\n{CODE}```",
        f"```\nclass InferenceModel(BaseModel):\n    ...(as before\n```\nwhole:\n```\n{CODE}```",
    ],
)
def test_the_program_is_found(answer):
    assert extract_program(answer) == CODE


def test_of_two_programs_the_corrected_last_one_counts():
    assert (
        extract_program(f"```\n{CODE.replace('end', 'hint')}```\nBetter:\n```\n{CODE}```") == CODE
    )


def test_imports_and_helpers_before_an_unfenced_class_are_kept():
    whole = "import math\n\n\n" + OTHER + "\n\n" + CODE
    assert extract_program("Here you are.\n" + whole) == whole


def test_a_block_without_the_class_is_given_back_to_be_rejected():
    assert extract_program(f"```python\n{OTHER}```") == OTHER


def test_a_broken_program_is_given_back_to_be_rejected():
    broken = CODE + "    def check(self, text:\n"
    assert extract_program(f"```python\n{broken}```") == broken
    assert extract_program("Here you are:\n\n" + broken) == broken


@pytest.mark.parametrize("answer", ["", "I cannot do that.", "```\n\n```", f"<think>{CODE}"])
def test_no_program_is_none(answer):
    assert extract_program(answer) is None


def test_of_an_answer_that_was_cut_off_only_a_closed_block_counts():
    assert extract_program(f"```python\n{CODE}```\nThis wor", cut=True) == CODE
    assert extract_program(f"```python\n{CODE}", cut=True) is None
    assert extract_program(CODE, cut=True) is None
