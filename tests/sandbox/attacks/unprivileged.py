"""Runs pytest as nobody, with Python and the checkout in reach: ``unprivileged.py ASIDE ARGS...``

They may lie below a directory that only root may enter, such as ``/root``. In a mount namespace of
its own, this process puts an empty, open directory over that one and binds what is needed back into
it. ``ASIDE`` is an empty directory for what is bound meanwhile. Nothing of it outlives the process.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

NOBODY = 65534
UNAVAILABLE = 77
"""Exit status where this machine refuses the namespace or the mounts."""

_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000


def needed(checkout: Path) -> list[Path]:
    """Directories that must be in reach, none below another."""
    paths = {Path(p).resolve() for p in (checkout, sys.prefix, sys.base_prefix, *sys.path) if p}
    return sorted(p for p in paths if p.is_dir() and not paths & set(p.parents))


def barrier(path: Path) -> Path | None:
    """The topmost directory above ``path`` (or itself) that others may not enter, or None."""
    closed = (p for p in [*reversed(path.parents), path] if not p.stat().st_mode & 0o001)
    return next(closed, None)


def open_up(paths: Iterable[Path], aside: Path) -> None:
    """Make the paths traversable for everyone, in a mount namespace of this process's own."""
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result: int) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def mount(
        source: object, to: object, kind: bytes | None, flags: int, data: bytes = b""
    ) -> None:
        names = str(source).encode(), str(to).encode()
        check(libc.mount(*names, kind, ctypes.c_ulong(flags), data or None))

    check(libc.unshare(_CLONE_NEWNS))
    mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    closed = {path: top for path in paths if (top := barrier(path)) is not None}
    kept = {path: aside / str(number) for number, path in enumerate(closed)}
    for path, place in kept.items():
        place.mkdir()
        mount(path, place, None, _MS_BIND | _MS_REC)
    for top in set(closed.values()):
        mount("tmpfs", top, b"tmpfs", 0, b"mode=755")
    for path, place in kept.items():
        path.mkdir(parents=True, exist_ok=True)
        mount(place, path, None, _MS_BIND | _MS_REC)


def main(aside: Path, arguments: list[str]) -> None:
    """Become nobody, then pytest. Does not return."""
    checkout = Path(__file__).resolve().parents[3]
    try:
        open_up(needed(checkout), aside)
    except OSError as error:
        print(f"no mounts of one's own here: {error}")
        sys.exit(UNAVAILABLE)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.chdir(checkout)
    environment = {"PATH": os.defpath, "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1",
                   "OMP_NUM_THREADS": "1"}  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    os.execve(sys.executable, command, environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
