"""Texts made shorter."""

from __future__ import annotations

from disciple_ext.text.shorten import clipped, one_line, shortened, without_middle


def test_short_texts_stay() -> None:
    assert (
        shortened("abc", 3)
        == clipped("abc", 3)
        == one_line("abc", 3)
        == without_middle("abc", 3)
        == "abc"
    )


def test_long_texts_lose_their_end_or_their_middle() -> None:
    assert shortened("abcdef", 2) == "ab... (6 characters)"
    assert clipped("abcdef", 5) == "ab..."
    assert one_line("a b\n c  d", 5) == "a b …"
    assert without_middle("abcdef", 4) == "ab [...] ef"
