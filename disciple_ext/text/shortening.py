"""Texts of any length, made short enough to show or to keep."""

from __future__ import annotations

__all__ = ["shortened"]


def shortened(text: str, longest: int) -> str:
    """The text, cut where it is longer, with how long it was."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"
