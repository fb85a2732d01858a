"""Beam search over program steps: the samplers ``beam-smc`` and ``beam-smc-weighted``."""

from __future__ import annotations

from collections.abc import Callable

from disciple_ext import hookimpl
from disciple_ext.samplers.base import Sampler

from .search import BeamSMC
from .weighted import WeightedBeamSMC

__all__ = ["BeamSMC", "WeightedBeamSMC", "register_samplers"]


@hookimpl
def register_samplers() -> dict[str, Callable[[], Sampler]]:
    """Both samplers, with their default options."""
    return {"beam-smc": BeamSMC, "beam-smc-weighted": WeightedBeamSMC}
