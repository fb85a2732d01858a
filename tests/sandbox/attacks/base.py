"""What an attack is, and the helpers that every attack's source begins with."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

GROUPS = (
    "files",
    "network",
    "processes",
    "signals",
    "memory",
    "isolation",
    "resources",
    "imports",
    "system",
)

NEEDS = {
    "abstract": "abstract AF_UNIX sockets",
    "exec-environ": "DISCIPLE_TEST_SECRET was set before the host's interpreter was executed",
    "fanotify": "fanotify for unprivileged users (Linux 5.13)",
    "forked": "a process of its own: the attack changes it for good",
    "ia32": "32-bit system calls (CONFIG_IA32_EMULATION)",
    "imports": "the interpreter's library is readable: imports a module that may not be loaded",
    "inet": "a loopback interface",
    "in-process": "both runs in one process (a fork per run defends, seccomp and Landlock do not)",
    "io_uring": "io_uring is not disabled",
    "keyctl": "kernel keyrings",
    "landlock": "Landlock in the kernel",
    "loop": "the attack is called from a running asyncio event loop",
    "main-thread": "the attack runs in the main thread (Python's signal handlers)",
    "mqueue": "POSIX message queues",
    "open-victim": "the victim is dumpable: executed after its uid was set, no ptrace_scope",
    "perf": "perf_event_paranoid <= 2 and a PMU or software events",
    "proc": "/proc is mounted",
    "root": "the control runs as root",
    "same-uid-parent": "the parent has the same uid, and is dumpable",
    "sysvipc": "System V IPC",
    "threads": "threads may be started",
    "unix": "AF_UNIX sockets",
    "userfaultfd": "userfaultfd (user mode only)",
    "userns": "unprivileged user namespaces, and a single-threaded process",
    "vsock": "AF_VSOCK",
    "x86_64": "system call numbers or machine code of x86-64",
    "xattr": "user extended attributes on the scratch file system",
}
"""What ``Attack.needs`` may name: without it, the control cannot succeed."""


@dataclass(frozen=True)
class Attack:
    """One attack, as data.

    Attributes:
        name: unique, kebab-case.
        group: one of :data:`GROUPS`.
        source: :data:`PRELUDE` and a ``def attack(env)`` that returns evidence when the attack
            succeeded, and returns None or raises when it did not.
        witness: expression that the host evaluates after the run, with ``env``, ``os``, ``alive``
            and ``read`` in scope; true when the attack had an outside effect.
        needs: what the control needs, see :data:`NEEDS`.
        follows: name of the plant (in ``PLANTS``) that must run before, in a run of its own.
    """

    name: str
    group: str
    source: str
    witness: str = ""
    needs: tuple[str, ...] = ()
    follows: str = ""


def in_group(group: str) -> Callable[..., Attack]:
    """A maker of attacks of one group from the body of their ``attack(env)``."""

    def make(
        name: str, body: str, witness: str = "", needs: tuple[str, ...] = (), follows: str = ""
    ) -> Attack:
        body = textwrap.indent(textwrap.dedent(body).strip(), "    ")
        return Attack(
            name, group, f"{PRELUDE}\ndef attack(env):\n{body}\n", witness, needs, follows
        )

    return make


PRELUDE = '''\
NR = {
    "open": 2, "stat": 4, "mmap": 9, "mprotect": 10, "shmget": 29, "shmat": 30, "shmctl": 31,
    "socket": 41, "connect": 42, "clone": 56, "fork": 57, "execve": 59, "kill": 62, "semget": 64,
    "semctl": 66, "msgget": 68, "msgctl": 71, "fcntl": 72, "creat": 85, "ptrace": 101,
    "syslog": 103, "capget": 125, "capset": 126, "rt_sigqueueinfo": 129, "mknod": 133,
    "personality": 135, "mlock": 149, "munlock": 150, "modify_ldt": 154, "pivot_root": 155,
    "prctl": 157, "adjtimex": 159, "chroot": 161, "mount": 165, "umount2": 166, "swapon": 167,
    "sethostname": 170, "tkill": 200, "timer_create": 222, "timer_delete": 226,
    "clock_settime": 227, "tgkill": 234, "mq_open": 240, "mq_unlink": 241, "add_key": 248,
    "keyctl": 250, "inotify_add_watch": 254, "openat": 257, "unshare": 272, "timerfd_create": 283,
    "signalfd4": 289, "eventfd2": 290, "epoll_create1": 291, "inotify_init1": 294,
    "perf_event_open": 298, "fanotify_init": 300, "prlimit64": 302, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311,
    "kcmp": 312, "seccomp": 317, "memfd_create": 319, "bpf": 321, "execveat": 322,
    "userfaultfd": 323, "pkey_mprotect": 329, "statx": 332, "pidfd_send_signal": 424,
    "io_uring_setup": 425, "open_tree": 428, "fsopen": 430, "pidfd_open": 434, "clone3": 435,
    "openat2": 437, "pidfd_getfd": 438, "faccessat2": 439, "landlock_create_ruleset": 444,
    "memfd_secret": 447,
}


def find_ctypes():
    """The ctypes module, by whatever way works."""
    import sys

    try:
        import ctypes

        return ctypes
    except BaseException:
        pass
    if sys.modules.get("ctypes"):
        return sys.modules["ctypes"]
    try:
        return sys.modules["numpy"].ctypeslib.ctypes
    except BaseException:
        pass
    for cls in object.__subclasses__():
        for method in list(vars(cls).values()):
            names = getattr(method, "__globals__", {})
            if names.get("__name__") == "ctypes":
                return _Names(names)
    import gc

    for thing in gc.get_objects():
        if isinstance(thing, dict) and "PyDLL" in thing and "create_string_buffer" in thing:
            return _Names(thing)
    raise ImportError("no ctypes")


class _Names:
    def __init__(self, names):
        self.__dict__.update(names)


def syscall(nr, *args):
    """One system call, by name or number: (result, errno). The GIL is kept, so it may fork."""
    c = find_ctypes()
    call = c.PyDLL(None, use_errno=True).syscall
    call.restype = c.c_long
    words = [c.c_long(a) if isinstance(a, int) else a for a in args]
    c.set_errno(0)
    result = call(c.c_long(NR.get(nr, nr)), *words)
    return result, c.get_errno()


def opened(nr, *args):
    """A system call that gives a descriptor: evidence if it did, and the descriptor is closed."""
    import os

    fd, errno = syscall(nr, *args)
    if fd >= 0:
        os.close(fd)
        return f"{nr} gave descriptor {fd}"


def done(nr, *args):
    """A system call that returns zero or more: evidence if it did."""
    result, errno = syscall(nr, *args)
    if result >= 0:
        return f"{nr} returned {result}"


def refused(nr, *args, by):
    """A harmless system call with bad arguments: evidence if the kernel got to look at them."""
    import errno as codes

    result, errno = syscall(nr, *args)
    if result >= 0 or errno == getattr(codes, by):
        return f"{nr} came through ({by})"


def buffer(content):
    return find_ctypes().create_string_buffer(content)


def address(buf):
    return find_ctypes().addressof(buf)


def ended(pid):
    """Evidence that a child ran: it is reaped."""
    import os

    os.waitpid(pid, 0)
    return f"child {pid} ran"


def own(env):
    """A file of one's own; the secret where none can be made."""
    try:
        with open(env["marker"], "x") as file:
            file.write("own")
        return env["marker"]
    except Exception:
        return env["secret"]


def dumpable():
    """Take /proc/self back after a change of uid (PR_SET_DUMPABLE)."""
    try:
        syscall("prctl", 4, 1, 0, 0, 0)
    except BaseException:
        pass


def call42(at):
    """Call machine code that returns 42."""
    c = find_ctypes()
    return c.CFUNCTYPE(c.c_int)(at)() == 42


CODE = bytes.fromhex("b82a000000c3")  # mov eax, 42; ret


def other_token(text, env):
    """A token of another run in bytes, or None."""
    import re

    hint = env["other_token_hint"].encode()
    mine = env["token"].encode()
    for found in re.findall(re.escape(hint) + rb"[0-9A-Za-z]{6,64}", text):
        # Scraps of one's own token lie about in memory, too.
        if found[: len(hint) + 6] != mine[: len(hint) + 6]:
            return found.decode()
'''
