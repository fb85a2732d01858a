"""Specs: what the options of a factory are, how they are written, and read back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disciple_ext import BaseMeasure, Measure
from disciple_ext.errors import UsageError
from disciple_ext.models.catalogue import catalogue
from disciple_ext.registry.plugins import load_plugins
from disciple_ext.registry.specs import (
    call,
    options_of,
    parse_options,
    spell_options,
    split_measure,
    split_model,
    split_specs,
)
from disciple_ext.testing import ToyFollower


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a=1", {"a": 1}),
        ("a=0.5, b = true ,c=null", {"a": 0.5, "b": True, "c": None}),
        ("a=systematic,b=x y", {"a": "systematic", "b": "x y"}),
        ('a="1",b="x,y",c=""', {"a": "1", "b": "x,y", "c": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a=[1]", {"a": "[1]"}),
        ("a=NaN,b=-Infinity", {"a": "NaN", "b": "-Infinity"}),
        ('a="x', {"a": '"x'}),
    ],
)
def test_values_are_json_scalars_or_text(text: str, options: dict[str, Any]) -> None:
    assert parse_options(text) == options


@pytest.mark.parametrize(
    ("spec", "rest", "options"),
    [
        ("smollm2", "smollm2", {}),
        ("smollm2,temperature=1", "smollm2", {"temperature": 1}),
        ("hf:a/b, top_k=4 ,alpha=1.5", "hf:a/b", {"top_k": 4, "alpha": 1.5}),
        ("gguf:a,b.gguf,top_p=0.9", "gguf:a,b.gguf", {"top_p": 0.9}),
        ("gguf:a, b.gguf", "gguf:a, b.gguf", {}),
        ("hf:x,temperature=2,dtype=bfloat16", "hf:x,dtype=bfloat16", {"temperature": 2}),
        ("hf:x,a=1,top_p=1,b=2", "hf:x,a=1,b=2", {"top_p": 1}),
        ("hf:min_p=1/x", "hf:min_p=1/x", {}),
    ],
)
def test_a_measure_stands_at_the_end_of_a_followers_spec(
    spec: str, rest: str, options: dict[str, Any]
) -> None:
    assert split_measure(spec) == (rest, options)


def test_a_followers_spec_makes_its_base_measure() -> None:
    registry = load_plugins(installed=False)
    registry.tables["followers"]["toy"] = lambda argument: ToyFollower.random(0)
    made = registry.make("followers", "toy,temperature=0.5,top_k=3")
    assert made.base_measure == BaseMeasure(Measure(0.5, top_k=3))
    assert registry.make("followers", "toy").base_measure == BaseMeasure()
    with pytest.raises(UsageError, match="given twice"):
        registry.make("followers", "toy,temperature=0.5,temperature=1")
    with pytest.raises(UsageError, match="top_p must be a number"):
        registry.make("followers", "toy,top_p=most")


def test_the_catalogue_has_a_measure_for_each_model() -> None:
    assert catalogue()["smollm2"].base_measure == BaseMeasure(Measure(0.7))


@pytest.mark.parametrize("text", ["", "a", "=1", "a=", "a=1,,b=2", "a=1,", "a=1,a=1"])
def test_malformed_options_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no option|given twice"):
        parse_options(text)


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("smollm2,temperature=1,embedded", ["smollm2,temperature=1", "embedded"]),
        ("smc,is", ["smc", "is"]),
        ("smc:a=0.7,b=x,is,rs:c=1", ["smc:a=0.7,b=x", "is", "rs:c=1"]),
        ("smc:a=x:y,b=1", ["smc:a=x:y,b=1"]),
        ('smc:a="x,y",is', ['smc:a="x,y"', "is"]),
        ("is,a=1", ["is,a=1"]),
        (
            "smollm2,dtype=bfloat16,hf:a/b,embedded",
            ["smollm2,dtype=bfloat16", "hf:a/b", "embedded"],
        ),
        (" smc , ,is,", ["smc", "is"]),
        ("", []),
    ],
)
def test_a_list_of_specs_keeps_options_with_their_names(text: str, specs: list[str]) -> None:
    assert split_specs(text) == specs


@pytest.mark.parametrize(
    ("text", "model", "options"),
    [
        ("./m", "./m", ""),
        ("./m,dtype=float32", "./m", "dtype=float32"),
        ("./a, b.gguf , dtype = float32,device=cpu", "./a, b.gguf ", " dtype = float32,device=cpu"),
        ("./a=1,b", "./a=1,b", ""),
        ("./a,b=1,c,d=2", "./a,b=1,c", "d=2"),
        ('m,a="x,y=1"', "m", 'a="x,y=1"'),
        ("m,a=", "m", "a="),
        (",a=1", "", "a=1"),
        ("a\nb,c=1", "a\nb", "c=1"),
    ],
)
def test_options_stand_behind_a_path_that_may_have_commas(
    text: str, model: str, options: str
) -> None:
    assert split_model(text) == (model, options)


_floats = st.floats(allow_nan=False, allow_infinity=False)
_values = st.none() | st.booleans() | st.integers() | _floats | st.text()


@settings(max_examples=50)
@given(_values, _values)
def test_what_is_spelled_is_read_back(one: Any, two: Any) -> None:
    options = {"one": one, "two": two}
    assert parse_options(spell_options(options)) == options


def test_options_are_the_named_parameters_with_defaults() -> None:
    def factory(first: int = 1, /, two: str = "b", *rest: int, c: None = None, **d: int) -> None:
        """Two of these can be named, and have defaults."""

    assert options_of(factory) == {"two": "b", "c": None}
    assert spell_options(options_of(factory)) == "two=b,c=null"


def test_true_is_no_number_and_a_number_is_not_true() -> None:
    def factory(
        share: float = 0.5, k: int = 1, quick: bool = False, most: int | None = None
    ) -> Any:
        return share, k, quick, most

    assert call("sampler", "any", factory, "share=1,quick=true,most=true") == (1, 1, True, True)
    for wrong in ("share=true", "k=false", "quick=1", "quick=yes"):
        with pytest.raises(UsageError, match=f"cannot be {wrong.partition('=')[2]}.*share=0.5"):
            call("sampler", "any", factory, wrong)


def test_a_factory_that_chokes_on_a_value_is_a_usage_error() -> None:
    def factory(k: int = 2) -> int:
        return 10 // k

    assert call("sampler", "tens", factory, "k=5") == 2
    with pytest.raises(UsageError, match="'tens' cannot be made with 'k=x'.*TypeError.*tens:k=2"):
        call("sampler", "tens", factory, "k=x")
