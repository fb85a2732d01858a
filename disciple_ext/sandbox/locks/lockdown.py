"""The operating system's locks, put on by a process for itself. None can be taken off again.

Linux only, with ctypes and nothing else: Landlock (``landlock(7)``), a seccomp filter
(``seccomp(2)``), user and other namespaces (``namespaces(7)``), resource limits. Each function
raises ``OSError`` where the system refuses; whether a lock *holds* is for the probe to witness.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Iterable

from .policy import ARCHITECTURES, Architecture

__all__ = [
    "architecture",
    "close_all_but",
    "die_with_parent",
    "drop_root",
    "landlock",
    "landlock_abi",
    "limit",
    "no_new_privileges",
    "seccomp",
    "unshare",
]

NOBODY = 65534

_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None

# Landlock: system calls, and access rights by the ABI version that brought them.
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_FS_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_NET_RIGHTS = {4: 0b11}  # bind, connect
_SCOPES = {6: 0b11}  # abstract unix sockets, signals

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_CLONE = {"user": 0x10000000, "net": 0x40000000, "ipc": 0x08000000, "uts": 0x04000000,
          "mount": 0x00020000, "cgroup": 0x02000000}  # fmt: skip


def _call(what: str, result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _prctl(what: str, *arguments: int) -> None:
    if _libc is None:
        raise OSError(f"{what}: there is no such thing on {sys.platform}")
    padded = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:5]]
    _call(what, _libc.prctl(*padded))


def architecture() -> Architecture | None:
    """The table of this machine's system calls, or None where there is none."""
    return ARCHITECTURES.get(platform.machine()) if _LINUX and sys.maxsize > 2**32 else None


# Before the fork: the zygote, for all of its workers ------------------------------------------


def drop_root() -> int:
    """Become ``nobody`` where the process is root and may; return the user id it now has.

    This must come before :func:`unshare`: in a user namespace without a mapping, root would
    still own its files. A root without the right to change its id (in some containers) stays
    what it is: no level's promise rests on the id.
    """
    if os.geteuid() == 0:
        try:
            # The user id last: after it there is no right to change the others.
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        except OSError:
            pass
    return os.geteuid()


def unshare() -> tuple[str, ...]:
    """Enter namespaces of its own; return those that the system granted (a bonus, never needed)."""
    if _libc is None:
        return ()
    flags = 0
    for flag in _CLONE.values():
        flags |= flag
    # All in one call: being root in the new user namespace gives the right to the others.
    if _libc.unshare(ctypes.c_int(flags)) == 0:
        return tuple(_CLONE)
    return ()


# After the fork: a worker, for itself -----------------------------------------------------------


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies (after any change of user id)."""
    if _libc is not None:
        _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)


def close_all_but(keep: Iterable[int]) -> None:
    """Close every file descriptor that is not in ``keep``."""
    low = 0
    for fd in sorted(keep):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, max(low, 1 << 16))


def limit(memory: int, cpu: int) -> None:
    """Set resource limits: memory beyond what is mapped now (bytes), CPU time (seconds)."""
    # What is mapped now came with the fork: it is the zygote's, and no run's to pay for.
    ceilings = {
        "AS": _mapped() + memory,
        "CPU": cpu,
        "CORE": 0,
        "FSIZE": 0,
        "NPROC": 0,
        "MEMLOCK": 0,
        "MSGQUEUE": 0,
        "RTPRIO": 0,
    }
    # The filter forbids files and forks anyway, but the level ``process`` has no filter.
    for name, value in ceilings.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            soft, hard = resource.getrlimit(kind)
            # A hard limit can be lowered only.
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            # One second between SIGXCPU, which names the cause, and SIGKILL.
            resource.setrlimit(kind, (bound, bound + 1 if name == "CPU" else bound))


def _mapped() -> int:
    """Bytes of address space in use."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 1 << 30


def no_new_privileges() -> None:
    """Give up every capability, and the ways to get any; hide from debuggers."""
    # The kernel gives Landlock and seccomp to who is not root only after this.
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)
    assert _libc is not None
    # _LINUX_CAPABILITY_VERSION_3: three sets of 64 bits, all of them empty below.
    header = struct.pack("<Ii", 0x20080522, 0)
    nothing = bytes(24)
    _call("capset", _libc.capset(header, nothing))
    _prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, 0)


