"""The sampler that is registered."""

from __future__ import annotations

from typing import ClassVar

from disciple_ext.samplers.base import Kind, Population, Run

from .options import Options
from .search import Search

__all__ = ["MCTSSampler"]


class MCTSSampler(Options):
    """Tree search over program steps, for the follower tokens of N full generations."""

    name: ClassVar[str] = "mcts"
    kind: ClassVar[Kind] = "search"

    async def __call__(self, run: Run, n: int) -> Population:
        """Search for as long as ``n`` full generations would take."""
        search = Search(run, n, self)
        await search.go_on()
        return search.population()
