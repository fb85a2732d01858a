from __future__ import annotations

from typing import Any

import pytest

from disciple_ext.errors import FollowerError, ProgramCrashed, ProgramRejected, WrongFamily
from disciple_ext.model.context import FollowerContext
from disciple_ext.run import loader
from disciple_ext.run.loader import crash, load
from disciple_ext.testing import ToyFollower

STEP = "    async def step(self):\n        await self.end()\n"


def test_programs_find_their_names_without_imports() -> None:
    names = "units re string math itertools json Bernoulli Geometric LogCategorical submodel"
    uses = ", ".join(names.split())
    model = load(f"used = [{uses}]\nclass InferenceModel(BaseModel):\n{STEP}", {})
    assert model.__name__ == "InferenceModel"
    assert load(f"class InferenceModel(Mine):\n{STEP}", {"Mine": model}).__mro__[1] is model


def test_two_loads_share_nothing() -> None:
    source = f"seen = []\nclass InferenceModel(BaseModel):\n    seen = seen\n{STEP}"
    first, second = load(source, {}), load(source, {})
    first.seen.append(1)  # type: ignore[attr-defined]
    assert second.seen == []  # type: ignore[attr-defined]


def test_a_syntax_error_has_its_line() -> None:
    with pytest.raises(ProgramRejected) as caught:
        load("x = 1\ny = (\n", {})
    assert caught.value.line == 2 and "line 2" in str(caught.value)


def test_module_level_errors_have_their_lines() -> None:
    with pytest.raises(ProgramCrashed, match="ZeroDivisionError.*line 2") as caught:
        load("x = 1\ny = x / 0\n", {})
    assert caught.value.line == 2 and "y = x / 0" in caught.value.traceback


@pytest.mark.parametrize(
    "source",
    [
        "InferenceModel = 7",
        "class InferenceModel(Model):\n" + STEP,
        "class InferenceModel(BaseModel):\n    pass",
        "class InferenceModel(BaseModel):\n    def step(self):\n        pass",
    ],
)
def test_what_is_no_inference_model_is_rejected(source: str) -> None:
    with pytest.raises(ProgramRejected, match="InferenceModel"):
        load(source, {})


def test_step_may_be_inherited_within_the_program() -> None:
    source = f"class Base(BaseModel):\n{STEP}\nclass InferenceModel(Base):\n    pass\n"
    assert load(source, {}).__name__ == "InferenceModel"


FAMILY = """
def arguments(task):
    found = re.fullmatch(r"Write (\\d+) words: (.*)", task)
    return {"length": int(found[1]), "given": found[2].split()} if found else None

class InferenceModel(BaseModel):
"""


def test_a_program_for_a_family_takes_its_arguments_from_the_task() -> None:
    model: Any = load(FAMILY + STEP, {}, "Write 12 words: old river")
    assert (model.length, model.given) == (12, ("old", "river")), "no list: particles share it"
    with pytest.raises(WrongFamily, match="does not know this task"):
        load(FAMILY + STEP, {}, "Write a poem.")


@pytest.mark.parametrize("names", ["{'a b': 1}", "{1: 1}", "{'step': 1}", "{'max_tokens': 1}"])
def test_arguments_have_names_of_their_own(names: str) -> None:
    source = f"def arguments(task):\n    return {names}\nclass InferenceModel(BaseModel):\n{STEP}"
    with pytest.raises(ProgramRejected, match="identifiers"):
        load(source, {}, "x")


def test_arguments_that_raise_have_their_line() -> None:
    source = f"def arguments(task):\n    return 1 / 0\nclass InferenceModel(BaseModel):\n{STEP}"
    with pytest.raises(ProgramCrashed, match="line 2"):
        load(source, {}, "x")


def test_the_reserved_names_are_those_that_a_particle_sets() -> None:
    follower = ToyFollower(lambda prompt, tokens: {"": 1.0})
    model = load(f"class InferenceModel(BaseModel):\n{STEP}", {})
    particle = model(FollowerContext(follower, "x"))
    assert set(vars(particle)) - {"mode", "force_eos", "parent"} <= loader._TAKEN


def test_our_own_errors_stay_as_they_are() -> None:
    error: Any = FollowerError("no weights")
    assert crash(error, "") is error


def test_the_traceback_has_the_innermost_line_last() -> None:
    source = "def f():\n    return {}['k']\n\ndef g():\n    return f()\n\ng()\n"
    with pytest.raises(ProgramCrashed) as caught:
        load(source, {})
    lines = [x.strip() for x in caught.value.traceback.splitlines() if x.startswith("  line")]
    assert lines == ["line 7, in <module>", "line 5, in g", "line 2, in f"]
    assert caught.value.line == 2
