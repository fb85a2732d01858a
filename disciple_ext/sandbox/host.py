"""Runs in workers, from the host's side: zygotes are started, kept, and told to fork.

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
import math
import mmap
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import SandboxError, SandboxUnavailable
from ..model.requests import Follower
from ..model.vocabulary import Vocabulary
from ..result import Particle
from ..task import Limits
from ..trace.events import Event
from . import probe
from .messages import VECTORS
from .policy import LEVELS
from .session import Exit, Session

__all__ = ["Done", "Witness", "run", "witness"]

GRACE = 0.25
"""Seconds after its deadline that a worker has to give back what it holds."""

_START = 60.0
"""Seconds that a zygote may take to start, on a machine that is busy with other things."""
_KEPT = 4
"""Zygotes kept: one for each vocabulary and set of plugins in use."""


@dataclass(frozen=True)
class Witness:
    """What probe processes saw of this machine's locks.

    Attributes:
        level: the strongest level that holds.
        layers: for ``landlock`` and ``seccomp``, each control with whether it succeeded before and
            after the lock; or why the lock could not be put on.
        landlock_abi: version of the kernel's Landlock, 0 for none.
        uid: user id of the workers.
        namespaces: namespaces of their own that workers have.
    """

    level: str
    layers: dict[str, dict[str, list[bool]] | str]
    landlock_abi: int
    uid: int
    namespaces: tuple[str, ...]

    def missing(self, level: str) -> str:
        """What keeps this machine from ``level`` and how to get it, or the empty string."""
        layers = LEVELS[level]
        assert layers is not None
        wanted = [name for name in ("seccomp", "landlock") if getattr(layers, name)]
        return "; ".join(
            f"{_failure(name, self.layers[name], self.landlock_abi)} ({_REMEDY[name]})"
            for name in wanted
            if _failure(name, self.layers[name], self.landlock_abi)
        )

    def facts(self) -> dict[str, Any]:
        """What a result says of it, besides the level."""
        return {
            "landlock_abi": self.landlock_abi,
            "namespaces": list(self.namespaces),
            "uid": self.uid,
            "machine": platform.machine(),
        }


_REMEDY = {
    "seccomp": "Linux on x86-64 or aarch64 with CONFIG_SECCOMP_FILTER gives it, and a container "
    "whose profile permits prctl(PR_SET_SECCOMP)",
    "landlock": "Linux 5.13 or newer with 'landlock' in its lsm= list gives it, and a container "
    "whose profile permits the landlock system calls",
}


def _failure(layer: str, seen: dict[str, list[bool]] | str, abi: int) -> str:
    """Why a layer is not witnessed, or the empty string."""
    if isinstance(seen, str):
        return f"{layer} cannot be put on: {seen}"
    controls = probe.SECCOMP if layer == "seccomp" else probe.landlock_controls(abi)
    for control in controls:
        before, after = seen[control]
        if after:
            return f"{layer} does not hold: a locked process could {control}"
        if not before:
            return f"{layer} cannot be witnessed: even an unlocked process cannot {control}"
    return ""


@dataclass(frozen=True)
class Done:
    """A finished run: the worker's claims, and what the host knows.

    Attributes:
        particles: the particles, as the worker gave them.
        log_evidence: natural log of the evidence, as the worker gave it.
        tokens: follower tokens, counted by the host.
        sandbox: the level witnessed, and what is known of the locks.
        ready: seconds from the order to fork until the worker was locked.
    """

    particles: tuple[Particle, ...]
    log_evidence: float | None
    tokens: int
    sandbox: dict[str, Any]
    ready: float


async def witness(plugins: Sequence[str] = (), modules: Sequence[str] = ()) -> Witness:
    """What this machine's locks are worth. It starts the zygote that the next run will need."""
    return (await _pool().prepared(tuple(plugins), tuple(modules), True)).witness


async def run(
    job: dict[str, Any],
    sampler: dict[str, Any],
    *,
    follower: Follower,
    plugins: Sequence[str],
    level: str,
    emit: Callable[[Event], None] | None,
) -> Done:
    """Run a job in a worker of its own.

    Args:
        job: the run as data (``execution.Job``).
        sampler: the sampler as data.
        follower: what answers the worker's requests.
        plugins: names of the plugins that the worker needs.
        level: the sandbox level.
        emit: called with each event, or None where nobody listens.

    Raises:
        SandboxUnavailable: the level is not witnessed on this machine.
        SandboxError: the worker or the zygote was killed from outside, or cannot be started.
        ProgramError: the program failed.
        LimitExceeded: a limit ended the run.
        FollowerError: the model failed.
    """
    layers = LEVELS[level]
    assert layers is not None
    limits = Limits(**job["limits"])
    zygote = await _pool().assigned(
        tuple(plugins), (sampler["module"],), layers.confine, follower.vocabulary
    )
    missing = zygote.witness.missing(level)
    if missing:
        raise SandboxUnavailable(f"the sandbox level {level!r} is not to be had here: {missing}")
    kill_at = job["deadline"] + GRACE
    order = {
        "landlock": layers.landlock,
        "seccomp": layers.seccomp,
        "limits": layers.limits,
        "memory": limits.memory * 2**20,
        "cpu": math.ceil(limits.cpu if limits.cpu is not None else limits.timeout + 5),
        "kill_at": kill_at,
        "follower": follower.name,
        "max_context": follower.max_context,
    }
    forked = time.monotonic()
    session = zygote.fork(order, follower, limits, emit)
    try:
        session.start({**job, "sampler": sampler, "events": emit is not None})
        # The zygote keeps the deadline; if it does not, something holds the zygote.
        late = max(0.0, kill_at - time.monotonic()) + 5.0
        try:
            outcome = await asyncio.wait_for(asyncio.shield(session.done), late)
        except TimeoutError:
            zygote.stop()
            raise SandboxError("the sandbox's zygote no longer answers; run it again") from None
    finally:
        zygote.end(session)
    sandbox = {"witnessed": level, **zygote.witness.facts()}
    ready = (session.ready_at or forked) - forked
    return Done(outcome.particles, outcome.log_evidence, outcome.tokens, sandbox, ready)


