"""Attacks on the sandbox, as data: each succeeds where the sandbox is off.

``ALL`` are the attacks; ``PLANTS`` (by name) are the runs that some of them follow, which leave
something behind and are no attacks themselves. Programs that the host has to watch are in
:mod:`hostile`.
"""

from __future__ import annotations

from . import files, imports, isolation, memory, network, processes, signals, system
from .base import GROUPS, NEEDS, PRELUDE, Attack

__all__ = ["ALL", "GROUPS", "NEEDS", "PLANTS", "PRELUDE", "Attack"]

ALL: list[Attack] = [
    *files.ATTACKS,
    *network.ATTACKS,
    *processes.ATTACKS,
    *signals.ATTACKS,
    *memory.ATTACKS,
    *isolation.ATTACKS,
    *system.ATTACKS,
    *imports.ATTACKS,
]

PLANTS: dict[str, Attack] = {plant.name: plant for plant in isolation.PLANTS}
