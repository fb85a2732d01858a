"""Files of lines that only grow, and are whole whatever kills their writer.

Each line is written by one call, so that a process that is killed leaves whole lines, at worst
with one torn line at the end: readers leave that out, and the next writer takes it away.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import EvaluationError

__all__ = ["LineWriter", "whole_lines"]


class LineWriter:
    """Appends lines to a file, each in one write.

    Args:
        path: the file; it and its directory are made where there are none.
        again: what the user does once there is room for the next line.

    Raises:
        EvaluationError: it cannot be opened.
    """

    def __init__(self, path: Path, again: str) -> None:
        self._path = path
        self._again = again
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Without a buffer of Python's: a line is either written or not when the process is
            # killed.
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(self._file, whole_lines(path.read_bytes()))
        except OSError as error:
            raise EvaluationError(f"the log {path} cannot be opened: {error}") from error

    def write(self, line: str) -> None:
        """Append one line.

        Raises:
            EvaluationError: it cannot be written (no space left); the file stays as it was.
        """
        data = line.encode() + b"\n"
        size = os.fstat(self._file).st_size
        try:
            # A full disk can take a part of it; the second call then raises, and the part is taken
            # back.
            written = os.write(self._file, data)
            if written < len(data):
                os.write(self._file, data[written:])
        except OSError as error:
            os.ftruncate(self._file, size)
            raise EvaluationError(
                f"the log {self._path} cannot be written ({error}); make room, and {self._again}"
            ) from error

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def whole_lines(data: bytes) -> int:
    """Bytes up to the end of the last whole line."""
    return data.rfind(b"\n") + 1
