"""A text that is cut says how long it was."""

from __future__ import annotations

from disciple_ext.text.shortening import shortened


def test_a_text_is_cut_only_where_it_is_longer() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 3) == "abc... (4 characters)"
