"""Ctrl-C ends the command within a second, whatever a program does.

The first interrupt raises KeyboardInterrupt where the main thread is. A program may swallow that
(a bare ``except`` in a loop), and asyncio would only cancel its main task, which a loop without
``await`` never notices; so a timer ends the process if it has not ended by itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

__all__ = ["happened", "install"]

_GRACE_SECONDS = 0.5
_interrupted = threading.Event()


def install() -> None:
    """Handle SIGINT (asyncio leaves handlers that are not Python's default alone)."""
    # Python lets only the main thread set a handler.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _handle)


def happened() -> bool:
    """Was this command interrupted?"""
    return _interrupted.is_set()


def _handle(signum: int, frame: FrameType | None) -> None:
    if not _interrupted.is_set():
        _interrupted.set()
        timer = threading.Timer(_GRACE_SECONDS, _end)
        # A command that ends by itself must not wait for it.
        timer.daemon = True
        timer.start()
    raise KeyboardInterrupt


def _end() -> None:
    if sys.stderr.isatty():
        os.write(2, b"\x1b[?25h")  # the live view may have hidden the cursor
    # Not print: the stream's lock may be held by the thread that hangs.
    os.write(2, b"\ninterrupted\n")
    # Not sys.exit: in this thread it would end the thread alone.
    os._exit(130)
