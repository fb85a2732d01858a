"""The zygote: a clean process with everything imported, which forks one worker for each run.

It is started with an empty environment, holds no secret, never sees a program's or a task's text
(those go straight to the worker, over the worker's own pipe), and runs no untrusted code. It
keeps the deadline of every worker by itself, so that neither a hanging program nor a busy host
can stretch it. When the host goes away, it kills its workers and ends.

The host orders by lines of JSON over a socket: ``vocabulary``, ``fork`` (with the worker's file
descriptors), ``kill``. The zygote answers ``ready``, ``forked``, ``exit`` or ``failed``.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from ..locks import lockdown, probe

__all__ = ["READ_FD", "VECTOR_FD", "WRITE_FD", "main"]

READ_FD, WRITE_FD, VECTOR_FD = 3, 4, 5
"""A worker's only file descriptors: from the host, to the host, and the vectors' memory."""

# The longest order is a vocabulary.
_MAX_ORDER = 2**26


def main(fd: int) -> None:
    """Serve the host at the other end of the socket ``fd`` until it goes away."""
    control = socket.socket(fileno=fd)
    zygote = _Zygote(control)
    try:
        zygote.serve()
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        zygote.kill_all()


@dataclass
class _Worker:
    number: int
    deadline: float
    killed: str = ""


class _Zygote:
    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.buffer = bytearray()
        self.fds: deque[int] = deque()
        self.workers: dict[int, _Worker] = {}
        self.entry: Any = None
        self.state: Any = None
        # SIGCHLD wakes the poll below through this pipe.
        self.woken, wake = os.pipe()
        os.set_blocking(self.woken, False)
        # Python takes no other descriptor here: a signal's handler must never wait.
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.woken, select.POLLIN)
        while True:
            soonest = min((w.deadline for w in self.workers.values() if not w.killed), default=None)
            left = None if soonest is None else max(0.0, soonest - time.monotonic()) * 1000 + 1
            ready = dict(poll.poll(left))
            if self.woken in ready:
                os.read(self.woken, 4096)
            # In this order: who has ended by itself did not die of its deadline.
            self.reap()
            self.end_late()
            if self.control.fileno() in ready and not self.receive():
                return

    # Orders ---------------------------------------------------------------------------------

    def receive(self) -> bool:
        """Read what has come; False where the host has gone."""
        data, fds, _, _ = socket.recv_fds(self.control, 2**20, 8)
        self.fds.extend(fds)
        self.buffer += data
        while (end := self.buffer.find(b"\n")) >= 0:
            order = json.loads(self.buffer[:end])
            del self.buffer[: end + 1]
            self.obey(order)
        if len(self.buffer) > _MAX_ORDER:
            raise ValueError("an order is too long")
        return bool(data)

    def obey(self, order: dict[str, Any]) -> None:
        match order.pop("order"):
            case "prepare":
                try:
                    self.prepare(order)
                except Exception as error:
                    self.answer("failed", message=f"{type(error).__name__}: {error}")
            case "vocabulary":
                # Before the forks, so that all workers share its memory and none builds it anew.
                self.state.vocabulary(order)
                self.freeze()
                self.answer("ready")
            case "fork":
                self.fork(order)
            case "kill":
                for pid, worker in self.workers.items():
                    if worker.number == order["number"]:
                        self.kill(pid, "host")

    def answer(self, what: str, **facts: Any) -> None:
        self.control.sendall(json.dumps({"answer": what, **facts}).encode() + b"\n")

    def prepare(self, order: dict[str, Any]) -> None:
        """Import everything, give up what can be given up, and witness the locks."""
        # Before it becomes another user, who may not be able to read where the package lies.
        self.entry = importlib.import_module(order["entry"])
        self.state = self.entry.prepare(order)
        self.freeze()
        uid = lockdown.drop_root() if order["confine"] else os.geteuid()
        namespaces = lockdown.unshare() if order["confine"] else ()
        self.answer(
            "prepared",
            uid=uid,
            namespaces=namespaces,
            landlock_abi=lockdown.landlock_abi(),
            controls={
                layer: self.witness(landlock=layer == "landlock", seccomp=layer == "seccomp")
                for layer in ("landlock", "seccomp")
            },
            warnings=self.state.warnings,
        )

    def freeze(self) -> None:
        """Keep the garbage collector off pages that the workers share.

        A collection writes to the head of every object that it looks at, so that a forked worker
        would get a copy of its own of nearly all that was imported.
        """
        gc.collect()
        gc.freeze()

    def witness(self, *, landlock: bool, seccomp: bool) -> dict[str, list[bool]] | str:
        """What a child saw before and after it locked itself, or why it could not."""
        end, begin = os.pipe()
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            seen: Any = "the probe died"
            try:
                seen = probe.controls(zygote, landlock=landlock, seccomp=seccomp, pipe=begin)
            except Exception as error:
                seen = str(error)
            finally:
                os.write(begin, json.dumps(seen).encode())
                os._exit(0)
        os.close(begin)
        said = b""
        while chunk := os.read(end, 65536):
            said += chunk
        os.close(end)
        os.waitpid(pid, 0)
        seen = json.loads(said) if said else "the probe died"
        return seen  # type: ignore[no-any-return]

    # Workers --------------------------------------------------------------------------------

    def fork(self, order: dict[str, Any]) -> None:
        fds = [self.fds.popleft() for _ in range(order["fds"])]
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self.become_worker(order, fds, parent)
            finally:
                # Whatever was raised: a child must not go on as a second zygote.
                os._exit(70)
        for fd in fds:
            os.close(fd)
        self.workers[pid] = _Worker(order["number"], order["kill_at"])
        self.answer("forked", number=order["number"], pid=pid)

    def become_worker(self, order: dict[str, Any], fds: list[int], parent: int) -> None:
        # The zygote's end of this pipe is inherited: a signal here would wake the zygote.
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _move(fds, (READ_FD, WRITE_FD, VECTOR_FD))
        if sys.platform == "linux":
            lockdown.die_with_parent(parent)
        self.entry.work(self.state, order)

    def reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):  # a worker that asked to be traced, at a level that lets it
                os.kill(pid, signal.SIGKILL)
                continue
            worker = self.workers.pop(pid, None)
            if worker is not None:
                code = os.waitstatus_to_exitcode(status)
                cpu = used.ru_utime + used.ru_stime
                self.answer("exit", number=worker.number, code=code, killed=worker.killed, cpu=cpu)

    def end_late(self) -> None:
        now = time.monotonic()
        for pid, worker in self.workers.items():
            if not worker.killed and now >= worker.deadline:
                self.kill(pid, "deadline")

    def kill(self, pid: int, why: str) -> None:
        self.workers[pid].killed = why
        os.kill(pid, signal.SIGKILL)

    def kill_all(self) -> None:
        for pid in self.workers:
            os.kill(pid, signal.SIGKILL)


def _move(fds: list[int], targets: tuple[int, ...]) -> None:
    """Put the descriptors at fixed numbers, and close every other one."""
    # dup2 closes what its target was: a descriptor that still waits to be moved, perhaps.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 16) for fd in fds]  # out of the way of the targets
    for fd, target in zip(high, targets, strict=False):
        os.dup2(fd, target)
    lockdown.close_all_but(targets[: len(fds)])
