"""Texts made shorter, for messages and prompts."""

from __future__ import annotations

__all__ = ["clipped", "one_line", "shortened", "without_middle"]


def shortened(text: str, longest: int) -> str:
    """The text's beginning, and how long it is, where it is longer."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"


def clipped(text: str, longest: int = 40) -> str:
    """The text's beginning, and dots where it is longer: ``longest`` characters in all."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def one_line(text: str, longest: int = 200) -> str:
    """The text on one line, with an ellipsis at its end where it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def without_middle(text: str, longest: int) -> str:
    """The text, with its middle left out where it is longer."""
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]} [...] {text[-longest // 2 :]}"
