"""The sampler under test, its runs, and what goes wrong with it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..model.base import BaseModel
from ..records.task import Limits, Task
from ..run.particles import make_particle
from ..samplers.base import Kind, Population, Run, Sampler
from .models import Example
from .watch import StepCounts, watched

__all__ = ["ConformanceError", "Report", "Subject"]


class ConformanceError(AssertionError):
    """A sampler does not keep what it promises.

    Attributes:
        property: the property that failed.
        model: the model on which it failed.
    """

    def __init__(self, sampler: str, prop: str, model: str, what: str) -> None:
        super().__init__(f"sampler {sampler!r} fails {prop!r} on the model {model!r}: {what}")
        self.property = prop
        self.model = model


@dataclass
class Report:
    """What was checked of a sampler, a line for each property and model.

    Attributes:
        sampler: its name.
        kind: what it promises.
        seconds: wall-clock seconds that it took.
        rows: (property, model, the numbers).
    """

    sampler: str
    kind: Kind
    seconds: float = 0.0
    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, prop: str, model: str, what: str) -> None:
        """Enter one result."""
        self.rows.append((prop, model, what))

    def __str__(self) -> str:
        head = f"{self.sampler} ({self.kind}): {len(self.rows)} checks in {self.seconds:.1f} s"
        return "\n".join([head, *(f"  {p:<13} {m:<18} {what}" for p, m, what in self.rows)])


@dataclass(frozen=True)
class Subject:
    """A sampler under test.

    Attributes:
        make: gives the sampler for a run.
        name: its name.
        kind: what it promises.
        n: particles of a run.
        seed: first seed.
        condition: whether it conditions on ``check``.
        slack: factor by which its evidence may exceed the model's bound.
    """

    make: Callable[[], Sampler]
    name: str
    kind: Kind
    n: int
    seed: int
    condition: bool
    slack: float

    def fail(self, prop: str, model: str, what: str) -> ConformanceError:
        """The error of a property that does not hold."""
        return ConformanceError(self.name, prop, model, what)

    async def run(
        self,
        model: type[BaseModel],
        follower: object,
        seed: int,
        *,
        n: int | None = None,
        limits: Limits | None = None,
        deadline: float = math.inf,
    ) -> Population:
        """One run; the population is checked for its form.

        Raises:
            ConformanceError: the sampler raised, or its population is malformed.
        """
        task = Task("toy", n=n or self.n, limits=limits or Limits())
        run = Run(
            lambda index: make_particle(model, task, follower, seed, index),  # type: ignore[arg-type]
            seed=seed,
            limits=task.limits,
            deadline=deadline,
        )
        try:
            population = await self.make()(run, task.n)
        except Exception as error:
            what = f"it raised {type(error).__name__}: {error} (n={task.n}, seed={seed})"
            raise self.fail("no exception", model.__name__, what) from error
        self._examine(population, model.__name__, timed=deadline < math.inf)
        return population

    def runs(
        self, example: Example, seeds: Sequence[int], n: int | None = None
    ) -> list[Population]:
        """Runs of one model, all at once; their particles are watched."""
        counts = StepCounts()
        model = watched(example.model, counts)

        async def everything() -> list[Population]:
            return await asyncio.gather(
                *(self.run(model, example.follower, seed, n=n) for seed in seeds)
            )

        populations = asyncio.run(everything())
        self.examine_counts(counts, example.name)
        return populations

    def examine_counts(self, counts: StepCounts, model: str) -> None:
        """Were finished particles left alone, and clones independent?

        Raises:
            ConformanceError: they were not.
        """
        if counts.finished:
            what = f"{counts.finished} steps were made by particles that had finished"
            raise self.fail("finished", model, what)
        if counts.shared:
            what = f"before {counts.shared} steps, another particle had changed its state"
            raise self.fail("clones", model, what)
        if counts.repeated:
            what = f"{counts.repeated} random numbers were drawn by two particles"
            raise self.fail("clones", model, what)

    def _examine(self, population: Population, model: str, timed: bool) -> None:
        if not isinstance(population, Population) or not population.particles:
            raise self.fail("population", model, f"it returned {population!r:.80}")
        for index, particle in enumerate(population.particles):
            if not particle.done_stepping():
                raise self.fail("population", model, f"particle {index} has not finished")
            if not _is_log_weight(particle.weight):
                raise self.fail("log weights", model, f"particle {index} has {particle.weight!r}")
        evidence = population.log_evidence
        if evidence is not None and not _is_log_weight(evidence):
            raise self.fail("log weights", model, f"the log evidence is {evidence!r}")
        if evidence is None and self.kind == "weighted" and not timed:
            raise self.fail("log weights", model, "a weighted sampler gave no evidence")


def _is_log_weight(x: object) -> bool:
    return isinstance(x, int | float) and not math.isnan(x) and x < math.inf
