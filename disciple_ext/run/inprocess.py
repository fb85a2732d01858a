"""The loop that all runs share, and programs that run on it themselves (the level ``none``).

One event loop in one background thread: runs work from notebooks and threads alike, and their
requests share batches. At the level ``none`` a watchdog holds each run to its deadline, even
inside ``while True: pass``; a loop in C code is beyond it. That level is no security boundary.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
import time
import types
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["PATIENCE", "Deadline", "abandon", "start", "submit", "where"]

T = TypeVar("T")

_GRACE = 0.2
"""Seconds that the loop has to answer after a deadline before it is taken to hang."""


PATIENCE = 1.5
"""Seconds after its deadline at which a run that still hangs is given up."""


class Deadline(BaseException):
    """Raised inside a program that does not give the loop back when its time is up."""


class _Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="disciple-runs", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while True:
            try:
                self.loop.run_forever()
                return
            except Deadline:  # it hit the loop's own code: the tasks it holds go on
                continue

    def watch(self, deadline: float, over: threading.Event, busy: Callable[[], bool]) -> None:
        """Interrupt whatever hangs the loop after ``deadline``, until the run is over.

        A loop that computes a batch (``busy``) does not hang, however long that takes.
        """
        # The event wakes it at the run's end: a sleep would keep a thread for each finished run.
        if over.wait(max(0.0, deadline - time.monotonic())):
            return
        while not over.is_set():
            answered = threading.Event()
            # A loop that answers is not hung: the run's own deadline then ends it in an orderly
            # way.
            self.loop.call_soon_threadsafe(answered.set)
            if not answered.wait(_GRACE) and not over.is_set() and not busy():
                # The only way into `while True: pass`: cancelling a task needs the loop, which is
                # held.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self.thread.ident or 0), ctypes.py_object(Deadline)
                )
            # Again and again, for a program can catch the exception and go on.
            over.wait(_GRACE)


_lock = threading.Lock()
_shared: _Loop | None = None


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start work of the host's own on the shared loop; cancelling the future cancels it."""
    return asyncio.run_coroutine_threadsafe(work, _the_loop().loop)


def start(
    work: Coroutine[Any, Any, T], deadline: float, busy: Callable[[], bool] = lambda: False
) -> Future[T]:
    """Start a run of a program on the shared loop; cancelling the future cancels the run.

    Args:
        work: the run.
        deadline: ``time.monotonic()`` after which a program that hangs is interrupted.
        busy: whether the host's own code, not a program, keeps the loop from answering.
    """
    loop = _the_loop()
    over = threading.Event()
    future = asyncio.run_coroutine_threadsafe(work, loop.loop)
    future.add_done_callback(lambda _: over.set())
    watchdog = threading.Thread(
        target=loop.watch, args=(deadline, over, busy), name="disciple-watchdog", daemon=True
    )
    watchdog.start()
    return future


def _the_loop() -> _Loop:
    global _shared
    with _lock:
        if _shared is None or not _shared.thread.is_alive():
            _shared = _Loop()
        return _shared


def where() -> types.FrameType | None:
    """What the shared loop's thread is doing now."""
    thread = _shared.thread.ident if _shared is not None else None
    # No public function gives another thread's frame.
    return sys._current_frames().get(thread or 0)


def abandon() -> None:
    """Give up the shared loop: a program holds it where nothing can interrupt it.

    The next run gets a new one; the old thread ends with the process.
    """
    global _shared
    with _lock:
        _shared = None
