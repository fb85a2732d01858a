"""Monte Carlo tree search over program steps, a sampler for disciple-ext.

Read in this order: ``options`` (what can be set), ``tree`` (nodes, where to go next), ``rollouts``
(what an end is worth), ``search`` (batches and the budget), ``sampler`` (what is registered).
"""

from __future__ import annotations

from disciple_ext.registry.hookspecs import hookimpl

from .rollouts import Rollout
from .sampler import MCTSSampler
from .search import Search
from .tree import Node

__all__ = ["MCTSSampler", "Node", "Rollout", "Search", "register_samplers"]


@hookimpl
def register_samplers() -> dict[str, type[MCTSSampler]]:
    """The sampler ``mcts``."""
    return {MCTSSampler.name: MCTSSampler}