def landlock_abi() -> int:
    """Version of the kernel's Landlock, 0 where it has none."""
    if _libc is None:
        return 0
    version = _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(0, version)


def landlock() -> int:
    """Forbid every access that this kernel's Landlock knows; return its version."""
    abi = landlock_abi()
    if abi == 0:
        raise OSError("the kernel has no Landlock (or it is switched off)")
    fs, net, scopes = (
        sum(bits for since, bits in table.items() if since <= abi)
        for table in (_FS_RIGHTS, _NET_RIGHTS, _SCOPES)
    )
    fields = [fs, net, scopes][: 1 if abi < 4 else 2 if abi < 6 else 3]
    rules = struct.pack(f"<{len(fields)}Q", *fields)
    # No rule follows: what a ruleset handles and no rule allows is forbidden.
    created = _syscall(_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint(0))
    fd = _call("landlock_create_ruleset", created)
    try:
        _call(
            "landlock_restrict_self", _syscall(_RESTRICT_SELF, ctypes.c_int(fd), ctypes.c_uint(0))
        )
    finally:
        os.close(fd)
    return abi


def _syscall(number: int, *arguments: object) -> int:
    assert _libc is not None
    return int(_libc.syscall(ctypes.c_long(number), *arguments))


def seccomp(read_fd: int, write_fd: int) -> None:
    """Refuse every system call but those of the policy's allow-list."""
    arch = architecture()
    if arch is None:
        raise OSError(f"no system call table for {platform.machine()} on {sys.platform}")
    code = _filter(arch, read_fd, write_fd)
    program = b"".join(struct.pack("<HBBI", *instruction) for instruction in code)
    # Both buffers keep a name, since the kernel reads them through pointers.
    buffer = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, then a pointer to them
    header = struct.pack("@HP", len(code), ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(header, len(header))
    _prctl("PR_SET_SECCOMP", _PR_SET_SECCOMP, 2, ctypes.addressof(holder))


_LOAD, _JEQ, _JGE, _JSET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_EPERM, _ENOSYS = 0x00050000 | 1, 0x00050000 | 38
_PROT_EXEC, _MAP_ANONYMOUS = 0x4, 0x20

Instruction = tuple[int, int, int, int]


def _filter(arch: Architecture, read_fd: int, write_fd: int) -> list[Instruction]:
    """Classic BPF over ``struct seccomp_data``: the number at 0, the architecture at 4."""
    allow, refuse, kill = ((_RETURN, 0, 0, value) for value in (_ALLOW, _EPERM, _KILL))
    # The architecture first: elsewhere the same number is another system call.
    code: list[Instruction] = [(_LOAD, 0, 0, 4), (_JEQ, 1, 0, arch.audit), kill, (_LOAD, 0, 0, 0)]
    # Calls of the x32 ABI are of the same architecture, and have a bit of their own.
    if arch.x32 is not None:
        code += [(_JGE, 0, 1, arch.x32), kill]
    for number in arch.plain.values():
        code += [(_JEQ, 0, 1, number), allow]
    for number, test in (
        (arch.read, [_argument(0), (_JEQ, 0, 1, read_fd), allow, refuse]),
        (arch.write, [_argument(0), (_JEQ, 0, 1, write_fd), allow, refuse]),
        (arch.mprotect, [_argument(2), (_JSET, 1, 0, _PROT_EXEC), allow, refuse]),
        (
            arch.mmap,
            [
                _argument(2),
                (_JSET, 2, 0, _PROT_EXEC),
                _argument(3),
                (_JSET, 1, 0, _MAP_ANONYMOUS),
                refuse,
                allow,
            ],
        ),
    ):
        code += [(_JEQ, 0, len(test), number), *test]
    code += [(_JEQ, 0, 1, arch.clone3), (_RETURN, 0, 0, _ENOSYS), refuse]
    return code


def _argument(index: int) -> Instruction:
    """Load the low half of an argument (both architectures are little-endian)."""
    # The low half is enough: descriptors are 32 bits to the kernel, and the flags asked about low.
    return (_LOAD, 0, 0, 16 + 8 * index)
