"""Attacks on files: reading, writing, looking, and what is reached through names."""

from __future__ import annotations

from .base import in_group

_attack = in_group("files")

_WRITTEN = 'os.path.exists(env["marker"]) and env["token"] in read(env["marker"])'
_MADE = 'os.path.lexists(env["marker"])'

ATTACKS = [
    # Reading ------------------------------------------------------------------------------
    _attack("open-secret", 'return open(env["secret"]).read()'),
    _attack("open-passwd", 'return open("/etc/passwd").readline()'),
    _attack(
        "os-open-secret",
        """
        import os
        return os.read(os.open(env["secret"], os.O_RDONLY), 100).decode()
        """,
    ),
    _attack(
        "raw-open-secret",
        """
        import os
        fd, _ = syscall("open", env["secret"].encode(), 0, 0)
        return os.read(fd, 100).decode()
        """,
        needs=("x86_64",),
    ),
    _attack(
        "raw-openat-secret",
        """
        import os
        fd, _ = syscall("openat", -100, env["secret"].encode(), 0, 0)
        return os.read(fd, 100).decode()
        """,
        needs=("x86_64",),
    ),
    _attack(
        "raw-openat2-secret",
        """
        import os
        fd, _ = syscall("openat2", -100, env["secret"].encode(), buffer(bytes(24)), 24)
        return os.read(fd, 100).decode()
        """,
        needs=("x86_64",),
    ),
    _attack(
        "open-path-then-reopen",
        """
        import os
        fd = os.open(env["secret"], os.O_PATH)
        return open(f"/proc/self/fd/{fd}").read()
        """,
        needs=("proc",),
    ),
    _attack(
        "libc-fopen",
        """
        c = find_ctypes()
        libc = c.CDLL(None)
        libc.fopen.restype = c.c_void_p
        file = libc.fopen(env["secret"].encode(), b"r")
        line = c.create_string_buffer(100)
        if file and libc.fgets(line, 100, c.c_void_p(file)):
            return line.value.decode()
        """,
    ),
    _attack(
        "numpy-fromfile",
        """
        import numpy
        return numpy.fromfile(env["secret"], dtype="u1").tobytes().decode()
        """,
    ),
    _attack(
        "pathlib-read",
        'import pathlib\nreturn pathlib.Path(env["secret"]).read_text()',
        needs=("imports",),
    ),
    _attack(
        "sendfile-secret",
        """
        import os
        source = os.open(env["secret"], os.O_RDONLY)
        out, into = os.pipe()
        os.sendfile(into, source, 0, 100)
        return os.read(out, 100).decode()
        """,
    ),
    _attack(
        "copy-file-range",
        """
        import os
        source = os.open(env["secret"], os.O_RDONLY)
        to = os.open(env["marker"], os.O_RDWR | os.O_CREAT, 0o644)
        if os.copy_file_range(source, to, 100):
            return "copied"
        """,
        witness='os.path.exists(env["marker"]) and env["secret_text"] in read(env["marker"])',
    ),
    _attack(
        "mmap-secret",
        """
        import os
        fd = os.open(env["secret"], os.O_RDONLY)
        at, _ = syscall("mmap", 0, 4096, 1, 2, fd, 0)
        return find_ctypes().string_at(at, len(env["secret_text"])).decode()
        """,
        needs=("x86_64",),
    ),
    _attack(
        "proc-self-environ",
        """
        dumpable()
        return open("/proc/self/environ", "rb").read(100).decode(errors="replace")
        """,
        needs=("proc",),
    ),
    _attack(
        "proc-self-maps", 'dumpable()\nreturn open("/proc/self/maps").readline()', needs=("proc",)
    ),
    _attack(
        "proc-parent-environ",
        """
        import os
        return open(f"/proc/{os.getppid()}/environ", "rb").read(60).decode(errors="replace")
        """,
        needs=("proc", "same-uid-parent"),
    ),
    _attack(
        "proc-parent-mem",
        """
        import os
        with open(f"/proc/{os.getppid()}/maps") as maps:
            start = next(line.split("-")[0] for line in maps if "[heap]" in line)
        with open(f"/proc/{os.getppid()}/mem", "rb", buffering=0) as memory:
            memory.seek(int(start, 16))
            return f"{len(memory.read(64))} bytes of the parent's heap"
        """,
        needs=("proc", "same-uid-parent"),
    ),
    _attack(
        "proc-victim-cmdline",
        "return open(f\"/proc/{env['victim']}/cmdline\").read()",
        needs=("proc",),
    ),
    # Looking ------------------------------------------------------------------------------
    _attack("listdir", 'import os\nreturn ",".join(os.listdir(env["scratch"]))[:100]'),
    _attack("listdir-root", 'import os\nreturn ",".join(os.listdir("/"))[:100]'),
    _attack("scandir", 'import os\nreturn next(os.scandir(env["scratch"])).name'),
    _attack("os-walk", 'import os\nreturn ",".join(next(os.walk(env["scratch"]))[2])[:100]'),
    _attack("glob", 'import glob\nreturn glob.glob(env["scratch"] + "/*")[0]', needs=("imports",)),
    _attack("stat", "import os\nreturn f\"{os.stat(env['secret']).st_size} bytes\""),
    _attack(
        "raw-stat",
        'return done("stat", env["secret"].encode(), buffer(bytes(144)))',
        needs=("x86_64",),
    ),
    _attack(
        "raw-statx",
        'return done("statx", -100, env["secret"].encode(), 0, 0xFFF, buffer(bytes(256)))',
        needs=("x86_64",),
    ),
    _attack("path-exists", 'import os\nreturn "exists" if os.path.exists("/etc") else None'),
    _attack("access", 'import os\nreturn "readable" if os.access(env["secret"], 4) else None'),
    _attack(
        "raw-faccessat2",
        'return done("faccessat2", -100, env["secret"].encode(), 4, 0)',
        needs=("x86_64",),
    ),
    _attack("statvfs", "import os\nreturn f\"{os.statvfs(env['scratch']).f_bsize}\""),
    _attack("readlink", 'import os\nreturn os.readlink("/proc/self/cwd")', needs=("proc",)),
    _attack("getcwd", "import os\nreturn os.getcwd()"),
    _attack("chdir", 'import os\nos.chdir(env["scratch"])\nreturn "moved"', needs=("forked",)),
    _attack("getxattr", "import os\nreturn f\"listed {os.listxattr(env['secret'])}\""),
    _attack(
        "inotify",
        """
        fd, _ = syscall("inotify_init1", 0)
        return done("inotify_add_watch", fd, env["scratch"].encode(), 0xFFF)
        """,
        needs=("x86_64",),
    ),
    _attack("fanotify", 'return opened("fanotify_init", 0x200, 0)', needs=("x86_64", "fanotify")),
    _attack(
        "name-to-handle",
        """
        handle = buffer((128).to_bytes(4, "little") + bytes(132))
        return done("name_to_handle_at", -100, env["secret"].encode(), handle, buffer(8), 0)
        """,
        needs=("x86_64",),
    ),
    _attack(
        "open-by-handle",
        """
        handle = buffer((128).to_bytes(4, "little") + bytes(132))
        syscall("name_to_handle_at", -100, env["secret"].encode(), handle, buffer(8), 0)
        directory, _ = syscall("openat", -100, env["scratch"].encode(), 0, 0)
        return opened("open_by_handle_at", directory, handle, 0)
        """,
        needs=("x86_64", "root"),
    ),
    # Writing ------------------------------------------------------------------------------
    _attack(
        "write-file",
        """
        with open(env["marker"], "w") as file:
            file.write(env["token"])
        return "written"
        """,
        witness=_WRITTEN,
    ),
    _attack(
        "append-file",
        """
        import os
        fd = os.open(env["marker"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(fd, env["token"].encode())
        return "appended"
        """,
        witness=_WRITTEN,
    ),
    _attack(
        "raw-creat",
        """
        import os
        fd, _ = syscall("creat", env["marker"].encode(), 0o644)
        os.write(fd, env["token"].encode())
        return "created"
        """,
        witness=_WRITTEN,
        needs=("x86_64",),
    ),
    _attack(
        "pathlib-write",
        'import pathlib\nreturn str(pathlib.Path(env["marker"]).write_text(env["token"]))',
        witness=_WRITTEN,
        needs=("imports",),
    ),
    _attack(
        "numpy-tofile",
        """
        import numpy
        numpy.frombuffer(env["token"].encode(), dtype="u1").tofile(env["marker"])
        return "written"
        """,
        witness=_WRITTEN,
    ),
    _attack(
        "numpy-memmap",
        """
        import numpy
        text = env["token"].encode()
        page = numpy.memmap(env["marker"], dtype="u1", mode="w+", shape=(len(text),))
        page[:] = list(text)
        page.flush()
        return "mapped"
        """,
        witness=_WRITTEN,
        needs=("imports",),
    ),
    _attack("truncate", 'import os\nos.truncate(own(env), 0)\nreturn "cut"', witness=_MADE),
    _attack(
        "rename-secret",
        """
        import os
        os.rename(env["secret"], env["marker"])
        os.rename(env["marker"], env["secret"])
        return "renamed and put back"
        """,
    ),
    _attack(
        "unlink-secret",
        """
        import os
        os.unlink(env["secret"])
        with open(env["secret"], "w") as file:
            file.write(env["secret_text"])
        return "removed and written anew"
        """,
    ),
    _attack(
        "mkdir",
        'import os\nos.mkdir(env["marker"])\nreturn "made"',
        witness='os.path.isdir(env["marker"])',
    ),
    _attack(
        "rmdir",
        """
        import errno, os
        try:
            os.rmdir(env["scratch"])
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return "only not removed because it is not empty"
        """,
    ),
    _attack(
        "symlink",
        'import os\nos.symlink(env["secret"], env["marker"])\nreturn os.readlink(env["marker"])',
        witness='os.path.islink(env["marker"])',
    ),
    _attack(
        "hard-link",
        """
        import os
        path = own(env)
        os.link(path, path + ".link")
        return "linked"
        """,
        witness='os.path.exists(env["marker"] + ".link")',
    ),
    _attack("mkfifo", 'import os\nos.mkfifo(env["marker"])\nreturn "made"', witness=_MADE),
    _attack(
        "mknod-socket",
        'return done("mknod", env["marker"].encode(), 0o140644, 0)',
        witness=_MADE,
        needs=("x86_64",),
    ),
    _attack(
        "mknod-device",
        'return done("mknod", env["marker"].encode(), 0o020666, 0x103)',
        witness=_MADE,
        needs=("x86_64", "root"),
    ),
    _attack("chmod", 'import os\nos.chmod(own(env), 0o600)\nreturn "changed"'),
    _attack(
        "chown",
        'import os\nos.chown(own(env), os.getuid(), os.getgid())\nreturn "changed"',
    ),
    _attack("utime", 'import os\nos.utime(own(env), (1, 1))\nreturn "set"'),
    _attack(
        "setxattr",
        'import os\nos.setxattr(own(env), "user.mark", b"x")\nreturn "set"',
        needs=("xattr",),
    ),
    _attack("flock", 'import fcntl\nfcntl.flock(open(env["secret"]), 2)\nreturn "locked"'),
    _attack(
        "tempfile",
        """
        import tempfile
        with tempfile.TemporaryFile() as file:
            return f"{file.write(b'x')} byte"
        """,
    ),
    _attack(
        "sqlite",
        """
        import sqlite3
        sqlite3.connect(env["marker"]).execute("create table t (x)")
        return "made a data base"
        """,
        witness=_MADE,
        needs=("imports",),
    ),
    _attack(
        "shelve",
        """
        import dbm.dumb
        with dbm.dumb.open(env["marker"]) as base:
            base["key"] = env["token"]
        return "made a data base"
        """,
        witness='any(n.startswith(os.path.basename(env["marker"])) for n in'
        ' os.listdir(env["scratch"]))',
        needs=("imports",),
    ),
    _attack(
        "dev-shm-file",
        """
        import os
        path = "/dev/shm/attack-" + env["token"]
        with open(path, "w") as file:
            file.write("x")
        os.unlink(path)
        return path
        """,
    ),
    _attack("dev-null", "return f\"{open('/dev/null', 'w').write('x')} byte\""),
    _attack(
        "log-to-file",
        """
        import logging
        logger = logging.getLogger("attack")
        handler = logging.FileHandler(env["marker"])
        logger.addHandler(handler)
        logger.error(env["token"])
        logger.removeHandler(handler)
        handler.close()
        return "logged"
        """,
        witness=_WRITTEN,
    ),
    _attack(
        "faulthandler-dump",
        """
        import faulthandler
        with open(env["marker"], "w") as file:
            faulthandler.dump_traceback(file)
        return "dumped"
        """,
        witness=_MADE,
    ),
    # Descriptors --------------------------------------------------------------------------
    _attack(
        "fstat-inherited",
        """
        import os
        found = []
        for fd in range(64):
            try:
                found.append(f"{fd}:{os.fstat(fd).st_mode:o}")
            except OSError:
                pass
        return " ".join(found)
        """,
    ),
    _attack(
        "fcntl-inherited",
        """
        found = [fd for fd in range(64) if syscall("fcntl", fd, 3, 0)[0] >= 0]
        return f"flags of {found}" if found else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "fcntl-setown",
        """
        import os
        for fd in range(16):
            if syscall("fcntl", fd, 8, os.getpid())[0] == 0:
                syscall("fcntl", fd, 8, 0)
                return f"signals of descriptor {fd} directed"
        """,
        needs=("x86_64",),
    ),
    _attack(
        "readlink-inherited",
        """
        import os
        for fd in range(64):
            try:
                return os.readlink(f"/proc/self/fd/{fd}")
            except OSError:
                pass
        """,
        needs=("proc",),
    ),
]
