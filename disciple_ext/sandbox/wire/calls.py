"""What a worker asks for in JSON: words to encode, and services to call."""

from __future__ import annotations

from typing import Any

from .checks import as_count, as_dict, as_text, read_json
from .frames import Malformed

__all__ = ["MAX_NEED", "read_call", "read_need"]

MAX_NEED = 2**16
"""Characters of a text that the host is asked to encode at most."""


def read_need(payload: bytes) -> dict[str, str]:
    """What the worker waits for: ``{"encode": text}`` or ``{"prompt": text, "hint": text}``."""
    data = as_dict(read_json(payload))
    if set(data) not in ({"encode"}, {"prompt", "hint"}):
        raise Malformed("an unknown need")
    return {key: as_text(value, MAX_NEED) for key, value in data.items()}


def read_call(payload: bytes) -> tuple[int, str, Any]:
    """Ticket, name and payload of a call of a service."""
    data = as_dict(read_json(payload))
    # Calls share their tickets with the records, which have four bytes for them.
    return as_count(data.get("ticket"), 2**32), as_text(data.get("name"), 200), data.get("payload")
