"""Attacks by signals: on a process of the same user, on the parent, on groups."""

from __future__ import annotations

from .base import in_group

_attack = in_group("signals")

_DEAD = 'not alive(env["victim"])'

ATTACKS = [
    _attack("kill-victim", 'import os\nos.kill(env["victim"], 15)\nreturn "sent"', witness=_DEAD),
    _attack(
        "kill-victim-raw",
        'return done("kill", env["victim"], 15)',
        witness=_DEAD,
        needs=("x86_64",),
    ),
    _attack(
        "kill-victim-libc",
        'return "sent" if find_ctypes().CDLL(None).kill(env["victim"], 15) == 0 else None',
        witness=_DEAD,
    ),
    _attack("tkill-victim", 'return done("tkill", env["victim"], 15)', _DEAD, ("x86_64",)),
    _attack(
        "tgkill-victim",
        'return done("tgkill", env["victim"], env["victim"], 15)',
        _DEAD,
        ("x86_64",),
    ),
    _attack(
        "sigqueue-victim",
        """
        import struct
        info = struct.pack("<iiii", 15, 0, -1, 0) + bytes(112)  # SI_QUEUE
        return done("rt_sigqueueinfo", env["victim"], 15, info)
        """,
        _DEAD,
        ("x86_64",),
    ),
    _attack(
        "pidfd-send-signal",
        """
        fd, _ = syscall("pidfd_open", env["victim"], 0)
        return done("pidfd_send_signal", fd, 15, None, 0)
        """,
        _DEAD,
        ("x86_64",),
    ),
    _attack(
        "probe-parent",
        'import os\nos.kill(os.getppid(), 0)\nreturn "the parent can be signalled"',
        needs=("same-uid-parent",),
    ),
    _attack("probe-victim", 'import os\nos.kill(env["victim"], 0)\nreturn "is alive"'),
    _attack("probe-everyone", 'import os\nos.kill(-1, 0)\nreturn "can signal everyone"'),
    _attack("probe-group", 'import os\nos.killpg(0, 0)\nreturn "can signal its group"'),
    _attack(
        "probe-init",
        """
        import os
        try:
            os.kill(1, 0)
        except OSError as error:
            if error.errno != 1:
                raise
            # EPERM is what both the kernel's own check and a filter say: ask for no such pid
            try:
                os.kill(2**22 + 1, 0)
            except ProcessLookupError:
                return "the kernel looked for the process"
        else:
            return "can signal init"
        """,
    ),
    _attack(
        "raise-signal",
        """
        import signal
        seen = []
        old = signal.signal(signal.SIGUSR1, lambda *args: seen.append(1))
        try:
            signal.raise_signal(signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, old)
        return "handled" if seen else None
        """,
        needs=("main-thread",),
    ),
    _attack(
        "kill-self",
        """
        import os, signal
        seen = []
        old = signal.signal(signal.SIGUSR2, lambda *args: seen.append(1))
        try:
            os.kill(os.getpid(), signal.SIGUSR2)
        finally:
            signal.signal(signal.SIGUSR2, old)
        return "handled" if seen else None
        """,
        needs=("main-thread",),
    ),
    _attack(
        "alarm",
        """
        import signal
        signal.alarm(1000)
        left = signal.alarm(0)
        return f"{left} seconds were left" if 0 < left <= 1000 else None
        """,
    ),
    _attack(
        "setitimer",
        """
        import signal
        signal.setitimer(signal.ITIMER_PROF, 1000)
        left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        return f"{left} seconds were left" if left else None
        """,
    ),
    _attack(
        "timer-create",
        """
        timer = buffer(8)
        evidence = done("timer_create", 1, None, timer)
        if evidence:
            syscall("timer_delete", int.from_bytes(timer.raw[:4], "little"))
        return evidence
        """,
        needs=("x86_64",),
    ),
    _attack("signalfd", 'return opened("signalfd4", -1, bytes(8), 8, 0)', needs=("x86_64",)),
]
