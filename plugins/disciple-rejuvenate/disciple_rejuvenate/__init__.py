"""Resample-move SMC and iterative editing: the samplers ``rejuvenate`` and ``edit``.

Read in this order: ``moves`` (the Metropolis-Hastings move), ``rejuvenate`` (the sampler around
it), ``script`` (how a step's draws are kept or repeated), ``texts`` (finished texts and their
edits), ``edit`` (the search).
"""

from __future__ import annotations

from collections.abc import Callable

from disciple_ext import hookimpl
from disciple_ext.samplers.base import Sampler

from .edit import EditSampler
from .rejuvenate import RejuvenateSampler

__all__ = ["EditSampler", "RejuvenateSampler", "register_samplers"]


@hookimpl
def register_samplers() -> dict[str, Callable[[], Sampler]]:
    """Both samplers, with their default options."""
    return {"rejuvenate": RejuvenateSampler, "edit": EditSampler}
