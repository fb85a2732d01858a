"""The JSON Schemas are current, and real outputs are valid under them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from disciple_ext import ProgramError, run_program
from disciple_ext.cli.failure import _data
from disciple_ext.evaluation.run import evaluate
from disciple_ext.evaluation.suites.base import Budget, Instance, Suite
from disciple_ext.testing import ToyFollower

from .test_docs import DOCS, load_script

GENERATE = load_script(DOCS / "reference" / "generate_schema.py")
PROGRAM = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.next_token()
        self.condition(token != "a")
        await self.end()

    def check(self, text):
        return text == "b"
"""


def valid(name: str, data: Any) -> None:
    schema = json.loads((DOCS / "reference" / f"{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(data)


@pytest.mark.parametrize("path", GENERATE.PAGES, ids=lambda path: path.stem)
def test_schemas_are_current(path: Path) -> None:
    again = "run `python docs/reference/generate_schema.py`"
    assert path.read_text(encoding="utf-8") == GENERATE.PAGES[path](), again
    Draft202012Validator.check_schema(json.loads(path.read_text(encoding="utf-8")))


def test_every_field_has_a_description_or_a_schema_of_its_own() -> None:
    schema = json.loads(GENERATE.result_schema())
    for record in (schema, *schema["$defs"].values()):
        for name, field in record["properties"].items():
            told = "description" in field or "const" in field or record is schema["$defs"]["Usage"]
            assert told, name


def test_a_result_is_valid() -> None:
    toy = ToyFollower.random(1, ["a", "b"])
    result = run_program(PROGRAM, follower=toy, sandbox="none", sampler="is", n=32, seed=1)
    data = json.loads(result.to_json())
    assert {p["log_weight"] == "-inf" for p in data["particles"]} == {True, False}
    valid("result", data)
    for name, wrong in (("ess", None), ("text_rule", "best"), ("log_evidence", "nan")):
        with pytest.raises(Exception, match="is not"):
            valid("result", data | {name: wrong})


def test_an_error_is_valid() -> None:
    toy = ToyFollower.random(1, ["a", "b"])
    source = PROGRAM.replace("token != ", "False and token != ")
    with pytest.raises(ProgramError) as caught:
        run_program(source, follower=toy, sandbox="none", n=2)
    valid("error", json.loads(json.dumps(_data(caught.value))))


def test_an_evaluations_files_are_valid(tmp_path: Path) -> None:
    budget = Budget("short", n=2, timeout=60.0, tokens=3, prior_prompt="Write.")
    suite = Suite(
        "toy",
        {"a": budget},
        lambda path: [Instance("a/0", "a", "Write.")],
        lambda instance, text: "a" in text,
        settings={"splitter": "ours"},
    )
    follower = ToyFollower.random(1, ["a", "b"])
    evaluate(["follower"], suite=suite, follower=follower, out=tmp_path)
    for line in (tmp_path / "results.jsonl").read_text().splitlines():
        valid("evaluation-row", json.loads(line))
    about = json.loads((tmp_path / "run.json").read_text())
    valid("evaluation-run", about)
    assert about.keys() - set(about["settings"]) <= set(GENERATE.RUN), "a field has no schema"
