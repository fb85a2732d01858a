"""One shard of an evaluation, as it runs on a machine of many: ``disciple eval --shard I/K``."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..logs.lines import whole_lines
from ..logs.log import RESULTS, RUN
from .followers import COMMAND

__all__ = ["News", "Shard"]

_PATIENCE = 5.0
_PAUSE = 0.1


@dataclass(frozen=True)
class News:
    """What a shard has done since it was last asked.

    Attributes:
        lines: new lines of its log.
        run: its ``run.json``, or None where there is none yet.
        code: exit code of its process, or None while it runs.
        said: the last lines that the process wrote to standard error.
    """

    lines: bytes
    run: bytes | None
    code: int | None
    said: str


class Shard:
    """A process of ``disciple eval`` with a follower and a log of its own, and its news.

    Args:
        arguments: what follows ``disciple eval``, the shard included.
        log: the lines of the log so far, whoever wrote them: they are not run again.
        run: the log's ``run.json``, or None where there is none.
    """

    def __init__(self, arguments: Sequence[str], log: bytes, run: bytes | None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="disciple-shard-")
        self._place = Path(self._folder.name)
        # A log that is there makes `--resume` skip what other workers have done.
        (self._place / RESULTS).write_bytes(log)
        if run is not None:
            (self._place / RUN).write_bytes(run)
        self._before, self._read = run, len(log)
        self._said = self._place / "said"
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                # A process of its own: its crash or its memory is not the actor's.
                [*COMMAND, *arguments, "--out", str(self._place), "--resume"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                preexec_fn=_end_with_parent,  # a worker that is killed leaves no process behind
            )

    def more(self, patience: float = _PATIENCE) -> News:
        """Wait until there is a new line, or the process has ended.

        Args:
            patience: seconds to wait at most.
        """
        until = time.monotonic() + patience
        while True:
            code = self._process.poll()  # before the lines: those that it wrote last count too
            with (self._place / RESULTS).open("rb") as file:
                file.seek(self._read)
                data = file.read()
            lines = data[: whole_lines(data)]
            if lines or code is not None or time.monotonic() > until:
                self._read += len(lines)
                return News(lines, self._run(), code, self._last_words())
            time.sleep(_PAUSE)

    def close(self) -> None:
        """End the process, if it runs, and take its directory away."""
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def _run(self) -> bytes | None:
        path = self._place / RUN
        data = path.read_bytes() if path.exists() else None
        return None if data == self._before else data  # its own, not the one that it was given

    def _last_words(self) -> str:
        return "\n".join(self._said.read_text("utf-8", "replace").splitlines()[-3:])


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
