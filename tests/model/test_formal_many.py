"""Whatever is finished under a constraint validates, with validators that know nothing of ours."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import lark
import pytest
from formal_cases import GRAMMARS, REGEXES, SCHEMAS

from disciple_ext import NoParticleAlive, run_program

FEW = (1, 6, 11)
N = 8


def some(cases: list[Any]) -> list[Any]:
    """All cases, of which a few are quick."""
    slow = pytest.mark.slow
    return [pytest.param(i, marks=() if i in FEW else slow) for i in range(len(cases))]


def finished(mask: str, prompt: str) -> list[str]:
    """The texts that ended, of N particles of the embedded follower."""
    source = f"""
class InferenceModel(BaseModel):
    def __init__(self, context):
        super().__init__(context=context, max_tokens=120)

    @classmethod
    def prior_prompt(cls):
        return {prompt!r}

    async def step(self):
        async with {mask[:-1]}, whole=True) as mask:
            if not await self.fill(mask, tokens=4):
                return
        await self.end()
"""
    try:
        result = run_program(source, n=N, seed=0, sandbox="none")
    except NoParticleAlive as error:
        raise AssertionError(f"no text was finished: {error}") from error
    return [p.text for p in result.particles if p.finish_reason == "ended"]


def most_finish(texts: list[str]) -> None:
    assert len(texts) >= N // 2, f"{len(texts)} of {N} texts were finished"


@pytest.mark.parametrize("i", some(REGEXES))
def test_texts_match_in_python(i: int) -> None:
    texts = finished(f"RegexMask(self, {REGEXES[i]!r})", "Write a sentence.")
    assert all(re.fullmatch(REGEXES[i], text) for text in texts), texts
    most_finish(texts)


@pytest.mark.parametrize("i", some(GRAMMARS))
def test_texts_parse_in_lark(i: int) -> None:
    parser = lark.Lark(GRAMMARS[i], parser="earley")
    texts = finished(f"GrammarMask(self, {GRAMMARS[i]!r})", "Write a sentence.")
    for text in texts:
        parser.parse(text)
    most_finish(texts)


@pytest.mark.parametrize("i", some(SCHEMAS))
def test_texts_are_valid_json(i: int) -> None:
    validator = jsonschema.Draft202012Validator(
        SCHEMAS[i], format_checker=jsonschema.FormatChecker()
    )
    texts = finished(f"JsonMask(self, {SCHEMAS[i]!r})", "Write JSON.")
    for text in texts:
        validator.validate(json.loads(text))
    most_finish(texts)


def test_there_are_forty_of_each() -> None:
    assert len(REGEXES) == len(GRAMMARS) == len(SCHEMAS) == 40
    for schema in SCHEMAS:
        jsonschema.Draft202012Validator.check_schema(schema)
