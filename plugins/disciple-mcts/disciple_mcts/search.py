"""The search itself: batches of rollouts until the budget is spent."""

from __future__ import annotations

import math
from typing import Any

from disciple_ext.samplers.base import Population, Run

from .options import Options
from .rollouts import Rollout, rate
from .tree import Node, close, select
from .walk import Walk

__all__ = ["Search"]


class Search:
    """One search, with its tree.

    Attributes:
        root: the beginning of every text.
        rollouts: what has been tried, in order.
        spent: follower tokens so far, at least one for each step.
    """

    def __init__(self, run: Run, n: int, options: Options) -> None:
        """Set up a search.

        Args:
            run: makes, clones and steps particles.
            n: the budget, in full generations.
            options: the settings.
        """
        self.root = Node()
        self.rollouts: list[Rollout] = []
        self.spent = 0
        self._longest = 0
        self._run = run
        self._n = n
        self._options = options
        self._retries = options.retries_for(n)

    @property
    def generation(self) -> float:
        """Tokens of a full generation: the mean of the living texts that have ended so far.

        Until there is one, and in the first batch, whose short texts end first, it is the longest
        attempt.
        """
        ended = [r.tip.cost for r in self.rollouts if r.finished and r.score is not None]
        return sum(ended) / len(ended) if ended else float(self._longest)

    @property
    def budget(self) -> float:
        """Follower tokens of N full generations."""
        return self._n * self.generation

    @property
    def spent_up(self) -> bool:
        """Whether there are no tokens or there is no time left."""
        return 0 < self.budget <= self.spent or self._run.out_of_time

    async def go_on(self) -> None:
        """Search until the budget is spent or the time is up."""
        while not self.rollouts or not self.spent_up:
            await self._batch(self._size(), self._options.depth)
        if not any(r.finished for r in self.rollouts) and not self._run.out_of_time:
            await self._batch(1, None)  # rollouts to a depth only: one text has to end

    def population(self) -> Population:
        """The living texts that have ended, best first, then dead particles, up to N in all.

        Weights are the particles' own, as if each had been drawn alone. Where a text passed
        ``check()``, those that failed it are rejected: the search went by the verdict, and what
        it gives is conditioned on it, as in rejection sampling. A search has no evidence.
        """
        finished = [r for r in self.rollouts if r.finished]
        living = sorted((r for r in finished if r.score is not None), key=lambda r: -r.value)
        if any(r.verdict for r in living):
            for rollout in living:
                if rollout.verdict is False:
                    self._run.reject(rollout.tip.particle, "check() rejected the text")
        dead = [r for r in finished if r.score is None][: max(0, self._n - len(living))]
        return Population(tuple(r.tip.particle for r in (*living, *dead)), None)

    # Inside -------------------------------------------------------------------------------

    def _size(self) -> int:
        """Rollouts of the next batch: no more than the budget has room for, if they are full."""
        size = self._options.parallel_for(self._n)
        if not self.rollouts:
            return size
        return max(1, min(size, math.ceil((self.budget - self.spent) / self.generation)))

    async def _batch(self, size: int, depth: int | None) -> None:
        """Run ``size`` rollouts together, or as many as there are places to begin at."""
        walks: list[Walk] = []
        while len(walks) < size and (node := select(self.root, self._options)) is not None:
            node.reserve()
            walks.append(Walk(node))
        going = list(walks)
        while going:
            if self.spent_up:
                going = going[:1]  # what has begun may end, but only one of them
            await self._step(going)
            for walk in going:  # all have their children by now: see close()
                if walk.tip.particle.done_stepping():
                    close(walk.tip, self._retries)
            going = [walk for walk in going if walk.goes_on(depth, self._retries, self.spent_up)]
        for walk in walks:
            walk.start.release()
            if walk.steps:  # the time may be up before the first
                self.rollouts.append(await self._judge(walk.last))
        rate(self.rollouts)

    async def _step(self, walks: list[Walk]) -> None:
        """One step of each rollout, all together."""
        fresh = iter(await self._run.spawn(sum(walk.tip is self.root for walk in walks)))
        particles = [
            next(fresh) if walk.tip is self.root else self._run.clone(walk.tip.particle)
            for walk in walks
        ]
        await self._run.step(particles)
        for walk, particle in zip(walks, particles, strict=True):
            # A step without tokens counts as one, so that every budget ends.
            tokens = max(1, _tokens(particle) - _tokens(walk.tip.particle))
            self.spent += tokens
            walk.move(walk.tip.add(particle, tokens))
            self._longest = max(self._longest, walk.tip.cost)

    async def _judge(self, tip: Node) -> Rollout:
        particle = tip.particle
        finished = particle.done_stepping()
        if particle.weight == -math.inf:
            return Rollout(tip, finished)
        verdict = await self._run.check(particle) if finished else None
        return Rollout(tip, finished, float(particle.weight) / tip.cost, verdict)


def _tokens(particle: Any) -> int:
    return int(getattr(getattr(particle, "context", None), "token_count", 0))
