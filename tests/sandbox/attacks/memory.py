"""Attacks on memory: machine code of one's own, and writing where nothing may be written."""

from __future__ import annotations

from .base import in_group

_attack = in_group("memory")

ATTACKS = [
    _attack(
        "mmap-rwx",
        """
        at, _ = syscall("mmap", 0, 4096, 7, 0x22, -1, 0)
        return f"executable memory at {at:#x}" if at > 0 else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "mmap-rx",
        """
        at, _ = syscall("mmap", 0, 4096, 5, 0x22, -1, 0)
        return f"executable memory at {at:#x}" if at > 0 else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "machine-code",
        """
        at, _ = syscall("mmap", 0, 4096, 7, 0x22, -1, 0)
        if at > 0:
            find_ctypes().memmove(at, CODE, len(CODE))
            return "own machine code ran" if call42(at) else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "mprotect-code",
        """
        at, _ = syscall("mmap", 0, 4096, 3, 0x22, -1, 0)
        find_ctypes().memmove(at, CODE, len(CODE))
        if done("mprotect", at, 4096, 5):
            return "own machine code ran" if call42(at) else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "pkey-mprotect-code",
        """
        at, _ = syscall("mmap", 0, 4096, 3, 0x22, -1, 0)
        find_ctypes().memmove(at, CODE, len(CODE))
        if done("pkey_mprotect", at, 4096, 5, -1):
            return "own machine code ran" if call42(at) else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "personality-exec",
        """
        old, _ = syscall("personality", 0xFFFFFFFF)
        changed, _ = syscall("personality", old | 0x0400000)  # READ_IMPLIES_EXEC
        at, _ = syscall("mmap", 0, 4096, 3, 0x22, -1, 0)
        if old >= 0 and changed >= 0 and at > 0:
            syscall("personality", old)
            find_ctypes().memmove(at, CODE, len(CODE))
            return "own machine code ran" if call42(at) else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "memfd-code",
        """
        import os
        fd, _ = syscall("memfd_create", b"code", 0)
        os.write(fd, CODE + bytes(4096 - len(CODE)))
        at, _ = syscall("mmap", 0, 4096, 5, 2, fd, 0)
        os.close(fd)
        return "own machine code ran" if at > 0 and call42(at) else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "memfd-shared",
        """
        import os
        fd, _ = syscall("memfd_create", b"shared", 0)
        os.ftruncate(fd, 4096)
        at, _ = syscall("mmap", 0, 4096, 3, 1, fd, 0)
        find_ctypes().memmove(at, b"through", 7)
        return os.pread(fd, 7, 0).decode()
        """,
        needs=("x86_64",),
    ),
    _attack(
        "memfd-exec",
        """
        import os
        fd, _ = syscall("memfd_create", b"program", 0)
        with open("/bin/true", "rb") as program:
            os.write(fd, program.read())
        pid = os.fork()
        if pid == 0:
            syscall("execveat", fd, b"", None, None, 0x1000)
            os._exit(9)
        return "ran" if os.waitpid(pid, 0)[1] == 0 else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "file-code",
        """
        import os
        with open(env["marker"], "wb") as file:
            file.write(CODE + bytes(4096 - len(CODE)))
        fd = os.open(env["marker"], os.O_RDONLY)
        at, _ = syscall("mmap", 0, 4096, 5, 2, fd, 0)
        os.close(fd)
        return "own machine code ran" if at > 0 and call42(at) else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "sysv-code",
        """
        segment, _ = syscall("shmget", 0, 4096, 0o1700)
        at, _ = syscall("shmat", segment, 0, 0o100000)  # SHM_EXEC
        syscall("shmctl", segment, 0, 0)
        if at > 0:
            find_ctypes().memmove(at, CODE, len(CODE))
            return "own machine code ran" if call42(at) else None
        """,
        needs=("x86_64", "sysvipc"),
    ),
    _attack(
        "text-writable",
        """
        c = find_ctypes()
        at = c.cast(c.CDLL(None).getpid, c.c_void_p).value & ~4095
        evidence = done("mprotect", at, 4096, 7)
        syscall("mprotect", at, 4096, 5)
        return evidence
        """,
        needs=("x86_64",),
    ),
    _attack(
        "patch-libc",
        """
        import os
        c = find_ctypes()
        function = c.CDLL(None).lcong48
        at = c.cast(function, c.c_void_p).value
        page = at & ~4095
        if done("mprotect", page, 8192, 7):
            before = c.string_at(at, len(CODE))
            c.memmove(at, CODE, len(CODE))
            answer = function()
            c.memmove(at, before, len(CODE))
            syscall("mprotect", page, 8192, 5)
            return "libc patched" if answer == 42 else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "proc-mem-write",
        """
        dumpable()
        at, _ = syscall("mmap", 0, 4096, 1, 0x22, -1, 0)  # for reading only
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(at)
            memory.write(b"forced")
        return find_ctypes().string_at(at, 6).decode()
        """,
        needs=("x86_64", "proc"),
    ),
    _attack(
        "process-vm-writev-self",
        """
        import os, struct
        here, there = buffer(b"written"), buffer(8)
        local = buffer(struct.pack("<QQ", address(here), 7))
        remote = buffer(struct.pack("<QQ", address(there), 7))
        if done("process_vm_writev", os.getpid(), local, 1, remote, 1, 0):
            return there.value.decode()
        """,
        needs=("x86_64",),
    ),
    _attack(
        "userfaultfd",
        'return opened("userfaultfd", 1)',
        needs=("x86_64", "userfaultfd"),
    ),
    _attack("memfd-secret", 'return opened("memfd_secret", 0)', needs=("x86_64",)),
    _attack(
        "int80-getpid",
        """
        import os
        code = bytes.fromhex("53b814000000cd805bc3")  # push rbx; mov eax, 20; int 0x80; pop; ret
        at, _ = syscall("mmap", 0, 4096, 7, 0x22, -1, 0)
        if at > 0:
            c = find_ctypes()
            c.memmove(at, code, len(code))
            pid = c.CFUNCTYPE(c.c_int)(at)()
            return f"32-bit getpid gave {pid}" if pid > 0 else None
        """,
        needs=("x86_64", "ia32"),
    ),
    _attack(
        "modify-ldt",
        """
        import struct
        entry = struct.pack("<IIII", 0, 0, 0xFFFFF, 0b1010001)
        return done("modify_ldt", 17, entry, 16)
        """,
        needs=("x86_64",),
    ),
]
