"""Attacks on the system: kernel interfaces that no program needs, and what wants root."""

from __future__ import annotations

from .base import in_group

_attack = in_group("system")

ATTACKS = [
    # Kernel interfaces --------------------------------------------------------------------
    _attack(
        "io-uring",
        'return opened("io_uring_setup", 1, buffer(bytes(120)))',
        needs=("x86_64", "io_uring"),
    ),
    _attack(
        "io-uring-python",
        """
        import mmap, os
        fd, _ = syscall("io_uring_setup", 4, buffer(bytes(120)))
        ring = mmap.mmap(fd, 4096)
        ring.close()
        os.close(fd)
        return "a ring was mapped"
        """,
        needs=("x86_64", "io_uring", "imports"),
    ),
    _attack("memfd-create", 'return opened("memfd_create", b"file", 0)', needs=("x86_64",)),
    _attack("eventfd", 'return opened("eventfd2", 0, 0)', needs=("x86_64",)),
    _attack("timerfd", 'return opened("timerfd_create", 1, 0)', needs=("x86_64",)),
    _attack("epoll-create", 'return opened("epoll_create1", 0)', needs=("x86_64",)),
    _attack("pipe", "import os\nreturn str(os.pipe())"),
    _attack("dup", "import os\nfd = os.dup(0)\nos.close(fd)\nreturn str(fd)"),
    _attack("openpty", "import os\nreturn str(os.openpty())"),
    _attack(
        "perf-event",
        """
        import struct
        kind = struct.pack("<IIQ", 1, 112, 0) + bytes(24) + struct.pack("<Q", 0x61) + bytes(64)
        return opened("perf_event_open", buffer(kind), 0, -1, -1, 0)
        """,
        needs=("x86_64", "perf"),
    ),
    _attack(
        "bpf-map",
        """
        import struct
        made = opened("bpf", 0, buffer(struct.pack("<IIIII", 2, 4, 4, 1, 0) + bytes(100)), 120)
        return made or refused("bpf", 999, buffer(bytes(120)), 120, by="EINVAL")
        """,
        needs=("x86_64", "root"),
    ),
    _attack(
        "landlock-abi",
        'return done("landlock_create_ruleset", None, 0, 1)',
        needs=("x86_64", "landlock"),
    ),
    _attack(
        "add-key",
        """
        key, _ = syscall("add_key", b"user", env["token"].encode(), b"x", 1, -2)
        if key > 0:
            syscall("keyctl", 3, key)  # KEYCTL_REVOKE
            return f"key {key}"
        """,
        needs=("x86_64", "keyctl"),
    ),
    _attack("keyctl-session", 'return done("keyctl", 0, -3, 1)', needs=("x86_64", "keyctl")),
    _attack(
        "shm-open",
        """
        import _posixshmem, os
        fd = _posixshmem.shm_open("/attack-" + env["token"], os.O_CREAT | os.O_RDWR, 0o600)
        _posixshmem.shm_unlink("/attack-" + env["token"])
        return f"descriptor {fd}"
        """,
        needs=("imports",),
    ),
    _attack(
        "shm-open-libc",
        """
        libc = find_ctypes().CDLL(None)
        name = b"/attack-" + env["token"].encode()
        fd = libc.shm_open(name, 0o102, 0o600)
        libc.shm_unlink(name)
        return f"descriptor {fd}" if fd >= 0 else None
        """,
    ),
    _attack(
        "sysv-shm",
        """
        segment, _ = syscall("shmget", 0, 4096, 0o1700)
        if segment >= 0:
            return done("shmctl", segment, 0, 0)
        """,
        needs=("x86_64", "sysvipc"),
    ),
    _attack(
        "sysv-sem",
        """
        semaphore, _ = syscall("semget", 0, 1, 0o1700)
        if semaphore >= 0:
            return done("semctl", semaphore, 0, 0, 0)
        """,
        needs=("x86_64", "sysvipc"),
    ),
    _attack(
        "sysv-msg",
        """
        queue, _ = syscall("msgget", 0, 0o1700)
        if queue >= 0:
            return done("msgctl", queue, 0, 0)
        """,
        needs=("x86_64", "sysvipc"),
    ),
    _attack(
        "posix-mq",
        """
        name = b"attack-" + env["token"].encode()
        evidence = opened("mq_open", name, 0o102, 0o600, None)
        syscall("mq_unlink", name)
        return evidence
        """,
        needs=("x86_64", "mqueue"),
    ),
    _attack("adjtimex-read", 'return done("adjtimex", buffer(bytes(208)))', needs=("x86_64",)),
    # What wants root, asked for in user namespaces ----------------------------------------
    _attack(
        "userns-mount",
        """
        syscall("unshare", 0x10000000 | 0x20000)
        return done("mount", b"none", b"/proc/self/fdinfo", b"tmpfs", 0, None)
        """,
        needs=("x86_64", "proc", "userns", "forked"),
    ),
    _attack(
        "userns-chroot",
        'syscall("unshare", 0x10000000)\nreturn done("chroot", env["scratch"].encode())',
        needs=("x86_64", "userns", "forked"),
    ),
    _attack(
        "userns-sethostname",
        """
        syscall("unshare", 0x10000000 | 0x4000000)
        return done("sethostname", b"own", 3)
        """,
        needs=("x86_64", "userns", "forked"),
    ),
    _attack(
        "userns-raw-socket",
        """
        import socket
        syscall("unshare", 0x10000000 | 0x40000000)
        return repr(socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
        """,
        needs=("x86_64", "inet", "userns", "forked"),
    ),
    _attack(
        "userns-fsopen",
        """
        syscall("unshare", 0x10000000 | 0x20000)
        return opened("fsopen", b"tmpfs", 0)
        """,
        needs=("x86_64", "userns", "forked"),
    ),
    # What wants root, with harmless arguments ---------------------------------------------
    _attack(
        "mount-bad-type",
        'return refused("mount", b"x", b"/", b"no-such-type", 0, None, by="ENODEV")',
        needs=("x86_64", "root"),
    ),
    _attack(
        "umount-no-mount",
        'return refused("umount2", env["scratch"].encode(), 0, by="EINVAL")',
        needs=("x86_64", "root"),
    ),
    _attack(
        "chroot-same",
        'return done("chroot", b"/")',
        needs=("x86_64", "root"),
    ),
    _attack(
        "pivot-root-bad",
        'return refused("pivot_root", b"/proc", b"/dev", by="EINVAL")',
        needs=("x86_64", "proc", "root"),
    ),
    _attack(
        "sethostname-same",
        """
        import os
        name = os.uname().nodename.encode()
        return done("sethostname", name, len(name))
        """,
        needs=("x86_64", "root"),
    ),
    _attack("open-tree", 'return opened("open_tree", -100, b"/", 1)', needs=("x86_64", "root")),
    _attack("dmesg", 'return done("syslog", 3, buffer(100), 100)', needs=("x86_64", "root")),
    _attack(
        "clock-settime-bad",
        'return refused("clock_settime", 0, (2**64 - 1).to_bytes(16, "little"), by="EINVAL")',
        needs=("x86_64", "root"),
    ),
    _attack(
        "swapon-missing",
        'return refused("swapon", b"/no/such/file", 0, by="ENOENT")',
        needs=("x86_64", "root"),
    ),
]
