"""What a machine's locks are worth, as its own probes saw it."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any

from . import probe
from .policy import LEVELS

__all__ = ["Witness", "failure"]


@dataclass(frozen=True)
class Witness:
    """What probe processes saw of this machine's locks.

    Attributes:
        level: the strongest level that holds.
        layers: for ``landlock`` and ``seccomp``, each control with whether it succeeded before and
            after the lock; or why the lock could not be put on.
        landlock_abi: version of the kernel's Landlock, 0 for none.
        uid: user id of the workers.
        namespaces: namespaces of their own that workers have.
    """

    level: str
    layers: dict[str, dict[str, list[bool]] | str]
    landlock_abi: int
    uid: int
    namespaces: tuple[str, ...]

    def missing(self, level: str) -> str:
        """What keeps this machine from ``level`` and how to get it, or the empty string."""
        layers = LEVELS[level]
        assert layers is not None
        wanted = [name for name in ("seccomp", "landlock") if getattr(layers, name)]
        return "; ".join(
            f"{failure(name, self.layers[name], self.landlock_abi)} ({_REMEDY[name]})"
            for name in wanted
            if failure(name, self.layers[name], self.landlock_abi)
        )

    def facts(self) -> dict[str, Any]:
        """What a result says of it, besides the level."""
        return {
            "landlock_abi": self.landlock_abi,
            "namespaces": list(self.namespaces),
            "uid": self.uid,
            "machine": platform.machine(),
        }


_REMEDY = {
    "seccomp": "Linux on x86-64 or aarch64 with CONFIG_SECCOMP_FILTER gives it, and a container "
    "whose profile permits prctl(PR_SET_SECCOMP)",
    "landlock": "Linux 5.13 or newer with 'landlock' in its lsm= list gives it, and a container "
    "whose profile permits the landlock system calls",
}


def failure(layer: str, seen: dict[str, list[bool]] | str, abi: int) -> str:
    """Why a layer is not witnessed, or the empty string."""
    if isinstance(seen, str):
        return f"{layer} cannot be put on: {seen}"
    controls = probe.SECCOMP if layer == "seccomp" else probe.landlock_controls(abi)
    for control in controls:
        before, after = seen[control]
        if after:
            return f"{layer} does not hold: a locked process could {control}"
        # What fails without the lock, too, says nothing of the lock.
        if not before:
            return f"{layer} cannot be witnessed: even an unlocked process cannot {control}"
    return ""
