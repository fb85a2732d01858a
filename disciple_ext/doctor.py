"""What this machine offers: versions, model, key, data; and how to get what is missing."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from importlib.resources import files
from pathlib import Path

__all__ = ["Condition", "diagnose"]

_PACKAGES = ("llamppl", "genlm-backend", "torch", "transformers", "openai")


@dataclass(frozen=True)
class Condition:
    """One thing looked at.

    Attributes:
        name: what it is.
        ok: True if it is there.
        needed: True where nothing runs without it.
        detail: version, place or count.
        fix: what to do where it is missing, or the empty string.
    """

    name: str
    ok: bool
    needed: bool
    detail: str
    fix: str = ""


def diagnose() -> list[Condition]:
    """Look at everything that a run may need. Nothing is changed, loaded or downloaded."""
    return [
        _python(),
        *(_package(name) for name in _PACKAGES),
        _accelerator(),
        _embedded(),
        _sandbox(),
        _key(),
        _collie(),
    ]


def _python() -> Condition:
    detail = f"{platform.python_implementation()} {platform.python_version()} on {sys.platform}"
    ok = sys.version_info >= (3, 11)
    return Condition("python", ok, True, detail, "" if ok else "install Python 3.11 or newer")


def _package(name: str) -> Condition:
    try:
        return Condition(name, True, True, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Condition(name, False, True, "not installed", f"pip install {name}")


def _accelerator() -> Condition:
    try:
        import torch
    except (ImportError, OSError) as error:
        fix = "reinstall torch; `pip install --force-reinstall torch`"
        return Condition("device", False, True, f"torch does not load: {error}", fix)
    if torch.cuda.is_available():
        return Condition("device", True, False, f"cuda, {torch.cuda.get_device_name(0)}")
    return Condition("device", True, False, f"cpu, {torch.get_num_threads()} threads")


def _embedded() -> Condition:
    place = files("disciple_ext").joinpath("follower", "embedded")
    weights = [item for item in place.iterdir() if item.name.endswith(".safetensors")] if (
        place.is_dir()
    ) else []  # fmt: skip
    if weights:
        size = sum(Path(str(item)).stat().st_size for item in weights)
        return Condition("embedded follower", True, False, f"{size / 1e6:.1f} MB of weights")
    fix = "reinstall disciple-ext, or name another with --follower hf:ID_OR_PATH"
    return Condition("embedded follower", False, True, "its weights are missing", fix)


def _sandbox() -> Condition:
    detail = "none in this version: programs of other planners need --sandbox none"
    return Condition("sandbox", False, False, detail, "read SECURITY.md before you use it")


def _key() -> Condition:
    if os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"):
        names = [n for n in ("OPENAI_API_KEY", "OPENAI_BASE_URL") if os.environ.get(n)]
        return Condition("openai planner", True, False, " and ".join(names) + " set")
    fix = "set OPENAI_API_KEY, or OPENAI_BASE_URL for a local server; the expert needs neither"
    return Condition("openai planner", False, False, "no key and no server", fix)


def _collie() -> Condition:
    place = os.environ.get("DISCIPLE_COLLIE")
    if place and (Path(place).is_file() or Path(place, "wiki.jsonl").is_file()):
        return Condition("collie data", True, False, place)
    fix = "set DISCIPLE_COLLIE to the folder with wiki.jsonl; only `disciple eval collie` needs it"
    detail = f"not in {place}" if place else "DISCIPLE_COLLIE is not set"
    return Condition("collie data", False, False, detail, fix)
