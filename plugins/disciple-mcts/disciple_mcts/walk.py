"""A rollout under way: on to the next step, or back out of a dead end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .tree import Node

__all__ = ["Walk"]

LIMITS = ("max_steps", "max_tokens", "timeout")
"""Ends that another last step would not have avoided."""


@dataclass(slots=True)
class Walk:
    """A rollout under way.

    Attributes:
        start: the node at which it began.
        tip: the node from which it goes on.
        last: the node that it made last.
        steps: steps made.
        deepest: depth of the deepest living node that it made.
        stalled: dead ends since then.
    """

    start: Node
    tip: Node = field(init=False)
    last: Node = field(init=False)
    steps: int = 0
    deepest: int = 0
    stalled: int = 0

    def __post_init__(self) -> None:
        self.tip = self.last = self.start

    def move(self, node: Node) -> None:
        """A step has been made, to ``node``."""
        self.tip = self.last = node
        self.steps += 1
        if node.particle.weight == -math.inf:
            self.stalled += 1
        elif node.depth > self.deepest:
            self.deepest, self.stalled = node.depth, 0

    def goes_on(self, depth: int | None, retries: int, spent_up: bool) -> bool:
        """Whether there is another step to make; out of a dead end it first goes back.

        It goes back to the last node that is still open, but not beyond where it began. It is
        over with an end of text, at a limit, at ``depth`` steps, after ``retries`` dead
        ends that led no deeper, and at any dead end when the budget is spent.
        """
        particle = self.tip.particle
        if not particle.done_stepping():
            return depth is None or self.steps < depth
        hopeless = getattr(particle, "finish_reason", None) in LIMITS
        if particle.weight > -math.inf or hopeless or spent_up or self.stalled >= retries:
            return False
        node = self.tip
        while node.closed and node is not self.start:
            assert node.parent is not None
            node = node.parent
        self.tip = node
        return not node.closed
