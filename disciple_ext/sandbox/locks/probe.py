"""What a lock really stops, seen by a process that tries before and after it is put on.

Each control is something harmless that succeeds in an unlocked process (so that its failure
afterwards means something) and must fail in a locked one.
"""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Callable

from . import lockdown

__all__ = ["SECCOMP", "controls", "landlock_controls"]

SECCOMP = ("open a folder", "stat a file", "make a socket", "fork", "signal a process",
           "make memory executable")  # fmt: skip
"""Controls that the seccomp filter must stop."""

# By the ABI that brought the right. Landlock lets a program stat and fork: no controls of it.
_LANDLOCK = {1: "open a folder", 4: "bind a TCP port", 6: "signal a process"}


def landlock_controls(abi: int) -> list[str]:
    """Controls that Landlock must stop, in the version that the kernel has."""
    return [control for since, control in _LANDLOCK.items() if since <= abi]


def controls(target: int, *, landlock: bool, seccomp: bool, pipe: int) -> dict[str, list[bool]]:
    """Try each control, lock this process, try again; for each, whether it succeeded.

    Args:
        target: a process of the same user outside of the lock, to be signalled (with 0).
        landlock: put on Landlock.
        seccomp: put on the filter.
        pipe: the only descriptor that the filter lets this process write to.
    """
    tries: dict[str, Callable[[], object]] = {
        "open a folder": lambda: os.close(os.open("/", os.O_RDONLY)),
        "stat a file": lambda: os.stat("/"),
        "make a socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "bind a TCP port": _bind,
        "fork": _fork,
        "signal a process": lambda: os.kill(target, 0),
        "make memory executable": lambda: mmap.mmap(
            -1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_EXEC
        ).close(),
    }
    before = {name: _succeeds(action) for name, action in tries.items()}
    lockdown.no_new_privileges()
    if landlock:
        lockdown.landlock()
    if seccomp:
        lockdown.seccomp(pipe, pipe)
    return {name: [before[name], _succeeds(action)] for name, action in tries.items()}


def _succeeds(action: Callable[[], object]) -> bool:
    try:
        action()
    except OSError:
        return False
    return True


def _bind() -> None:
    with socket.socket() as sock:
        sock.bind(("0.0.0.0", 0))


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