# Zygotes ----------------------------------------------------------------------------------------


class _Zygote:
    """A zygote process, and the sessions of its workers."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(_START)
        self._socket = ours
        self._errors = tempfile.TemporaryFile()
        script = (
            f"import sys; sys.path[:] = {[os.path.abspath(p) for p in sys.path]!r}; "
            f"from disciple_ext.sandbox.zygote import main; main({theirs.fileno()})"
        )
        # Nothing of the host's environment goes along: no key, no home, no proxy.
        environment = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
        environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
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
    ) -> _Zygote:
        """Have it import everything and witness its locks."""
        answer = await self._ask(
            "prepare",
            entry="disciple_ext.worker",
            plugins=plugins,
            modules=modules,
            confine=confine,
        )
        for text in answer["warnings"]:
            warnings.warn(f"in the sandbox: {text}", RuntimeWarning, stacklevel=2)
        abi, layers = answer["landlock_abi"], answer["controls"]
        holds = {name: not _failure(name, layers[name], abi) for name in ("seccomp", "landlock")}
        level = "seccomp" if holds["seccomp"] else "process"
        if all(holds.values()):
            level = "landlock+seccomp"
        namespaces = tuple(answer["namespaces"])
        self.witness = Witness(level, layers, abi, answer["uid"], namespaces)
        return self

    async def use(self, vocabulary: Vocabulary) -> _Zygote:
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
        follower: Follower,
        limits: Limits,
        emit: Callable[[Event], None] | None,
    ) -> Session:
        """Fork a worker; its process may not exist yet when this returns."""
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
    fd = os.memfd_create("vectors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    memory = mmap.mmap(fd, size)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL | _F_SEAL_FUTURE_WRITE
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return memory, fd


_F_SEAL_FUTURE_WRITE = 0x10


class _Pool:
    """The zygotes of one event loop, by what they have imported and their vocabulary."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[Any, ...], asyncio.Task[_Zygote]] = {}

    async def prepared(
        self, plugins: tuple[str, ...], modules: tuple[str, ...], confine: bool
    ) -> _Zygote:
        """A zygote with everything imported, any one that fits."""
        key = (plugins, modules, confine)
        for known, task in self._tasks.items():
            if known[:3] == key and _usable(task):
                return await asyncio.shield(task)
        return await self._get(key, lambda: _Zygote().prepare(*key))

    async def assigned(
        self,
        plugins: tuple[str, ...],
        modules: tuple[str, ...],
        confine: bool,
        vocabulary: Vocabulary,
    ) -> _Zygote:
        """The zygote of a vocabulary."""
        key = (plugins, modules, confine)

        async def make() -> _Zygote:
            task = self._tasks.pop(key, None)  # one that waits without a vocabulary
            waiting = await task if task is not None and _usable(task) else None
            if waiting is None or not waiting.alive:
                waiting = await _Zygote().prepare(*key)
            return await waiting.use(vocabulary)

        return await self._get((*key, _fingerprint(vocabulary)), make)

    async def _get(self, key: tuple[Any, ...], make: Callable[[], Any]) -> _Zygote:
        task = self._tasks.get(key)
        if task is None or not _usable(task):
            self._tasks.pop(key, None)
            task = asyncio.get_running_loop().create_task(make())
        else:
            del self._tasks[key]
        self._tasks[key] = task  # the most recently used ones last
        self._evict()
        return await asyncio.shield(task)

    def _evict(self) -> None:
        idle = [
            key
            for key, task in self._tasks.items()
            if task.done() and _usable(task) and not task.result().sessions
        ]
        for key in idle[: max(0, len(self._tasks) - _KEPT)]:
            self._tasks.pop(key).result().stop()


def _usable(task: asyncio.Task[_Zygote]) -> bool:
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


_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = weakref.WeakKeyDictionary()
_zygotes: weakref.WeakSet[_Zygote] = weakref.WeakSet()


def _pool() -> _Pool:
    return _pools.setdefault(asyncio.get_running_loop(), _Pool())


@atexit.register
def _stop_all() -> None:
    for zygote in list(_zygotes):
        zygote.stop()
