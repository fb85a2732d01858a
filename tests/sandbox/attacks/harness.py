"""Runs attacks: what they are aimed at, the programs around them, and what came of them.

An attack's program ends in one of two exceptions, ``Succeeded`` or ``Refused``, or in the kernel's
SIGSYS; anything else means that the attack itself never ran, and is an error of the test.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from disciple_ext import run_program
from disciple_ext.errors import DiscipleError, ProgramCrashed, SandboxUnavailable
from disciple_ext.sandbox.host import pool
from disciple_ext.sandbox.locks import policy
from disciple_ext.testing import ToyFollower

from . import PLANTS, Attack
from .preloaded import Preloaded

__all__ = ["BARE", "Outcome", "Target", "lacking", "run_attack", "target", "undefended"]

BARE = "bare"
"""The level of controls: the same worker, with every layer off."""

FOLLOWER = ToyFollower.random(7, ["a", "b"])
HINT = "run-token-"
NOBODY = 65534

# Kernel features that not every machine has: without them a control cannot succeed.
_OPTIONAL = set(
    "fanotify ia32 io_uring keyctl landlock mqueue perf sysvipc userfaultfd userns vsock".split()
)


# What is attacked -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """Files, sockets and a process, all within reach of a worker's user id."""

    scratch: str
    secret_text: str
    tcp_port: int
    abstract: str
    victim: subprocess.Popen[bytes]
    tokens: list[str] = field(default_factory=list)

    def env(self) -> dict[str, Any]:
        """What one run knows, with a token and a marker file of its own."""
        token = HINT + secrets.token_hex(8)
        self.tokens.append(token)
        return {
            "scratch": self.scratch,
            "secret": f"{self.scratch}/secret",
            "secret_text": self.secret_text,
            "marker": f"{self.scratch}/marker-{secrets.token_hex(4)}",
            "token": token,
            "other_token_hint": HINT,
            "tcp_port": self.tcp_port,
            "unix_path": f"{self.scratch}/socket",
            "abstract": self.abstract,
            "victim": self.victim.pid,
        }

    def shared(self) -> list[str]:
        """Shared memory that attacks made."""
        return [f"/dev/shm/{n}" for n in os.listdir("/dev/shm") if any(t in n for t in self.tokens)]

    def untouched(self) -> bool:
        """Whether files and shared memory are as they were."""
        files = set(os.listdir(self.scratch)) == {"secret", "socket"}
        same = files and Path(self.scratch, "secret").read_text() == self.secret_text
        return same and not self.shared()

    def witnessed(self, attack: Attack, env: dict[str, Any]) -> bool:
        """Whether the host sees an effect of the attack."""
        if "alive" in attack.witness:  # a signal that was sent takes effect a moment later
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.victim.wait(0.05)
        names = {
            "env": env,
            "os": os,
            "alive": lambda pid: self.victim.poll() is None,
            "read": lambda path: Path(path).read_text(),
        }
        return bool(eval(attack.witness, names))


@contextlib.contextmanager
def target(level: str) -> Iterator[Target]:
    """A fresh target that belongs to the user id that workers of this level have."""
    user = NOBODY if os.geteuid() == 0 and level != BARE else None
    scratch = tempfile.mkdtemp(prefix="attacked-", dir="/tmp")  # nobody can reach pytest's own
    secret = Path(scratch, "secret")
    secret_text = "secret-" + secrets.token_hex(8)
    secret.write_text(secret_text)
    abstract = f"attacked-{secrets.token_hex(8)}"
    victim = subprocess.Popen(["sleep", "60"], user=user, cwd="/")
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as tcp,
            socket.socket(socket.AF_UNIX) as unix,
            socket.socket(socket.AF_UNIX) as hidden,
        ):
            unix.bind(f"{scratch}/socket")
            hidden.bind("\0" + abstract)
            unix.listen()
            hidden.listen()
            if user is not None:
                for path in (scratch, secret, f"{scratch}/socket"):
                    os.chown(path, user, user)
            aim = Target(scratch, secret_text, tcp.getsockname()[1], abstract, victim)
            try:
                yield aim
            finally:
                for path in aim.shared():
                    os.unlink(path)
    finally:
        victim.kill()
        victim.wait()
        shutil.rmtree(scratch)


# Programs around attacks ------------------------------------------------------------------------

