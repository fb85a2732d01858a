"""Where models lie on this machine: the user's own folder, and installed packages.

A file counts only where its SHA-256 is that of the catalogue. It is computed each time a model is
asked for: 100 MB take a tenth of a second, less than loading them by far.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from ..errors import DiscipleError, FollowerError, UsageError
from .catalogue import Entry, catalogue, entry

__all__ = [
    "MODELS",
    "Holding",
    "alone",
    "digest",
    "find",
    "holding",
    "holdings",
    "models_directory",
    "place",
    "remove",
    "trouble",
]

MODELS = "DISCIPLE_MODELS"
"""Environment variable that names the folder of the models."""


def models_directory() -> Path:
    """``DISCIPLE_MODELS``, else ``disciple/models`` in the user's data directory (XDG)."""
    own = os.environ.get(MODELS)
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_DATA_HOME") or ""
    data = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share"
    return data / "disciple" / "models"


def place(model: Entry) -> Path:
    """Where the weights of a model lie once it was added."""
    return models_directory() / model.name / PurePosixPath(model.file).name


@dataclass(frozen=True)
class Holding:
    """What this machine has of a model.

    Attributes:
        model: the model.
        state: ``added``, ``installed`` (with its package), ``damaged`` or ``missing``.
        path: its weights, or None where it is missing.
    """

    model: Entry
    state: str
    path: Path | None

    @property
    def usable(self) -> bool:
        """Whether it can be loaded."""
        return self.state in ("added", "installed")


def holdings() -> list[Holding]:
    """What this machine has of each model."""
    return [holding(model) for model in catalogue().values()]


def find(name: str) -> Path:
    """The weights of a model.

    Raises:
        UsageError: there is no such model.
        FollowerError: it is not on this machine, or damaged.
    """
    model = entry(name)
    found = holding(model)
    if found.usable and found.path is not None:
        return found.path
    command = f"disciple models add {name}"
    if found.state == "damaged":
        raise FollowerError(
            f"the weights of {name!r} in {str(found.path)!r} are damaged (their SHA-256 is not "
            f"{model.sha256[:12]}...); get them again: {command}"
        )
    raise FollowerError(
        f"the model {name!r} is not on this machine; get it ({model.size / 1e6:.0f} MB) with: "
        f"{command}"
    )


def remove(name: str) -> Path:
    """Remove a model that was added, and give the folder that it lay in.

    Raises:
        UsageError: there is no such model, or it was not added.
        FollowerError: its files cannot be removed.
    """
    model = entry(name)
    folder = place(model).parent
    if not folder.exists():
        installed = _installed(model)
        if installed is not None:
            raise UsageError(
                f"{name!r} was not added: it came with the package {model.package}, and goes with "
                f"`pip uninstall {model.package}`"
            )
        raise UsageError(f"{name!r} is not in {str(models_directory())!r}; nothing to remove")
    try:
        with alone():
            shutil.rmtree(folder)
    except OSError as error:
        raise trouble(f"{name!r} cannot be removed", error) from error
    return folder


def trouble(what: str, error: OSError) -> DiscipleError:
    """The error of a folder that cannot be used."""
    return FollowerError(
        f"{what}: {error.strerror or error} ({error.filename or models_directory()}); make "
        f"{str(models_directory())!r} writable, or name another folder in {MODELS}"
    )


@contextmanager
def alone(waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Keep other processes from adding and removing; waits until they are done.

    The lock ends with the process that holds it, however that ends.

    Args:
        waiting: is called where another process is at work.

    Raises:
        OSError: the folder cannot be made or written.
    """
    folder = models_directory()
    folder.mkdir(parents=True, exist_ok=True)
    # The file stays: who waits has it open, and a new one would be another lock.
    with (folder / ".lock").open("ab") as file:
        try:
            import fcntl
        except ImportError:  # Windows: tries for ten seconds, then raises OSError
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
        else:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def holding(model: Entry) -> Holding:
    """What this machine has of a model."""
    # An added file comes first; one that is damaged does not hide a sound one in a package.
    wrong = None
    for state, path in (("added", place(model)), ("installed", _installed(model))):
        if path is None or not path.is_file():
            continue
        if _sound(model, path):
            return Holding(model, state, path)
        # Another version of the package may well have other weights, and nothing be wrong.
        wrong = wrong or (path if state == "added" else None)
    return Holding(model, "damaged" if wrong else "missing", wrong)


def _sound(model: Entry, path: Path) -> bool:
    with suppress(OSError):
        # The size first: it costs nothing.
        return path.stat().st_size == model.size and digest(path) == model.sha256
    return False


def _installed(model: Entry) -> Path | None:
    """The weights in the installed package, which is not imported: it would want much else."""
    try:
        files = metadata.files(model.package)
    except metadata.PackageNotFoundError:
        return None
    for file in files or ():
        if file.as_posix() == model.file:
            return Path(str(file.locate()))
    return None
