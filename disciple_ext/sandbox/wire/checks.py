"""The host's checks of JSON: each value is held to its type, its range and its length."""

from __future__ import annotations

import json
import math
from typing import Any

from .frames import Malformed

__all__ = [
    "MAX_TEXT",
    "as_count",
    "as_dict",
    "as_float",
    "as_list",
    "as_log",
    "as_optional_count",
    "as_share",
    "as_text",
    "as_verdict",
    "read_json",
]

MAX_TEXT = 2**20
"""Characters of one text (a prompt, a particle's text, a message) at most."""

_MAX_BRACKETS = 300_000
_MAX_ITEMS = 1_000_000
"""Lists and objects, and commas, of one JSON message at most: they take far more memory and time
than their bytes."""


def read_json(payload: bytes) -> Any:
    """JSON of bounded numbers, bounded depth, and a bounded number of lists and objects.

    Raises:
        Malformed: it is no JSON, or holds an integer of more than 18 digits.
    """
    # By its bytes, before anything is parsed; brackets within texts count, too.
    if (
        payload.count(b"[") + payload.count(b"{") > _MAX_BRACKETS
        or payload.count(b",") > _MAX_ITEMS
    ):
        raise Malformed("a message has too many lists, objects or items")
    try:
        return json.loads(payload, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"a message is no JSON: {error}") from None


def _integer(digits: str) -> int:
    # A longer one is an OverflowError where it becomes a float. The sign is among the 19.
    if len(digits) > 19:
        raise Malformed("a message has an integer of more than 18 digits")
    return int(digits)


def as_dict(value: Any) -> dict[str, Any]:
    """The value, held to be an object."""
    if not isinstance(value, dict):
        raise Malformed("a message should be an object")
    return value


def as_list(value: Any, longest: int) -> list[Any]:
    """The value, held to be a list of at most ``longest`` items."""
    if not isinstance(value, list) or len(value) > longest:
        raise Malformed(f"a message should hold a list of at most {longest} items")
    return value


def as_text(value: Any, longest: int = MAX_TEXT) -> str:
    """The value, held to be a text of at most ``longest`` characters."""
    if not isinstance(value, str) or len(value) > longest:
        raise Malformed(f"a message should hold a text of at most {longest} characters")
    # Half of a surrogate pair is no character: no file, pipe or verifier takes it.
    return value if value.isascii() else value.encode(errors="replace").decode()


def as_count(value: Any, below: int = 2**53) -> int:
    """The value, held to be an integer from 0 to below ``below``."""
    # Not isinstance: true and false are integers to Python.
    if type(value) is not int or not 0 <= value < below:
        raise Malformed(f"a message should hold an integer from 0 to {below - 1}")
    return value


def as_optional_count(value: Any) -> int | None:
    """The same, or None."""
    return None if value is None else as_count(value)


def as_float(value: Any) -> float:
    """The value, held to be a number."""
    if type(value) not in (int, float):
        raise Malformed("a message should hold a number")
    return float(value)


def as_log(value: Any) -> float:
    """A natural log of something finite: a number, or minus infinity."""
    number = as_float(value)
    if math.isnan(number) or number == math.inf:
        raise Malformed(f"a log weight cannot be {number}")
    return number


def as_share(value: Any) -> float:
    """A number from 0 to 1."""
    number = as_float(value)
    if not 0.0 <= number <= 1.0:
        raise Malformed(f"a share cannot be {number}")
    return number


def as_verdict(value: Any) -> bool | None:
    """True, false or None."""
    if value is not None and not isinstance(value, bool):
        raise Malformed("a verdict is true, false or null")
    return value
