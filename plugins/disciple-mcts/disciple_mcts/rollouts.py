"""What rollouts are worth.

A value is from 0 to 1, so that UCT's exploration has one scale whatever the program: 0 for a dead
particle, otherwise the mean of

- the verdict: 1 if ``check()`` passed or there is none, 0 if it failed, 1/2 while unfinished;
- the rank of the log weight per token among all living rollouts so far, from 0 to 1.

A rank, because log weights have no scale that programs share (mask masses, forced words, scores);
per token, because short texts would win otherwise. Any text that passes has at least the value of
any that fails. As ranks change with every rollout, values are computed anew after each batch, and
never go stale.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from .tree import Node

__all__ = ["Rollout", "rate"]


@dataclass(slots=True)
class Rollout:
    """A way from the root to a tip.

    Attributes:
        tip: its last node.
        finished: whether the text has ended, or the particle has died.
        score: log weight per token (nats), or None for a dead particle.
        verdict: of ``check()``; None where there is none, or the text is unfinished.
        value: what it is worth, from 0 to 1, as of the last :func:`rate`.
    """

    tip: Node
    finished: bool
    score: float | None = None
    verdict: bool | None = None
    value: float = 0.0


def rate(rollouts: Sequence[Rollout]) -> None:
    """Give every rollout its value, and every node the count, sum and best of its rollouts'."""
    scores = sorted(r.score for r in rollouts if r.score is not None)
    for rollout in rollouts:
        rollout.value = _value(rollout, scores)
        for node in rollout.tip.path():
            node.visits, node.total, node.best = 0, 0.0, 0.0
    for rollout in rollouts:
        for node in rollout.tip.path():
            node.visits += 1
            node.total += rollout.value
            node.best = max(node.best, rollout.value)


def _value(rollout: Rollout, scores: Sequence[float]) -> float:
    if rollout.score is None:
        return 0.0
    verdict = 0.5 if not rollout.finished else float(rollout.verdict is not False)
    below = bisect_left(scores, rollout.score) + bisect_right(scores, rollout.score)
    return (verdict + below / (2 * len(scores))) / 2
