"""What can be set is checked here."""

from __future__ import annotations

from disciple_ext import UsageError

__all__ = ["whole"]


def whole(name: str, value: int, least: int) -> int:
    """The value of an option, if it is a whole number that is large enough.

    Raises:
        UsageError: it is not; the message names the option.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return value
