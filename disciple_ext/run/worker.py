"""What runs inside a worker: the particles and the sampler of one run, behind the locks.

The zygote calls :func:`prepare` once and :func:`work` in each forked child. Everything that
a program may need is imported before the fork, because a locked process can open no file.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import json
import mmap
import os
import random
import signal
import sys
import time
import types
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy

from ..errors import DiscipleError, ProgramError
from ..records.events import Event, Observer
from ..sandbox.check.check import ALLOWED_IMPORTS
from ..sandbox.locks import lockdown
from ..sandbox.wire.events import EventWriter
from ..sandbox.wire.frames import Kind, encode, encode_json
from ..sandbox.wire.requests import VECTORS
from ..sandbox.worker.zygote import READ_FD, VECTOR_FD, WRITE_FD

__all__ = ["prepare", "work"]

# What the standard library and numpy import late, beside what programs may import themselves.
_LATE = """_strptime encodings.ascii encodings.latin_1 encodings.utf_8 encodings.idna unicodedata
    linecache tokenize traceback numpy numpy.random numpy.linalg numpy.fft numpy.ma""".split()

_OURS = [
    "disciple_ext.model.masks.matching",
    "disciple_ext.model.words",
    "disciple_ext.protocol.vocabulary",
    "disciple_ext.run.loader",
    "disciple_ext.run.particles",
    "disciple_ext.sandbox.worker.follower",
    "disciple_ext.sandbox.worker.link",
]
"""What the functions below import where they need it."""

_LAST_WORD = 0.1
"""Seconds before it is killed at which a worker says where its program is busy."""
_LONGEST_PRINT = 100_000
"""Characters that a program may print."""


class _State:
    """What the zygote holds for its workers."""

    def __init__(self, patterns: dict[str, Any], said: Sequence[str]) -> None:
        self.patterns = patterns
        self.warnings = list(said)
        self.follower: Any = None
        self.tokens: Any = None

    def vocabulary(self, data: dict[str, Any]) -> None:
        """Build the vocabulary and the masks that nearly every program uses."""
        from ..model.masks.matching import grammars
        from ..model.words import warm
        from ..protocol.vocabulary import Vocabulary

        self.tokens = Vocabulary.from_dict(data, lambda text: self.follower.encode(text))
        # Before the fork, too: each worker then has these pages already, shared until it writes.
        warm(self.tokens)
        grammars(self.tokens)  # before the fork: it takes up to a second, and starts no thread


def prepare(order: dict[str, Any]) -> _State:
    """Import everything, with stand-ins for what only the host needs."""
    for name in ("torch", "genlm", "genlm.backend", "genlm.backend.llm"):
        # LLaMPPL imports these. Torch would start threads, which a fork does not take along.
        sys.modules[name] = _StandIn(name)
    for name in ("vllm", "mlx_lm"):
        # None makes the import fail: whatever asks for it takes the path that does without.
        sys.modules[name] = None  # type: ignore[assignment]
    for name in (*sorted(ALLOWED_IMPORTS - {"disciple_ext"}), *_LATE, *order["modules"]):
        importlib.import_module(name)
    # What the functions below import is imported here first: they run as a user who may not be
    # able to read the package.
    for name in _OURS:
        importlib.import_module(name)
    from ..registry.plugins import load_plugins

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", RuntimeWarning)
        registry = load_plugins(only=order["plugins"], side="worker")
    return _State(registry.patterns(), [str(w.message) for w in said])


class _StandIn(types.ModuleType):
    """A module that LLaMPPL imports and a worker never uses: its classes can be named only."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("Async") or name == "MockAsyncLM":
            return type(name, (), {})
        raise AttributeError(f"{self.__name__} is not available where programs run ({name})")


def work(state: _State, order: dict[str, Any]) -> None:
    """Lock this process, then run the job that comes over the pipe. Does not return."""
    from ..protocol.measure import BaseMeasure
    from ..sandbox.worker.follower import RemoteFollower
    from ..sandbox.worker.link import Link

    link = Link(READ_FD, WRITE_FD)
    vectors = None
    if order["fds"] > VECTOR_FD - READ_FD:
        vectors = mmap.mmap(VECTOR_FD, 4 * state.tokens.size * VECTORS, prot=mmap.PROT_READ)
        # The mapping does not need it: mmap holds a duplicate of its own.
        os.close(VECTOR_FD)
    follower = state.follower = RemoteFollower(
        link,
        state.tokens,
        name=order["follower"],
        max_context=order["max_context"],
        measure=BaseMeasure.from_dict(order["measure"]),
        vectors=vectors,
    )
    loop = follower.loop()
    asyncio.set_event_loop(loop)
    # Before the lock: seccomp's list has no call that sets a handler or a timer.
    _tell_where_it_is_busy(link, order["kill_at"] - _LAST_WORD)
    try:
        _lock(order)
    except OSError as error:
        link.send(encode_json(Kind.FAILED, {"type": "lock", "message": str(error)}))
        # Not sys.exit: a fork must not run the clean-up that belongs to the zygote.
        os._exit(1)
    link.send(encode(Kind.READY))

    # From here on the process may hold untrusted bytes.
    job = json.loads(link.until(Kind.JOB))
    # Not for the sampler, which has its own streams: for programs that draw by themselves.
    random.seed(job["seed"])
    numpy.random.seed(job["seed"] % 2**32)
    # The kernel would refuse the file anyway; this gives a message that a planner can act on.
    sys.meta_path[:] = [_NoImports]
    printed = _Printed(link) if job["events"] else io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            frame = loop.run_until_complete(_run(job, state, link))
        except BaseException as error:
            # Also SystemExit and KeyboardInterrupt: a program may raise them, and the host waits
            # for a word.
            frame = _failure(error, job["source"])
    printed.flush()
    link.send(frame)
    os._exit(0)


