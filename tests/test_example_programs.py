"""The programs of ``examples/programs`` pass the static check, run, and pass their own check."""

from __future__ import annotations

from pathlib import Path

import pytest

from disciple_ext import run_program
from disciple_ext.sandbox.check.check import check

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "programs"
FORMAL = ("character_sheet", "formula", "opening_times", "plain_words")


@pytest.mark.parametrize("name", FORMAL)
def test_an_example_of_formal_constraints_solves_its_task(name: str) -> None:
    source = (FOLDER / f"{name}.py").read_text("utf-8")
    assert check(source) == []
    result = run_program(source, sandbox="none", n=8, seed=1)
    assert result.check is True, result.text
