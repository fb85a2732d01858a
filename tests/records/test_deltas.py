"""Texts and items come out of their encoding as they went in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disciple_ext.records.deltas import (
    Interned,
    PreviousTexts,
    TextDelta,
    WeightSource,
    pairs_of,
    source_key,
)
from disciple_ext.records.events import WeightChange

ORIGINS = st.none() | st.tuples(st.integers(0, 3), st.integers(0, 4))


def after(texts: list[str]) -> PreviousTexts:
    previous = PreviousTexts()
    previous.replace(2, texts)
    return previous


@given(st.lists(st.text("ab", max_size=4), max_size=4), st.text("ab", max_size=8), ORIGINS)
def test_a_delta_onto_the_text_at_its_origin_is_the_text(
    texts: list[str], text: str, origin: tuple[int, int] | None
) -> None:
    previous = after(texts)
    delta = previous.delta(text, origin)
    assert delta.onto(previous.at(origin) or "") == text
    assert delta.kept is None or delta.kept + len(delta.added) == len(text)


def test_only_the_last_step_is_known() -> None:
    previous = after(["ab", ""])
    assert previous.delta("abc", (2, 0)) == TextDelta(2, "c")
    assert previous.delta("abc", (2, 1)) == TextDelta(0, "abc")
    for origin in (None, (1, 0), (2, 2)):
        assert previous.at(origin) is None
        assert previous.delta("abc", origin) == TextDelta(None, "abc")
    assert previous.delta("b", (2, 0)) == TextDelta(None, "b"), "a text that was changed"


def test_items_have_numbers_in_the_order_in_which_they_came() -> None:
    table = Interned(["", "a"])
    assert [table[item] for item in ("b", "a", "c", "b", "")] == [2, 1, 3, 2, 0]
    assert table.since(2) == ["b", "c"] and table.since(4) == []
    assert "d" not in table and len(table) == 4


def test_a_weight_change_is_its_source_and_an_amount() -> None:
    change = WeightChange("draw", -1.5, 7, "CharsMask(ab)", "text")
    source = WeightSource("draw", 7, "CharsMask(ab)", "text")
    assert source_key(change) == source
    assert source.change(-1.5) == change


def test_half_a_pair_is_an_error() -> None:
    assert list(pairs_of([0, -1.0, 2, 0.5])) == [(0, -1.0), (2, 0.5)]
    with pytest.raises(ValueError):
        list(pairs_of([0, -1.0, 2]))