def _tell_where_it_is_busy(link: Any, at: float) -> None:
    """Have a program that never awaits named with its line, shortly before the zygote kills it.

    A program can switch this off; it then ends all the same, only without the line.
    """
    from ..model.stops import program_line
    from ..sandbox.worker import follower as follower_module
    from ..sandbox.worker import link as link_module

    messaging = {link_module.__file__, follower_module.__file__}

    def tell(_: int, frame: types.FrameType | None) -> None:
        line, inner = program_line(frame), frame
        while inner is not None:
            if inner.f_code.co_filename in messaging:
                return  # in the midst of a message: it awaits, or is about to
            inner = inner.f_back
        if line is not None:
            link.send(encode_json(Kind.FAILED, {"type": "Busy", "line": line}))
            os._exit(0)

    # A signal, not a thread: seccomp and Landlock hold the thread that puts them on, no other.
    signal.signal(signal.SIGALRM, tell)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, at - time.monotonic()))


def _lock(order: dict[str, Any]) -> None:
    if order["limits"]:
        lockdown.limit(order["memory"], order["cpu"])
    if order["limits"] and sys.platform == "linux":
        # Landlock and seccomp may be put on without privileges only after this.
        lockdown.no_new_privileges()
    if order["landlock"]:
        lockdown.landlock()
    if order["seccomp"]:
        lockdown.seccomp(READ_FD, WRITE_FD)


class _NoImports:
    """The last word on an import: what a program may import is imported already."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        raise ModuleNotFoundError(
            f"no module {name!r} here; the program API needs no imports, and programs may import "
            f"only {', '.join(sorted(ALLOWED_IMPORTS))}",
            name=name,
        )


async def _run(job: dict[str, Any], state: _State, link: Any) -> bytes:
    from .job import Job, make_sampler
    from .particles import run_particles

    # What is told of each particle grows with its text: it must not use up what a run may send.
    observe = _Observer(link, EventWriter(job["limits"]["output"] * 2**20 // 4), job["detailed"])
    particles, log_evidence = await run_particles(
        Job.from_dict(job),
        state.follower,
        make_sampler(job["sampler"]),
        state.patterns,
        (observe,) if job["events"] else (),
    )
    done = {"particles": [asdict(p) for p in particles], "log_evidence": log_evidence}
    return encode_json(Kind.DONE, done)


class _Observer(Observer):
    """Sends each event to the host."""

    def __init__(self, link: Any, writer: EventWriter, detail: bool) -> None:
        self._link = link
        self._writer = writer
        self.detail = detail

    def __call__(self, event: Event) -> None:
        self._link.send(self._writer.frame(event))


def _failure(error: BaseException, source: str) -> bytes:
    """The error as data. It is formatted here, where its objects are."""
    from . import loader

    known = error if isinstance(error, DiscipleError) else loader.crash(error, source)
    data: dict[str, Any] = {"type": type(known).__name__, "message": _cut(str(known))}
    if isinstance(known, ProgramError):
        names = ("line", "particle", "step", "exception", "of_none")
        data |= {name: getattr(known, name) for name in names}
        data |= {"traceback": _cut(known.traceback), "text": _cut(known.text)}
    try:
        return encode_json(Kind.FAILED, data)
    except (TypeError, ValueError):
        # The exception's fields are the program's to set, and may not be JSON.
        return encode_json(Kind.FAILED, {"type": "", "message": data["message"]})


def _cut(text: Any) -> Any:
    return text[:20_000] if isinstance(text, str) else None


class _Printed(io.TextIOBase):
    """Standard output of a program: lines become events, up to a limit."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._line = ""
        self._left = _LONGEST_PRINT

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: self._left]
        self._left -= len(kept)
        lines, newline, self._line = (self._line + kept).rpartition("\n")
        if newline:
            self._say(lines)
        # As if all were written: what is over the limit is dropped, and is no error of the program.
        return len(text)

    def flush(self) -> None:
        if self._line:
            self._say(self._line)
            self._line = ""

    def _say(self, text: str) -> None:
        event = {"event": "ProgramPrinted", "text": text}
        self._link.send(encode_json(Kind.EVENT, event))
