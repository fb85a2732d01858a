"""What a planner says while it works, to the observers of the run that asked it.

One planner may serve several runs at a time, so who listens belongs to the run, not to the
planner: it is a context variable, which each asyncio task has for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..records.events import Event, Listener

__all__ = ["heard_by", "tell"]

_listener: ContextVar[Listener | None] = ContextVar("_listener", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Within this block, what planners tell goes to ``listener``."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def tell(event: Event) -> None:
    """Tell the observers of the run, if there are any."""
    listener = _listener.get()
    if listener is not None:
        listener(event)
