"""The host's end of one worker's pipes: whole frames in, whole frames out, and never a wait.

The loop that reads here serves all runs, so that a worker that neither reads nor ends a message
costs the others nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from ...errors import DiscipleError, LimitExceeded, ProgramCrashed
from ..wire.frames import LONGEST, Frames, Malformed

__all__ = ["Pipe"]

_MAX_UNSENT = 2**25
"""Bytes of answers that a worker may leave unread; ours reads them all."""
_AT_ONCE = 2**18
"""Bytes read in one go."""


class Pipe:
    """Frames to and from a worker, until its run is over."""

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        *,
        output: int,
        take: Callable[[int, bytes], None],
        fail: Callable[[BaseException], None],
        over: Callable[[], bool],
    ) -> None:
        """Watch the pipes.

        Args:
            read_fd: what the worker writes.
            write_fd: what the worker reads.
            output: MiB that the worker may write in all.
            take: called with the kind and the payload of each frame; what it raises ends the run.
            fail: ends the run.
            over: whether the run is over, so that nothing more is read or written.
        """
        self._loop = asyncio.get_running_loop()
        self._read_fd, self._write_fd = read_fd, write_fd
        self._output = output
        self._take, self._fail, self._over = take, fail, over
        self._frames = Frames(LONGEST)
        self._received = 0
        self._unsent = bytearray()
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        self._loop.add_reader(read_fd, self.read)

    def close(self) -> None:
        """Read and write nothing any more."""
        self._loop.remove_reader(self._read_fd)
        self._loop.remove_writer(self._write_fd)
        os.close(self._read_fd)
        os.close(self._write_fd)

    def read(self) -> None:
        """Take all frames that have come."""
        while not self._over():
            try:
                data = os.read(self._read_fd, _AT_ONCE)
            except BlockingIOError:
                return
            if not data:  # how it ended is for the zygote to say
                self._loop.remove_reader(self._read_fd)
                return
            self._received += len(data)
            try:
                if self._received > self._output * 2**20:
                    raise LimitExceeded(
                        f"the program sent more than {self._output} MiB to the host",
                        kind="output",
                        value=self._received / 2**20,
                        limit=self._output,
                    )
                for kind, payload in self._frames.feed(data):
                    self._take(kind, payload)
            except Malformed as error:
                self._fail(ProgramCrashed(f"the program broke the worker's protocol: {error}"))
            except DiscipleError as error:
                self._fail(error)
            # What a forged message makes our own code raise ends this run alone, too.
            except Exception as error:
                self._fail(ProgramCrashed(f"the worker's message cannot be read: {error}"))
            # The pipe is empty now: reading on would be a system call for nothing.
            if len(data) < _AT_ONCE:
                return

    def send(self, frame: bytes) -> None:
        """Write a frame; what the pipe does not take now follows when it can."""
        if self._over():
            return
        if not self._unsent:
            try:
                frame = frame[os.write(self._write_fd, frame) :]
            except BlockingIOError:
                pass
            except BrokenPipeError:  # it has gone; the zygote will say how
                return
        if frame:
            if not self._unsent:
                self._loop.add_writer(self._write_fd, self._writable)
            self._unsent += frame
            if len(self._unsent) > _MAX_UNSENT:
                self._fail(ProgramCrashed("the program leaves its answers unread"))

    def _writable(self) -> None:
        try:
            del self._unsent[: os.write(self._write_fd, self._unsent)]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self._write_fd)
