"""What commands print, and how: answers to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

from rich.console import Console

__all__ = ["answer", "answer_json", "errors", "escape", "examples", "note", "table", "visible"]

# Controls that rearrange what a terminal shows, beside the category Cc: directional overrides.
# A text with these can show as other than it is: a model's text must not pass for ours.
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def escape(text: str) -> str:
    """``text`` with control characters as escapes, so that it cannot steer a terminal."""
    return "".join(char if _harmless(char) else _spelled(char) for char in text)


def visible(text: str) -> str:
    """``text`` on one line: escaped, line ends included."""
    return escape(text).replace("\n", "\\n").replace("\t", "\\t")


def _harmless(char: str) -> bool:
    if char in "\n\t" or " " <= char <= "~":
        return True
    return unicodedata.category(char) not in {"Cc", "Cs"} and char not in _DIRECTIONS


def _spelled(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def answer(text: str) -> None:
    """Print an answer: as it is into a pipe, escaped on a terminal."""
    out = sys.stdout
    # Into a pipe as it is: the bytes may be compared or counted, and no terminal is steered.
    shown = escape(text) if out.isatty() else text
    encoding = out.encoding or "utf-8"
    # A terminal's encoding may lack a character: shown as an escape, not as a crash.
    out.write(shown.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    out.flush()


def answer_json(data: Any) -> None:
    """Print data as one line of JSON (ASCII, so that no terminal is steered)."""
    sys.stdout.write(json.dumps(data, allow_nan=False) + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a message to standard error."""
    encoding = sys.stderr.encoding or "utf-8"
    shown = escape(text).encode(encoding, "backslashreplace").decode(encoding)
    print(shown, file=sys.stderr, flush=True)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns; the last column is as wide as it likes."""
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)][:-1]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in shown
    )


def errors() -> Console:
    """A console on standard error; it respects NO_COLOR and knows whether there is a terminal."""
    return Console(stderr=True, highlight=False)


def examples(*commands: str) -> str:
    """The examples of a command, kept as they are by the help formatter."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)
