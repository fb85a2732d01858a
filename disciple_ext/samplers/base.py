"""What a sampler gets and gives: :class:`Run` in, :class:`Population` out.

A sampler is an object with a ``name``, a ``kind`` and one method::

    async def __call__(self, run: Run, n: int) -> Population: ...

``kind`` is ``"weighted"`` (properly weighted: for every test function f and any N, the
expectation of evidence times the weighted average of f is the unnormalised target's integral of
f) or ``"search"`` (good candidates, nothing promised).
"""

from __future__ import annotations

from typing import Literal, Protocol

from .population import Population
from .run import Run

__all__ = ["Kind", "Population", "Run", "Sampler"]

Kind = Literal["weighted", "search"]


class Sampler(Protocol):
    """An inference algorithm over particles; ``name`` and ``kind`` may be plain attributes."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    @property
    def kind(self) -> Kind:
        """What it promises."""
        ...

    async def __call__(self, run: Run, n: int) -> Population:
        """Run ``n`` particles to their end."""
        ...
