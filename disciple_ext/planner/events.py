"""What a planner says while it works, to the observer of the run that asked it.

One planner may serve several runs at a time, so the observer belongs to the run, not to the
planner: it is a context variable, which each asyncio task has for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..records.events import Event, Listener

__all__ = ["emit", "observed_by"]

_observer: ContextVar[Listener | None] = ContextVar("_observer", default=None)


@contextmanager
def observed_by(observer: Listener) -> Iterator[None]:
    """Within this block, planners' events go to ``observer``."""
    before = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(before)


def emit(event: Event) -> None:
    """Tell the observer of the run, if there is one."""
    observer = _observer.get()
    if observer is not None:
        observer(event)
