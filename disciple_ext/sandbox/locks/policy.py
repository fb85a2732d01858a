"""What a worker may still do once it is locked, as data.

The allow-list is short because a worker needs little: it computes, allocates memory, and talks
to the host over one pipe each way. Everything else fails with EPERM, which a program sees as an
ordinary ``PermissionError``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ARCHITECTURES", "LEVELS", "Architecture", "Layers"]


@dataclass(frozen=True)
class Layers:
    """Which layers a level puts around a worker.

    Attributes:
        landlock: no file, no TCP port, no abstract socket, no signal to the outside.
        seccomp: no system call but those of the allow-list.
        limits: resource limits (memory, CPU, no files written, no child processes).
        confine: another user id where there is root to give up, and namespaces of its own (user,
            network, IPC, mounts, host name) where the system grants them.
    """

    landlock: bool
    seccomp: bool
    limits: bool = True
    confine: bool = True


LEVELS: dict[str, Layers | None] = {
    "landlock+seccomp": Layers(landlock=True, seccomp=True),
    "seccomp": Layers(landlock=False, seccomp=True),
    "process": Layers(landlock=False, seccomp=False),
    "none": None,
}
"""Levels from the strongest to the weakest; ``none`` runs in the host's own process."""


@dataclass(frozen=True)
class Architecture:
    """System call numbers of one processor architecture.

    Attributes:
        audit: its AUDIT_ARCH value; a call under any other one kills the process.
        plain: numbers allowed with any arguments.
        read, write: allowed on the two pipes to the host only.
        mmap: allowed for anonymous memory that is not executable.
        mprotect: allowed where it does not make memory executable.
        clone3: answered with ENOSYS, so that libraries fall back to a call that is refused.
        x32: bit that marks calls of another ABI, or None; such a call kills the process.
    """

    audit: int
    plain: dict[str, int]
    read: int
    write: int
    mmap: int
    mprotect: int
    clone3: int = 435
    x32: int | None = None


ARCHITECTURES = {
    "x86_64": Architecture(
        audit=0xC000003E,
        plain={
            # No fcntl: by F_SETOWN it has the kernel send signals to others.
            "poll": 7,
            "munmap": 11,
            "brk": 12,
            "rt_sigreturn": 15,
            "sched_yield": 24,
            "mremap": 25,
            "madvise": 28,
            "nanosleep": 35,
            "getpid": 39,
            "exit": 60,
            "gettimeofday": 96,
            "gettid": 186,
            "time": 201,
            "futex": 202,
            "restart_syscall": 219,
            "clock_gettime": 228,
            "clock_getres": 229,
            "clock_nanosleep": 230,
            "exit_group": 231,
            "getrandom": 318,
        },
        read=0,
        write=1,
        mmap=9,
        mprotect=10,
        x32=0x40000000,
    ),
    # Written from the kernel's table; not run on such a machine.
    "aarch64": Architecture(
        audit=0xC00000B7,
        plain={
            # There is no poll on this architecture: the C library calls ppoll for it.
            "ppoll": 73,
            "exit": 93,
            "exit_group": 94,
            "futex": 98,
            "nanosleep": 101,
            "clock_gettime": 113,
            "clock_getres": 114,
            "clock_nanosleep": 115,
            "sched_yield": 124,
            "restart_syscall": 128,
            "rt_sigreturn": 139,
            "gettimeofday": 169,
            "getpid": 172,
            "gettid": 178,
            "brk": 214,
            "munmap": 215,
            "mremap": 216,
            "madvise": 233,
            "getrandom": 278,
        },
        read=63,
        write=64,
        mmap=222,
        mprotect=226,
    ),
}
