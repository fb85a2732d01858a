"""Attacks by processes and threads: starting them, looking into them, changing one's own."""

from __future__ import annotations

from .base import in_group

_attack = in_group("processes")
_hoard = in_group("resources")

_MADE = 'os.path.exists(env["marker"])'

ATTACKS = [
    # Starting -----------------------------------------------------------------------------
    _attack(
        "os-fork",
        """
        import os
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        return ended(pid)
        """,
    ),
    _attack(
        "raw-fork",
        """
        import os
        pid, _ = syscall("fork")
        if pid == 0:
            os._exit(0)
        return ended(pid) if pid > 0 else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "raw-clone",
        """
        import os
        pid, _ = syscall("clone", 17, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        return ended(pid) if pid > 0 else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "raw-clone-vfork",
        """
        import os
        pid, _ = syscall("clone", 0x4000 | 17, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        return ended(pid) if pid > 0 else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "raw-clone3",
        """
        import os, struct
        pid, _ = syscall("clone3", struct.pack("<8Q", 0, 0, 0, 0, 17, 0, 0, 0), 64)
        if pid == 0:
            os._exit(0)
        return ended(pid) if pid > 0 else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "raw-clone-newuser",
        """
        import os
        pid, _ = syscall("clone", 0x10000000 | 17, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        return ended(pid) if pid > 0 else None
        """,
        needs=("x86_64", "userns"),
    ),
    _attack(
        "libc-fork",
        """
        import os
        pid = find_ctypes().PyDLL(None).fork()
        if pid == 0:
            os._exit(0)
        return ended(pid) if pid > 0 else None
        """,
    ),
    _attack(
        "forkpty",
        """
        import os
        pid, fd = os.forkpty()
        if pid == 0:
            os._exit(0)
        os.close(fd)
        return ended(pid)
        """,
    ),
    _attack(
        "posix-spawn",
        """
        import os
        argv = ["/bin/touch", env["marker"]]
        return ended(os.posix_spawn(argv[0], argv, {}))
        """,
        witness=_MADE,
    ),
    _attack(
        "subprocess-run",
        """
        import subprocess
        done = subprocess.run(["/bin/touch", env["marker"]])
        return "ran" if done.returncode == 0 else None
        """,
        witness=_MADE,
    ),
    _attack(
        "subprocess-shell",
        """
        import subprocess
        return subprocess.run("id -u", shell=True, capture_output=True).stdout.decode()
        """,
    ),
    _attack(
        "os-system",
        """
        import os
        return "ran" if os.system(f"touch '{env['marker']}'") == 0 else None
        """,
        witness=_MADE,
    ),
    _attack("os-popen", 'import os\nreturn os.popen("echo out").read()'),
    _attack(
        "libc-system",
        """
        command = f"touch '{env['marker']}'".encode()
        return "ran" if find_ctypes().CDLL(None).system(command) == 0 else None
        """,
        witness=_MADE,
    ),
    _attack(
        "fork-exec",
        """
        import os
        pid = os.fork()
        if pid == 0:
            try:
                os.execv("/bin/touch", ["touch", env["marker"]])
            finally:
                os._exit(1)
        return ended(pid)
        """,
        witness=_MADE,
    ),
    _attack(
        "execve-bad-path",
        'return refused("execve", b"/no/such/program", None, None, by="ENOENT")',
        needs=("x86_64",),
    ),
    _attack(
        "execveat-bad-path",
        'return refused("execveat", -100, b"/no/such/program", None, None, 0, by="ENOENT")',
        needs=("x86_64",),
    ),
    _attack(
        "multiprocessing",
        """
        import multiprocessing, os
        process = multiprocessing.get_context("fork").Process(target=os._exit, args=(7,))
        process.start()
        process.join(1)
        return "ran" if process.exitcode == 7 else None
        """,
        needs=("imports",),
    ),
    _attack(
        "thread-raw",
        """
        import _thread
        lock = _thread.allocate_lock()
        lock.acquire()
        _thread.start_new_thread(lock.release, ())
        return "ran" if lock.acquire(timeout=1) else None
        """,
        needs=("threads",),
    ),
    _attack(
        "threading",
        """
        import threading
        seen = []
        thread = threading.Thread(target=seen.append, args=(1,))
        thread.start()
        thread.join(1)
        return "ran" if seen else None
        """,
        needs=("threads",),
    ),
    _attack(
        "thread-pool",
        """
        import concurrent.futures.thread
        with concurrent.futures.thread.ThreadPoolExecutor(1) as pool:
            return str(pool.submit(pow, 2, 3).result(1))
        """,
        needs=("threads", "imports"),
    ),
    # Looking into others ------------------------------------------------------------------
    _attack("ptrace-traceme", 'return done("ptrace", 0, 0, 0, 0)', needs=("x86_64", "forked")),
    _attack(
        "ptrace-seize-victim",
        """
        import os
        evidence = done("ptrace", 0x4206, env["victim"], 0, 0)  # PTRACE_SEIZE
        if evidence:
            syscall("ptrace", 0x4207, env["victim"], 0, 0)  # PTRACE_INTERRUPT
            os.waitpid(env["victim"], 0x40000000)  # __WALL
            syscall("ptrace", 17, env["victim"], 0, 0)  # PTRACE_DETACH
        return evidence
        """,
        needs=("x86_64", "open-victim"),
    ),
    _attack(
        "process-vm-readv-victim",
        """
        import struct
        here = buffer(8)
        local = buffer(struct.pack("<QQ", address(here), 8))
        remote = buffer(struct.pack("<QQ", 0x1000, 8))
        return refused(
            "process_vm_readv", env["victim"], local, 1, remote, 1, 0, by="EFAULT"
        )
        """,
        needs=("x86_64", "open-victim"),
    ),
    _attack(
        "process-vm-readv-parent",
        """
        import os, struct
        here = buffer(8)
        local = buffer(struct.pack("<QQ", address(here), 8))
        remote = buffer(struct.pack("<QQ", address(here), 8))  # a fork's parent has it there, too
        return refused(
            "process_vm_readv", os.getppid(), local, 1, remote, 1, 0, by="EFAULT"
        )
        """,
        needs=("x86_64", "same-uid-parent"),
    ),
    _attack(
        "process-vm-writev-victim",
        """
        import struct
        here = buffer(8)
        local = buffer(struct.pack("<QQ", address(here), 8))
        remote = buffer(struct.pack("<QQ", 0x1000, 8))
        return refused(
            "process_vm_writev", env["victim"], local, 1, remote, 1, 0, by="EFAULT"
        )
        """,
        needs=("x86_64", "open-victim"),
    ),
    _attack("pidfd-open", 'return opened("pidfd_open", env["victim"], 0)', needs=("x86_64",)),
    _attack(
        "pidfd-getfd",
        """
        fd, _ = syscall("pidfd_open", env["victim"], 0)
        return opened("pidfd_getfd", fd, 0, 0)
        """,
        needs=("x86_64", "open-victim"),
    ),
    _attack(
        "kcmp",
        'import os\nreturn done("kcmp", os.getpid(), os.getpid(), 0, 0, 0)',
        needs=("x86_64",),
    ),
    # Changing one's own -------------------------------------------------------------------
    _attack(
        "unshare-newuser",
        'return done("unshare", 0x10000000)',
        needs=("x86_64", "userns", "forked"),
    ),
    _attack("unshare-files", 'return done("unshare", 0x400)', needs=("x86_64", "forked")),
    _attack(
        "setns-bad-descriptor", 'return refused("setns", -1, 0, by="EBADF")', needs=("x86_64",)
    ),
    _attack("setsid", 'import os\nos.setsid()\nreturn "new session"', needs=("forked",)),
    _attack("setpgid", 'import os\nos.setpgid(0, 0)\nreturn "new group"', needs=("forked",)),
    _attack("prctl-name", 'return done("prctl", 15, b"innocent", 0, 0, 0)', needs=("x86_64",)),
    _attack("prctl-dumpable", 'return done("prctl", 4, 1, 0, 0, 0)', needs=("x86_64",)),
    _attack("prctl-pdeathsig", 'return done("prctl", 1, 0, 0, 0, 0)', needs=("x86_64", "forked")),
    _attack(
        "prctl-subreaper",
        """
        evidence = done("prctl", 36, 1, 0, 0, 0)
        syscall("prctl", 36, 0, 0, 0, 0)
        return evidence
        """,
        needs=("x86_64",),
    ),
    _attack("personality", 'return done("personality", 0xFFFFFFFF)', needs=("x86_64",)),
    _attack(
        "seccomp-query",
        'return done("seccomp", 2, 0, (0x7FFF0000).to_bytes(4, "little"))',
        needs=("x86_64",),
    ),
    _attack(
        "capset",
        """
        import struct
        header = buffer(struct.pack("<Ii", 0x20080522, 0))
        data = buffer(24)
        if done("capget", header, data):
            return done("capset", header, data)
        """,
        needs=("x86_64",),
    ),
    _attack("setuid", 'import os\nos.setuid(os.getuid())\nreturn "set"'),
    _attack("umask", 'import os\nold = os.umask(0)\nos.umask(old)\nreturn f"was {old:o}"'),
    # Resources ----------------------------------------------------------------------------
    _hoard(
        "setrlimit-raise",
        """
        import resource
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return f"{soft} to {hard}"
        """,
        needs=("imports",),
    ),
    _hoard(
        "prlimit-self",
        """
        import struct
        limits = buffer(16)
        if done("prlimit64", 0, 0, None, limits):
            soft, hard = struct.unpack("<QQ", limits.raw)
            return done("prlimit64", 0, 0, struct.pack("<QQ", hard, hard), None)
        """,
        needs=("x86_64",),
    ),
    _hoard(
        "prlimit-victim",
        """
        limits = buffer(16)
        return done("prlimit64", env["victim"], 7, None, limits)
        """,
        needs=("x86_64",),
    ),
    _hoard("nice", 'import os\nreturn f"nice {os.nice(1)}"', needs=("forked",)),
    _hoard(
        "setpriority",
        """
        import os
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))
        return "set"
        """,
    ),
    _hoard(
        "sched-affinity",
        'import os\nos.sched_setaffinity(0, os.sched_getaffinity(0))\nreturn "set"',
    ),
    _hoard(
        "sched-batch",
        """
        import os
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        return "set"
        """,
    ),
    _hoard(
        "descriptor-hoard-dup",
        """
        import os
        fds = []
        try:
            for _ in range(100):
                fds.append(os.dup(0))
            return f"{len(fds)} descriptors"
        finally:
            for fd in fds:
                os.close(fd)
        """,
    ),
    _hoard(
        "descriptor-hoard-pipe",
        """
        import os
        fds = []
        try:
            for _ in range(50):
                fds.extend(os.pipe())
            return f"{len(fds)} descriptors"
        finally:
            for fd in fds:
                os.close(fd)
        """,
    ),
    _hoard(
        "thread-hoard",
        """
        import _thread, time
        for _ in range(20):
            _thread.start_new_thread(time.sleep, (0.05,))
        time.sleep(0.1)
        return "20 threads"
        """,
        needs=("threads",),
    ),
    _hoard(
        "process-hoard",
        """
        import os
        pids = []
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            pids.append(pid)
        for pid in pids:
            os.waitpid(pid, 0)
        return "10 processes"
        """,
    ),
    _hoard(
        "memory-outside-limits",
        """
        import os
        fd, _ = syscall("memfd_create", b"hoard", 0)
        try:
            os.ftruncate(fd, 2**26)
            os.pwrite(fd, bytes(2**20), 2**25)
            return "a memory file beyond RLIMIT_AS"
        finally:
            os.close(fd)
        """,
        needs=("x86_64",),
    ),
    _hoard(
        "mlock",
        """
        page = buffer(8192)
        evidence = done("mlock", address(page), 4096)
        syscall("munlock", address(page), 4096)
        return evidence
        """,
        needs=("x86_64",),
    ),
    _hoard(
        "file-hoard",
        """
        import os
        for i in range(20):
            with open(f"{env['marker']}.{i}", "x") as file:
                file.write("x" * 1000)
        for i in range(20):
            os.unlink(f"{env['marker']}.{i}")
        return "20 files"
        """,
    ),
]
