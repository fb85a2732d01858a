"""The public names: sorted, all there, and each of its own module."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import disciple_ext
from disciple_ext import errors


def test_all_is_sorted_and_has_no_doubles() -> None:
    assert disciple_ext.__all__ == sorted(set(disciple_ext.__all__))


def test_all_is_exactly_what_is_loaded_lazily() -> None:
    assert set(disciple_ext.__all__) == {*disciple_ext._HOME, "__version__"}


@pytest.mark.parametrize("name", disciple_ext.__all__)
def test_each_name_loads_and_is_documented(name: str) -> None:
    value = getattr(disciple_ext, name)
    assert name in dir(disciple_ext)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__doc__, f"{name} has no docstring"
        assert value.__module__.startswith("disciple_ext."), value.__module__


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(inspect.getfile(disciple_ext)).read_text(encoding="utf-8"))
    typed = {
        (alias.asname or alias.name): node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == disciple_ext._HOME


def test_every_error_is_public() -> None:
    assert set(errors.__all__) <= set(disciple_ext.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = disciple_ext.nonsense
