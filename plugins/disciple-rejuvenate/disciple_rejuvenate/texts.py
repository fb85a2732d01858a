"""Texts, how they came about step by step, and their edits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llamppl.modeling import Model

from disciple_ext.samplers.base import Run

from .script import Script

__all__ = ["Text", "Writer", "begin_edit", "finish", "step"]

LIMITS = ("max_steps", "max_tokens")
"""Deaths of which any part of the text may be the cause, not the last step above all."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A step that was made.

    Attributes:
        before: snapshot from before it; never stepped or changed, only cloned.
        outcomes: of its draws, in order.
        log_q: their log-probability under the proposal (nats).
    """

    before: Model
    outcomes: tuple[int | bool, ...]
    log_q: float


@dataclass(frozen=True, slots=True)
class Text:
    """A finished particle and the steps to it.

    Attributes:
        particle: the particle, dead or alive.
        taken: its steps.
        verdict: of ``check()``; None where the program has none, or the particle is dead.
    """

    particle: Model
    taken: tuple[Taken, ...]
    verdict: bool | None

    @property
    def alive(self) -> bool:
        """Whether it has weight."""
        return bool(self.particle.weight > -math.inf)

    @property
    def passes(self) -> bool:
        """Whether it is an answer: alive, and not refused by ``check()``."""
        return self.alive and self.verdict is not False

    @property
    def log_density(self) -> float:
        """Log of the unnormalised target's density where it is (nats), -inf for the dead.

        That is the weight times the proposal's probability of all draws. Unlike the weight, it does
        not depend on which of the draws were repeated rather than drawn.
        """
        return float(self.particle.weight) + math.fsum(step.log_q for step in self.taken)

    @property
    def rank(self) -> tuple[int, float]:
        """What texts are compared by: the higher, the better.

        The dead by the steps they made, then those that fail ``check()``, then those that pass,
        both by log density per token: as a sum it would favour short texts.
        """
        if not self.alive:
            return 0, float(len(self.taken))
        return 1 + self.passes, self.log_density / max(1, tokens(self.particle))


@dataclass(slots=True)
class Writer:
    """A text under way.

    Attributes:
        particle: the particle so far.
        taken: its steps so far.
        plan: for further steps, by their index: outcomes to repeat.
    """

    particle: Model
    taken: list[Taken] = field(default_factory=list)
    plan: dict[int, tuple[int | bool, ...]] = field(default_factory=dict)


async def step(run: Run, writers: Sequence[Writer]) -> int:
    """One step of each, all together.

    Returns:
        The follower tokens it took, at least one for each, so that every budget ends.
    """
    before = [writer.particle for writer in writers]
    scripts = []
    for writer in writers:
        writer.particle = run.clone(writer.particle)
        scripts.append(Script(writer.particle, writer.plan.get(len(writer.taken), ())))
    await run.step([writer.particle for writer in writers])
    cost = 0
    for writer, old, script in zip(writers, before, scripts, strict=True):
        script.close()
        writer.taken.append(Taken(old, tuple(script.outcomes), script.log_q))
        cost += max(1, tokens(writer.particle) - tokens(old))
    return cost


def begin_edit(text: Text, span: int, rng: np.random.Generator) -> Writer:
    """Begin to write a text again: up to ``span`` steps are to be drawn anew, and the rest kept.

    The span may be anywhere. Only where the particle was killed by its last step it ends there, and
    that step is not repeated in any case.

    Args:
        text: a text of at least one step.
        span: the most steps to draw anew.
        rng: picks the span.
    """
    steps = len(text.taken)
    length = int(rng.integers(1, min(span, steps) + 1))
    begin = int(rng.integers(0, steps - length + 1))
    if not text.alive and getattr(text.particle, "finish_reason", None) not in LIMITS:
        begin = steps - length
    kept = range(begin + length, steps if text.alive else steps - 1)
    plan = {i: text.taken[i].outcomes for i in kept}
    return Writer(text.taken[begin].before, list(text.taken[:begin]), plan)


async def finish(run: Run, writer: Writer) -> Text:
    """The text of a particle that has finished, with the verdict of ``check()``."""
    alive = writer.particle.weight > -math.inf
    verdict = await run.check(writer.particle) if alive else None
    return Text(writer.particle, tuple(writer.taken), verdict)


def tokens(particle: Any) -> int:
    """Tokens of a particle's text; 0 where it has no context of ours."""
    return int(getattr(getattr(particle, "context", None), "token_count", 0))
