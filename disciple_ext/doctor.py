"""What this machine offers: versions, model, key, data; and how to get what is missing."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict, dataclass, field
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import DiscipleError
from .models.default import default_follower
from .models.store import holdings
from .protocol.measure import PLAIN

if TYPE_CHECKING:
    from .sandbox.host.host import Witness

__all__ = ["Condition", "Control", "conditions_of", "diagnose"]

_PACKAGES = ("llamppl", "genlm-backend", "torch", "transformers", "openai")

_WITNESS_SECONDS = 90.0
"""Longer than the sandbox itself waits for its zygote, which has the better message."""


@dataclass(frozen=True)
class Control:
    """Something harmless that a probe process tried before and after it put on one layer.

    Attributes:
        name: what it tried.
        before: whether it succeeded in the unlocked process.
        after: whether it succeeded in the locked one.
        verdict: ``stopped``; ``not its job`` where the layer does not claim to stop it; ``NOT
            STOPPED``; or ``not witnessed``, where it failed even before.
    """

    name: str
    before: bool
    after: bool
    verdict: str


@dataclass(frozen=True)
class Condition:
    """One thing looked at.

    Attributes:
        name: what it is.
        ok: True if it is there.
        needed: True where nothing runs without it.
        detail: version, place or count.
        fix: what to do where it is missing, or the empty string.
        facts: the same as data, where there is more to say than ``detail`` does.
        controls: for a layer of the sandbox, what probe processes saw.
    """

    name: str
    ok: bool
    needed: bool
    detail: str
    fix: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    controls: tuple[Control, ...] = ()


def diagnose() -> list[Condition]:
    """Look at everything that a run may need. Nothing is changed or downloaded.

    A zygote and two probe processes are started, to see what the sandbox is worth here.
    """
    return [
        _python(),
        *(_package(name) for name in _PACKAGES),
        _accelerator(),
        _default(),
        _engine(),
        _embedded(),
        *_models(),
        *_sandbox(),
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
        # OSError: a torch whose libraries do not fit the machine fails in the loader, not the
        # import.
        fix = "reinstall torch; `pip install --force-reinstall torch`"
        return Condition("device", False, True, f"torch does not load: {error}", fix)
    if torch.cuda.is_available():
        return Condition("device", True, False, f"cuda, {torch.cuda.get_device_name(0)}")
    return Condition("device", True, False, f"cpu, {torch.get_num_threads()} threads")


def _engine() -> Condition:
    """How models are computed on this CPU, as far as it was measured; nothing is measured here."""
    name = "dtype and threads"
    try:
        from .follower.engine.tuning import remembered_choices
    except (ImportError, OSError):  # torch does not load, which is said above
        return Condition(name, False, False, "unknown")
    found = remembered_choices()
    said = [
        f"{how.dtype}, {how.threads} thread{'s' * (how.threads > 1)} ({key})"
        for key, how in found.items()
    ]
    facts = {key: asdict(how) for key, how in found.items()}
    nothing = "measured when a model of 50 million parameters or more is loaded on the CPU"
    return Condition(name, True, False, "; ".join(said) or nothing, facts=facts)


def _embedded() -> Condition:
    place = files("disciple_ext").joinpath("follower", "embedded")
    weights = [item for item in place.iterdir() if item.name.endswith(".safetensors")] if (
        place.is_dir()
    ) else []  # fmt: skip
    if weights:
        size = sum(Path(str(item)).stat().st_size for item in weights)
        detail = f"{size / 1e6:.1f} MB of weights; base measure: {PLAIN}"
        facts = {"base_measure": PLAIN.to_dict()}
        return Condition("embedded follower", True, False, detail, facts=facts)
    fix = "reinstall disciple-ext, or name another with --follower hf:ID_OR_PATH"
    return Condition("embedded follower", False, True, "its weights are missing", fix)


def _default() -> Condition:
    """The follower that writes where none is named; how to get a better one stands below."""
    chosen = default_follower()
    return Condition("default follower", True, False, f"{chosen.spec}: {chosen.why}")


def _models() -> list[Condition]:
    """The models of the catalogue, and how to get those that are missing."""
    found = []
    for held in holdings():
        name = held.model.name
        detail = f"{held.state}: {held.path}" if held.path else "not on this machine"
        measure = held.model.base_measure
        detail += f"; base measure: {measure}"
        fix = "" if held.usable else f"disciple models add {name}"
        facts = {"base_measure": measure.to_dict()}
        found.append(Condition(name, held.usable, False, detail, fix, facts))
    return found


def _sandbox() -> list[Condition]:
    """What probe processes witnessed; asking for a level proves nothing."""
    if not hasattr(os, "fork"):
        detail = (
            f"{sys.platform} has only the level 'none', which is no boundary: a program has all "
            "the rights of your process"
        )
        fix = "run programs that are not ours on Linux (WSL 2, a container or a virtual machine)"
        return [Condition("sandbox", False, False, detail, fix, {"level": "none"})]
    from .run import inprocess
    from .sandbox.host import host

    try:
        # On the loop of the runs, where the zygote then belongs.
        seen = inprocess.submit(host.witness()).result(_WITNESS_SECONDS)
    except (DiscipleError, TimeoutError, OSError) as error:
        detail = f"it does not start: {error or type(error).__name__}"
        fix = "read docs/how-to/containers.md; only --sandbox none runs programs here"
        return [Condition("sandbox", False, False, detail, fix, {"level": "none"})]
    return conditions_of(seen)


def conditions_of(seen: Witness) -> list[Condition]:
    """The conditions that a witness amounts to: the level, then each layer with its controls."""
    from .sandbox.locks.policy import LEVELS

    best = next(iter(LEVELS))
    facts = {"level": seen.level, **seen.facts()}
    detail = seen.level
    if seen.level != best:
        weak = "" if seen.level in _BOUNDARIES else " (no boundary)"
        detail += f"{weak}; programs that are not ours need {best}, or a level that you choose"
    where = ", ".join(seen.namespaces) or "none"
    detail += f"; workers: uid {seen.uid}, {facts['machine']}, namespaces of their own: {where}"
    missing = seen.missing(best)
    return [
        Condition("sandbox", not missing, False, detail, missing, facts),
        _layer("landlock", f"ABI {seen.landlock_abi}", seen),
        _layer("seccomp", "filter of system calls", seen),
    ]


_BOUNDARIES = ("landlock+seccomp", "seccomp")
"""Levels that SECURITY.md promises something for."""


def _layer(name: str, what: str, seen: Witness) -> Condition:
    from .sandbox.locks import probe

    tried = seen.layers[name]
    if isinstance(tried, str):
        return Condition(name, False, False, f"cannot be put on: {tried}", facts={"error": tried})
    # Older kernels have a Landlock that stops less; what it does not claim is no fault.
    claimed = probe.SECCOMP if name == "seccomp" else probe.landlock_controls(seen.landlock_abi)
    controls = tuple(
        Control(control, before, after, _verdict(before, after, control in claimed))
        for control, (before, after) in tried.items()
    )
    ok = all(control.verdict in ("stopped", "not its job") for control in controls)
    return Condition(name, ok, False, what, controls=controls)


def _verdict(before: bool, after: bool, claimed: bool) -> str:
    if before and not after:
        return "stopped"
    if not claimed:
        return "not its job"
    # It failed before the lock, too: that proves nothing of the lock.
    return "NOT STOPPED" if after else "not witnessed"


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
