"""The tree: snapshots of particles, and where the next rollout begins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .options import Options

__all__ = ["Node", "close", "open_children", "select", "widest"]


@dataclass(eq=False, slots=True)
class Node:
    """A particle between two steps. It is never stepped itself: its clones are.

    Attributes:
        parent: the node before the last step; None at the root.
        particle: the snapshot; None at the root (whose children are particles made anew, each
            after its first step) and where the node was given up.
        depth: steps from the beginning.
        cost: follower tokens from the beginning, at least one for each step.
        children: one for each step made from here.
        visits: rollouts that have passed through here.
        total: sum of the values of those rollouts, each from 0 to 1.
        best: the highest of them.
        running: rollouts under way through here, each of which counts as lost (virtual loss).
        expanding: those of them that begin here.
        closed: whether there is no way on from here.
    """

    parent: Node | None = None
    particle: Any = None
    depth: int = 0
    cost: int = 0
    children: list[Node] = field(default_factory=list)
    visits: int = 0
    total: float = 0.0
    best: float = 0.0
    running: int = 0
    expanding: int = 0
    closed: bool = False

    def path(self) -> Iterator[Node]:
        """This node, its parent, and so on to the root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def add(self, particle: Any, tokens: int) -> Node:
        """A new child after one step, which took so many tokens."""
        child = Node(self, particle, self.depth + 1, self.cost + tokens)
        self.children.append(child)
        return child

    def reserve(self) -> None:
        """A rollout is about to begin here."""
        self.expanding += 1
        for node in self.path():
            node.running += 1

    def release(self) -> None:
        """A rollout that began here is over."""
        self.expanding -= 1
        for node in self.path():
            node.running -= 1


def open_children(node: Node) -> list[Node]:
    """The children that can be gone down to."""
    return [child for child in node.children if not child.closed]


def widest(visits: int, options: Options) -> int:
    """Open children that a node of so many visits may have (Couetoux et al. 2011)."""
    return max(1, math.ceil(options.width * math.pow(visits, options.alpha)))


def select(root: Node, options: Options) -> Node | None:
    """The node from which the next rollout begins; None if all there is is under way.

    Goes down by UCT, and stops where progressive widening allows another child. Closed children
    do not count there: a dead end costs a retry, not a place.
    """
    node = root
    while True:
        children = open_children(node)
        visits = node.visits + node.running
        if len(children) + node.expanding < widest(visits, options):
            return node
        if not children:
            return None
        node = max(children, key=lambda child: _uct(child, visits, options.exploration))


def _uct(child: Node, visits: int, exploration: float) -> float:
    """UCB1 of a child (Kocsis and Szepesvari 2006); rollouts under way have value 0.

    There is no prior: children were drawn from the follower, so that its probabilities are in
    how often a step comes up already. Sampled MuZero's correction (Hubert et al. 2021) of the
    prior, divided by the distribution of the draws, is here the same for every child.
    """
    tried = child.visits + child.running
    return child.total / tried + exploration * math.sqrt(math.log(visits) / tried)


def close(node: Node, retries: int) -> None:
    """Close a node, and go back out of the dead end: parents with no way on are closed too.

    A parent is given up once it has ``retries`` children, all of them closed. The root never is.
    Where several rollouts step together, each must have its child first: it holds its parent open.
    """
    node.closed = True
    parent = node.parent
    while parent is not None and parent.parent is not None:
        if len(parent.children) < retries or open_children(parent):
            return
        parent.closed = True
        parent.particle = None
        parent = parent.parent
