"""How a program's step is left before its end, and at which of its lines."""

from __future__ import annotations

import functools
import sys
import traceback
import types
from collections.abc import Awaitable, Callable
from typing import Any

from .masks.formal import Unfinished

__all__ = ["PROGRAM_FILE", "Stop", "program_line", "stoppable"]

PROGRAM_FILE = "<program>"
"""File name under which programs are compiled; their lines are found by it."""


# No Exception: a program's own `except Exception` must not keep a dead particle going.
class Stop(BaseException):
    """Unwinds ``step`` when a particle has ended; BaseModel catches it."""


def stoppable(step: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A ``step`` that may be left: the particle has ended then."""

    @functools.wraps(step)
    async def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await step(self, *args, **kwargs)
        except Unfinished as left:
            self.line = program_line(left.__traceback__)
            self._end_here("impossible_mask", str(left))
            return None
        except Stop:
            if not self.finished:  # pragma: no cover - Stop is raised on finished particles only
                raise
            return None

    return wrapper


def program_line(
    place: types.FrameType | types.TracebackType | None = None,
) -> int | None:
    """The line of the program that is running now, or at a place; innermost frame first."""
    if isinstance(place, types.TracebackType):
        lines = [
            number
            for frame, number in traceback.walk_tb(place)
            if frame.f_code.co_filename == PROGRAM_FILE
        ]
        return lines[-1] if lines else None
    frame: types.FrameType | None = place or sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == PROGRAM_FILE:
            return frame.f_lineno
        frame = frame.f_back
    return None
