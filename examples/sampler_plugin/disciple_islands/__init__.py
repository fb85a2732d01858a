"""The sampler ``islands`` for disciple-ext."""

from __future__ import annotations

from disciple_ext import hookimpl

from .sampler import IslandsSampler

__all__ = ["IslandsSampler", "register_samplers"]


@hookimpl
def register_samplers() -> dict[str, type[IslandsSampler]]:
    """Give the sampler its name; the parameters of its ``__init__`` are its options."""
    return {IslandsSampler.name: IslandsSampler}
