"""Files that a user names on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

from ..errors import UsageError

__all__ = ["read_program", "read_task"]


def read_program(name: str) -> str:
    """The source in a file, or on standard input for ``-``.

    Raises:
        UsageError: the file cannot be read as text.
    """
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the program {name}: {error.strerror or error}") from error
    try:
        # "-sig": some editors put a byte order mark first, which is no Python.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"the program {name} is not UTF-8 text: {error}") from error


def read_task(text: str) -> str:
    """A task as it was given, or standard input for ``-``."""
    return sys.stdin.read().strip() if text == "-" else text