_REPORT = """

class Succeeded(Exception):
    pass


class Refused(Exception):
    pass


def report():
    try:
        for planted in PLANTED:
            plant(planted)
        evidence = attack(ENV)
    except BaseException as error:
        raise Refused(ascii(error)[:300]) from None
    if evidence:
        raise Succeeded(ascii(evidence)[:300])
    raise Refused("no evidence")


class InferenceModel(BaseModel):
    async def step(self):
        report()
"""


def _program(attack: Attack, env: Any, plant: Attack | None, planted: Any, early: bool) -> str:
    before = f"{plant.source}\nplant = attack\n" if plant else ""
    tail = "\nreport()\n" if early else ""
    data = f"ENV = {env!r}\nPLANTED = {[planted] if plant else []!r}\n"
    return f"{before}{attack.source}\n{data}{_REPORT}{tail}"


@dataclass(frozen=True)
class Outcome:
    """What came of an attack.

    Attributes:
        evidence: what the program says it has got, or the empty string.
        refusal: what it met instead.
        witnessed: whether the host saw an effect; None where there is nothing to see.
        untouched: whether files and shared memory were left as they were.
    """

    evidence: str
    refusal: str
    witnessed: bool | None
    untouched: bool

    @property
    def succeeded(self) -> bool:
        """Whether the attack did anything at all."""
        return bool(self.evidence or self.witnessed)

    @property
    def complete(self) -> bool:
        """Whether it did all that it is for."""
        return bool(self.evidence) and self.witnessed is not False


def run_attack(attack: Attack, level: str, *, early: bool = False, **options: Any) -> Outcome:
    """Run one attack on a fresh target, after its plant.

    Args:
        attack: the attack.
        level: the sandbox level; at :data:`BARE`, use :func:`undefended`.
        early: attack while the program is loaded, not in its first step.
        options: more options of ``run_program``.
    """
    with target(level) as aim:
        env, planted = aim.env(), aim.env()
        plant = PLANTS[attack.follows] if attack.follows else None
        # One process for both runs is what a fork for each run defends against.
        together = plant is not None and "in-process" in attack.needs and level == BARE
        if plant is not None and not together:
            _run(_program(plant, planted, None, None, False), level, options)
        source = _program(attack, env, plant if together else None, planted, early)
        evidence, refusal = _run(source, level, options)
        seen = aim.witnessed(attack, env) if attack.witness else None
        untouched = aim.untouched()
    return Outcome(evidence, refusal, seen, untouched)


def _run(source: str, level: str, options: dict[str, Any]) -> tuple[str, str]:
    settings = {"n": 1, "timeout": 20.0, "sampler": Preloaded(), **options}
    try:
        run_program(source, "a task", follower=FOLLOWER, sandbox=level, **settings)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    except ProgramCrashed as error:
        said = re.match(r"the program raised (Succeeded|Refused): (.*)", str(error), re.DOTALL)
        if said and said[1] == "Succeeded":
            return said[2], ""
        if said or "SIGSYS" in str(error):
            return "", str(error)
        raise AssertionError(f"the attack did not run: {error}") from error
    except DiscipleError as error:
        raise AssertionError(f"the attack did not end: {error}") from error
    raise AssertionError("the attack did not run: the program ended well")


# Controls ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def undefended() -> Iterator[None]:
    """Offer the level :data:`BARE`, whose zygote also inherits a secret by its environment."""

    def leaky(command: list[str], *, env: dict[str, str], **options: Any) -> Any:
        env = {**env, "DISCIPLE_TEST_SECRET": "from-the-host"}
        return subprocess.Popen(command, env=env, **options)

    layers = policy.Layers(landlock=False, seccomp=False, limits=False, confine=False)
    names = types.SimpleNamespace(**{**vars(subprocess), "Popen": leaky})
    with (
        mock.patch.dict(policy.LEVELS, {BARE: layers}),
        mock.patch.object(pool, "subprocess", names),
    ):
        yield


def lacking(attack: Attack) -> str:
    """Why the control of an attack may fail on this machine, or the empty string."""
    needs = set(attack.needs)
    if "x86_64" in needs and platform.machine() != "x86_64":
        return "made of x86-64's system calls"
    if "root" in needs and os.geteuid() != 0:
        return "the attack alone wants root"
    return ", ".join(sorted(needs & _OPTIONAL))
