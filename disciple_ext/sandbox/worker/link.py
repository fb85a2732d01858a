"""The worker's end of the pipe: frames to and from the host, three kinds of system call."""

from __future__ import annotations

import os
import select
from collections import deque

from ..wire.frames import Frames, Kind

__all__ = ["Link"]


class Link:
    """Frames to and from the host."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._in, self._out = read_fd, write_fd
        self._frames = Frames()
        self._arrived: deque[tuple[int, bytes]] = deque()
        self._poll = select.poll()
        self._poll.register(read_fd, select.POLLIN)

    def send(self, frame: bytes) -> None:
        """Write a frame, waiting where the pipe is full."""
        view = memoryview(frame)
        while view:
            view = view[os.write(self._out, view) :]

    def receive(self, timeout: float | None = None) -> tuple[int, bytes] | None:
        """The next frame, or None after ``timeout`` seconds. Ends the process with the host."""
        while not self._arrived:
            # Without a timeout the read itself waits: one system call less.
            if timeout is not None and not self._poll.poll(max(0.0, timeout) * 1000):
                return None
            data = os.read(self._in, 2**18)
            if not data:
                # The host has gone. No exit handler, which may be the program's, is to run now.
                os._exit(0)
            self._arrived.extend(self._frames.feed(data))
        return self._arrived.popleft()

    def until(self, kind: Kind) -> bytes:
        """The next frame of a kind; frames of other kinds are kept for later, in their order."""
        kept: list[tuple[int, bytes]] = []
        while True:
            frame = self.receive()
            assert frame is not None
            if frame[0] == kind:
                self._arrived.extendleft(reversed(kept))
                return frame[1]
            kept.append(frame)

    def take(self) -> tuple[int, bytes] | None:
        """The next frame that has already arrived, or None."""
        return self._arrived.popleft() if self._arrived else None
