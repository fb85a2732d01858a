"""The host's zygotes: started, kept for later runs, told to fork, ended.

Everything here happens on the event loop that all runs share, so nothing needs a lock.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import hashlib
import itertools
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import SandboxError
from ...protocol.follower import BaseFollower
from ...protocol.vocabulary import Vocabulary
from ...records.events import Event
from ...records.task import Limits
from ..locks.witness import Witness, failure
from ..wire.requests import VECTORS
from .session import Exit, Session

__all__ = ["Pool", "Zygote", "the_pool"]

_START = 60.0
"""Seconds that a zygote may take to start, on a machine that is busy with other things."""
_KEPT = 4
"""Zygotes kept: one for each vocabulary and set of plugins in use."""


class Zygote:
    """A zygote process, and the sessions of its workers."""

    def __init__(self) -> None:
        # A new interpreter, no fork of this process: here are threads, which a fork does not
        # survive soundly, and secrets, which a worker must not inherit.
        ours, theirs = socket.socketpair()
        # All runs share the loop that orders are written on: a zygote that reads none must not
        # hold it for ever.
        ours.settimeout(_START)
        self._socket = ours
        # A file: a pipe that is not read meanwhile fills, and whoever writes to it stops.
        self._errors = tempfile.TemporaryFile()
        # It starts in / and without PYTHONPATH, so it is told where modules are.
        script = (
            f"import sys; sys.path[:] = {[os.path.abspath(p) for p in sys.path]!r}; "
            f"from disciple_ext.sandbox.worker.zygote import main; main({theirs.fileno()})"
        )
        # Nothing of the host's environment goes along: no key, no home, no proxy.
        environment = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
        # No threads of a numerical library's: a fork takes along only the thread that forks.
        environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
        # While this end is open here, the host sees no end of file when the zygote dies.
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-s", "-P", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=environment,
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for the host to handle
            )
        self.sessions: dict[int, Session] = {}
        self.alive = True
        self._numbers = itertools.count(1)
        self._buffer = bytearray()
        self._answer: asyncio.Future[dict[str, Any]] | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(ours, self._readable)
        _zygotes.add(self)

    async def prepare(
        self, plugins: Sequence[str], modules: Sequence[str], confine: bool
    ) -> Zygote:
        """Have it import everything and witness its locks."""
        answer = await self._ask(
            "prepare",
            entry="disciple_ext.run.worker",
            plugins=plugins,
            modules=modules,
            confine=confine,
        )
        for text in answer["warnings"]:
            warnings.warn(f"in the sandbox: {text}", RuntimeWarning, stacklevel=2)
        abi, layers = answer["landlock_abi"], answer["controls"]
        holds = {name: not failure(name, layers[name], abi) for name in ("seccomp", "landlock")}
        # Landlock alone is no level: the filter carries the boundary.
        level = "seccomp" if holds["seccomp"] else "process"
        if all(holds.values()):
            level = "landlock+seccomp"
        namespaces = tuple(answer["namespaces"])
        self.witness = Witness(level, layers, abi, answer["uid"], namespaces)
        return self

    async def use(self, vocabulary: Vocabulary) -> Zygote:
        """Give it the vocabulary of its workers."""
        await self._ask("vocabulary", **vocabulary.to_dict())
        return self

    async def _ask(self, order: str, **facts: Any) -> dict[str, Any]:
        self._answer = self._loop.create_future()
        self._order(order, facts)
        try:
            return await asyncio.wait_for(self._answer, _START)
        except TimeoutError:
            self.stop()
            message = f"the sandbox's zygote was not ready within {_START:g} s"
            raise SandboxError(message) from None

    def fork(
        self,
        order: dict[str, Any],
        follower: BaseFollower,
        limits: Limits,
        emit: Callable[[Event], None] | None,
    ) -> Session:
        """Fork a worker; its process may not exist yet when this returns."""
        # Not sockets: over a socket a worker could pass descriptors on.
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        fds = [theirs_in, theirs_out]
        vectors, memory = _vectors(4 * follower.vocabulary.size * VECTORS)
        if memory is not None:
            fds.append(memory)
        session = Session(follower, limits, ours_in, ours_out, vectors, emit)
        number = next(self._numbers)
        self.sessions[number] = session
        try:
            self._order("fork", {**order, "number": number, "fds": len(fds)}, fds)
        except SandboxError:
            del self.sessions[number]
            session.close()
            raise
        finally:
            # While the host holds the worker's ends, it sees no end of file when the worker dies.
            for fd in fds:
                os.close(fd)
        return session

    def end(self, session: Session) -> None:
        """Forget a session; kill its worker if it still runs."""
        session.close()
        for number, other in list(self.sessions.items()):
            if other is session:
                del self.sessions[number]
                if self.alive:
                    with contextlib.suppress(SandboxError):  # it has just gone: so has the worker
                        self._order("kill", {"number": number})

    def _order(self, order: str, facts: dict[str, Any], fds: Sequence[int] = ()) -> None:
        line = json.dumps({"order": order, **facts}).encode() + b"\n"
        try:
            # It may send a part of the line only; the descriptors go with the first byte.
            sent = socket.send_fds(self._socket, [line], fds) if fds else 0
            self._socket.sendall(line[sent:])
        except OSError as error:
            self.stop()
            message = f"the sandbox's zygote does not take orders: {error}"
            raise SandboxError(message) from None

    def _readable(self) -> None:
        try:
            data = self._socket.recv(2**16)
        except OSError:
            data = b""
        if not data:
            self.stop()
            return
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            answer = json.loads(self._buffer[:end])
            del self._buffer[: end + 1]
            self._take(answer)

    def _take(self, answer: dict[str, Any]) -> None:
        match answer["answer"]:
            case "exit":
                session = self.sessions.pop(answer["number"], None)
                if session is not None:
                    session.exited(Exit(answer["code"], answer["killed"], answer["cpu"]))
            case "failed":
                self._settle(SandboxError(f"the sandbox cannot start: {answer['message']}"))
            case "prepared" | "ready":
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result(answer)

    def _settle(self, error: SandboxError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def stop(self) -> None:
        """End the process and every run that still goes on in its workers."""
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._socket)
        self._socket.close()
        try:
            self.process.wait(0.2)  # it goes by itself once the socket is closed
        except subprocess.TimeoutExpired:
            self.process.kill()  # its workers go with it
            self.process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        self._errors.close()
        code = self.process.returncode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        why = f": {said[0]}" if said else ""
        error = SandboxError(f"the sandbox's zygote ended {how} while it was needed{why}")
        self._settle(error)
        for session in self.sessions.values():
            session.fail(error)
        self.sessions.clear()


def _vectors(size: int) -> tuple[mmap.mmap | None, int | None]:
    """Memory that the host writes and a worker may only read; None where there is no such thing."""
    if not hasattr(os, "memfd_create"):
        return None, None
    # Sealed against shrinking, too: a write to a page that is gone would kill the host (SIGBUS).
    fd = os.memfd_create("vectors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    memory = mmap.mmap(fd, size)
    # The seals hold for what is mapped later: our own writable map was made before them.
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL | _F_SEAL_FUTURE_WRITE
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return memory, fd


# From linux/fcntl.h: Python 3.11 has no name for it.
_F_SEAL_FUTURE_WRITE = 0x10


class Pool:
    """The zygotes of one event loop, by what they have imported and their vocabulary."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[Any, ...], asyncio.Task[Zygote]] = {}

    async def prepared(
        self, plugins: tuple[str, ...], modules: tuple[str, ...], confine: bool
    ) -> Zygote:
        """A zygote with everything imported, any one that fits."""
        key = (plugins, modules, confine)
        # One that has a vocabulary imported the same things, so that its witness is as good.
        for known, task in self._tasks.items():
            if known[:3] == key and _usable(task):
                return await asyncio.shield(task)
        return await self._get(key, lambda: Zygote().prepare(*key))

    async def assigned(
        self,
        plugins: tuple[str, ...],
        modules: tuple[str, ...],
        confine: bool,
        vocabulary: Vocabulary,
    ) -> Zygote:
        """The zygote of a vocabulary."""
        key = (plugins, modules, confine)

        async def make() -> Zygote:
            task = self._tasks.pop(key, None)  # one that waits without a vocabulary
            waiting = await task if task is not None and _usable(task) else None
            if waiting is None or not waiting.alive:
                waiting = await Zygote().prepare(*key)
            return await waiting.use(vocabulary)

        return await self._get((*key, _fingerprint(vocabulary)), make)

    async def _get(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Zygote:
        task = self._tasks.get(key)
        if task is None or not _usable(task):
            self._tasks.pop(key, None)
            task = asyncio.get_running_loop().create_task(make())
        else:
            del self._tasks[key]
        self._tasks[key] = task  # the most recently used ones last
        self._evict()
        # Others may wait for the same zygote: a run that is cancelled must not cancel its start.
        return await asyncio.shield(task)

    def _evict(self) -> None:
        # One with runs under way is never ended, so there may be more than are kept for a while.
        idle = [
            key
            for key, task in self._tasks.items()
            if task.done() and _usable(task) and not task.result().sessions
        ]
        for key in idle[: max(0, len(self._tasks) - _KEPT)]:
            self._tasks.pop(key).result().stop()


def _usable(task: asyncio.Task[Zygote]) -> bool:
    """Whether a zygote is on its way or alive."""
    if not task.done():
        return True
    return not task.cancelled() and task.exception() is None and task.result().alive


_fingerprints: weakref.WeakKeyDictionary[Vocabulary, bytes] = weakref.WeakKeyDictionary()


def _fingerprint(vocabulary: Vocabulary) -> bytes:
    found = _fingerprints.get(vocabulary)
    if found is None:
        data = json.dumps(vocabulary.to_dict()).encode()
        found = _fingerprints[vocabulary] = hashlib.blake2b(data, digest_size=16).digest()
    return found


_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = weakref.WeakKeyDictionary()
_zygotes: weakref.WeakSet[Zygote] = weakref.WeakSet()


def the_pool() -> Pool:
    """The pool of the running event loop."""
    return _pools.setdefault(asyncio.get_running_loop(), Pool())


@atexit.register
def _stop_all() -> None:
    for zygote in list(_zygotes):
        zygote.stop()
