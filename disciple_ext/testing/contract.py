"""The other half of the suite: seeds, limits, cancellation, and models on which all dies."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine
from typing import Any

from ..model.base import BaseModel
from ..records.task import Limits
from ..samplers.base import Population
from .models import EXAMPLES, Example
from .subject import Report, Subject
from .watch import Blocking, Endless, Slow, StepCounts, watched

__all__ = ["check_contract"]

_PATIENCE = 5.0
"""Seconds that a sampler may take to notice that it is over, on a busy machine."""


def check_contract(subject: Subject, report: Report) -> None:
    """Everything that holds for samplers of both kinds.

    Raises:
        ConformanceError: something does not.
    """
    named = {e.name: e for e in EXAMPLES}
    _all_dead(subject, named["AllDie"], report)
    for name in ("EarlyAndLate", "PriorAndProposal", "Everything"):
        _seeds(subject, named[name], report)
    _max_steps(subject, report)
    for model in (Slow, Blocking):
        _deadline(subject, model, report)
    _cancellation(subject, report)


def _all_dead(subject: Subject, example: Example, report: Report) -> None:
    for population in subject.runs(example, range(subject.seed, subject.seed + 5)):
        _nothing(subject, "all dead", example.name, population)
    report.add("all dead", example.name, "evidence zero, no exception")


def _nothing(subject: Subject, prop: str, model: str, population: Population) -> None:
    alive = [p.weight for p in population.particles if p.weight > -math.inf]
    if alive:
        raise subject.fail(prop, model, f"particles are left with log weights {alive}")
    if population.log_evidence not in ((-math.inf,) if subject.kind == "weighted" else _NOTHING):
        what = f"the log evidence is {population.log_evidence}, not -inf"
        raise subject.fail(prop, model, what)


_NOTHING = (-math.inf, None)


def _seeds(subject: Subject, example: Example, report: Report) -> None:
    """A seed gives the same alone and in a crowd, and another one something else."""
    # All at once: a generator that runs share would give them other numbers than alone.
    crowd = [_outcome(p) for p in subject.runs(example, range(subject.seed, subject.seed + 4), 8)]
    for index, outcome in enumerate(crowd):
        seed = subject.seed + index
        (alone,) = subject.runs(example, [seed], 8)
        if _outcome(alone) != outcome:
            what = f"seed {seed} gave {outcome[1:]} in a crowd and {_outcome(alone)[1:]} alone"
            raise subject.fail("seeds", example.name, what)
    if subject.kind == "weighted" and all(outcome == crowd[0] for outcome in crowd):
        raise subject.fail("seeds", example.name, "four seeds gave one result")
    report.add("seeds", example.name, "4 seeds, alone and in a crowd")


def _outcome(population: Population) -> tuple[Any, ...]:
    return [(str(p), p.weight) for p in population.particles], population.log_evidence


def _max_steps(subject: Subject, report: Report) -> None:
    counts, limits = StepCounts(), Limits(max_steps=6, timeout=_PATIENCE)
    model = watched(Endless, counts)
    run = subject.run(model, EXAMPLES[0].follower, subject.seed, limits=limits)
    population = _within(subject, "max_steps", model.__name__, counts, limits.max_steps, run)
    _nothing(subject, "max_steps", model.__name__, population)
    report.add("max_steps", model.__name__, f"{counts.longest} steps at most")


def _deadline(subject: Subject, kind: type[BaseModel], report: Report) -> None:
    counts, limits = StepCounts(), Limits(timeout=0.1, max_steps=1_000_000)
    model, begun = watched(kind, counts), time.monotonic()
    run = subject.run(
        model, EXAMPLES[0].follower, subject.seed, limits=limits, deadline=begun + limits.timeout
    )
    population = _within(subject, "deadline", model.__name__, counts, limits.max_steps, run)
    took = f"{limits.timeout:g} s allowed, {time.monotonic() - begun:.2g} s taken"
    if population.log_evidence is not None and subject.kind == "weighted":
        what = f"cut off by the clock, and the log evidence is {population.log_evidence}, not None"
        raise subject.fail("deadline", kind.__name__, what)
    if any(p.weight > -math.inf for p in population.particles):
        raise subject.fail("deadline", kind.__name__, "a particle that was cut off has weight")
    report.add("deadline", kind.__name__, took)


def _within(
    subject: Subject,
    prop: str,
    model: str,
    counts: StepCounts,
    steps: int,
    run: Coroutine[Any, Any, Population],
) -> Population:
    """The outcome of a run that must end soon, after so many steps at most."""

    async def watch() -> Population:
        task = asyncio.ensure_future(run)
        begun = time.monotonic()
        # Watched from outside: a sampler that steps particles by itself knows no limit.
        while not task.done() and counts.longest <= steps:
            await asyncio.wait({task}, timeout=0.05)
            if time.monotonic() > begun + _PATIENCE:
                await _put_down(task, counts)
                raise subject.fail(prop, model, f"it still ran after {_PATIENCE:g} s")
        if counts.longest > steps:
            await _put_down(task, counts)
            what = f"a particle made {counts.longest} steps; the limit is {steps}"
            raise subject.fail("max_steps", model, what)
        return task.result()

    return asyncio.run(watch())


def _cancellation(subject: Subject, report: Report) -> None:
    """Cancelled while its particles wait, it ends at once and leaves no task."""
    counts = StepCounts()
    model = watched(Blocking, counts)

    async def watch() -> float:
        task = asyncio.ensure_future(subject.run(model, EXAMPLES[0].follower, subject.seed))
        others = asyncio.all_tasks() - {task}
        limit = time.monotonic() + _PATIENCE
        while not counts.waiting and not task.done() and time.monotonic() < limit:
            await asyncio.sleep(0.001)
        if not counts.waiting:
            await _put_down(task, counts)
            raise subject.fail("cancellation", model.__name__, "no particle came to its third step")
        begun = time.monotonic()
        task.cancel()
        await asyncio.wait({task}, timeout=1.0)
        took = time.monotonic() - begun
        if not task.done():
            await _put_down(task, counts)
            raise subject.fail("cancellation", model.__name__, "it still ran 1 s later")
        if not task.cancelled():
            raise subject.fail("cancellation", model.__name__, "it swallowed the cancellation")
        for _ in range(20):  # the steps' tasks were cancelled with it, and need a moment
            left = asyncio.all_tasks() - others
            if not left:
                return took
            await asyncio.sleep(0.01)
        counts.over = True
        what = f"it left {len(left)} tasks: {sorted(repr(t.get_coro()) for t in left)[0]:.120}"
        raise subject.fail("cancellation", model.__name__, what)

    report.add("cancellation", model.__name__, f"over after {asyncio.run(watch()):.2g} s")


async def _put_down(task: asyncio.Task[Any], counts: StepCounts) -> None:
    """End a task that may not want to end: it may not step any particle any more."""
    counts.over = True
    # Again and again, for it may swallow a cancellation and go on.
    for _ in range(100):
        if task.done():
            break
        task.cancel()
        await asyncio.wait({task}, timeout=0.01)
    if task.done() and not task.cancelled():
        task.exception()
