"""One execution of a program, as a sampler sees it: particles are made, stepped and cloned."""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
from llamppl.modeling import Model

from ..errors import SamplerError
from ..model.stops import PROGRAM_FILE
from ..records.events import Listener
from ..records.task import Limits
from .notes import Notes
from .particle import adapted
from .population import Population
from .report import Report

__all__ = ["Run"]


class Run:
    """One execution of a program: makes particles, steps them together, holds the limits.

    All randomness of a sampler comes from :attr:`rng`; all of a particle from its own stream.

    Attributes:
        limits: step, token and time limits.
        rng: numpy generator of the sampler, seeded by the run's seed.
        steps: calls of :meth:`step` so far.
    """

    def __init__(
        self,
        make: Callable[[int], Model],
        *,
        seed: int,
        limits: Limits,
        deadline: float = math.inf,
        observers: Sequence[Listener] = (),
        tokens: Callable[[], int] = lambda: 0,
        explain: Callable[[BaseException, Model | None, int, int], Exception] | None = None,
    ) -> None:
        """Set up a run.

        Args:
            make: makes the particle of a given index, its ``__init__`` included.
            seed: seed of everything.
            limits: step, token and time limits.
            deadline: ``time.monotonic()`` at which the run must be over.
            observers: called with each event; an
                :class:`~disciple_ext.records.events.Observer` whose ``detail`` is true is told
                where each change of a weight comes from, too.
            tokens: follower tokens used so far, for events.
            explain: turns an exception of a program into the error to raise.
        """
        self.limits = limits
        self.rng = np.random.default_rng([int(seed), 0xD15C])
        self.steps = 0
        self._make = make
        self._deadline = deadline
        self._explain = explain
        self._made = 0
        self._notes = Notes()
        self._report = Report(observers, self._notes, tokens)

    # What a sampler calls -----------------------------------------------------------------

    async def spawn(self, n: int) -> list[Model]:
        """Make ``n`` particles, each with an ``__init__`` of its own (Algorithm 2, line 3)."""
        particles = []
        for _ in range(n):
            # The index goes on from call to call: a particle does not depend on its batch.
            made = await self._guard(lambda: self._build(self._made), None, self._made)
            particle = adapted(made)
            self._notes.of(particle).place = self._made
            self._made += 1
            if self._report.detailed:
                particle._explained = True
            particles.append(particle)
        await asyncio.gather(*(p.start() for p in particles))
        return particles

    async def step(self, particles: Sequence[Model]) -> None:
        """Step every particle that has not finished, all together; finished ones are left alone.

        A particle that has made all its steps ends with weight zero. When the time is up, all
        that have not finished do.

        Raises:
            ProgramCrashed: the program raised.
            SamplerError: a weight became NaN.
        """
        running = [p for p in particles if not p.done_stepping()]
        self.steps += 1
        for particle in running:
            # Before the untwist, which is one of the changes of this step.
            particle.changes = []
            particle.untwist()
        before = [(float(p.log_prior), float(p.log_proposal)) for p in particles]
        if self.out_of_time:  # steps too quick to be cut short must not go on for ever
            self.close(particles)
        else:
            await self._step_all([p for p in running if self._may_step(p)], particles)
        for particle in particles:
            # LLaMPPL lets NaN pass, and then every weight of the population is NaN without a word.
            if math.isnan(particle.weight) or particle.weight == math.inf:
                raise SamplerError(f"a particle's log weight is {particle.weight}")
            # In LLaMPPL it would step on, and a population of such never ends.
            if particle.weight == -math.inf and not particle.done_stepping():
                particle.die("condition_false", "its weight became zero")
        self._report.step(self.steps, particles, before)

    def clone(self, particle: Model) -> Model:
        """An independent copy of a particle, with randomness of its own."""
        twin = copy.deepcopy(particle)
        self._notes.copy(particle, twin)
        return twin

    def resample(self, particles: Sequence[Model], ancestors: Sequence[int]) -> list[Model]:
        """Replace particles by clones of their ancestors; weights are left for the sampler.

        The first offspring of a particle is the particle itself; only the others are copies.
        """
        taken: set[int] = set()
        out = []
        for ancestor in (int(a) for a in ancestors):
            particle = particles[ancestor]
            out.append(self.clone(particle) if ancestor in taken else particle)
            taken.add(ancestor)
        self._report.resampled(self.steps, particles, ancestors)
        for index, particle in enumerate(out):
            self._notes.of(particle).place = index
        return out

    async def check(self, particle: Model) -> bool | None:
        """The program's ``check`` on a particle's text; None where the program has none.

        Raises:
            ProgramCrashed: ``check`` raised.
        """
        place = self._notes.of(particle).place
        outcome = await self._guard(lambda: _verdict(particle), particle, place)
        return None if outcome is None else bool(outcome)

    def reject(self, particle: Model, reason: str) -> None:
        """End a finished particle with weight zero, after all."""
        particle.die("condition_false", reason)

    def steps_of(self, particle: Model) -> int:
        """Steps that a particle has made, those of the particle it was cloned from included."""
        return self._notes.of(particle).steps

    def report(self, population: Population) -> None:
        """Tell the observers which particles the sampler has given (done by who called it)."""
        self._report.population(population.particles)

    @property
    def out_of_time(self) -> bool:
        """Whether the wall-clock limit has passed."""
        return time.monotonic() >= self._deadline

    def close(self, particles: Sequence[Model]) -> None:
        """End whatever has not finished, with weight zero."""
        for particle in particles:
            if not particle.done_stepping():
                where = f" while it waited in line {particle.line}" if particle.line else ""
                passed = f"the time limit of {self.limits.timeout:g} s passed{where}"
                particle.die("timeout", passed)

    # Inside -------------------------------------------------------------------------------

    def _may_step(self, particle: Model) -> bool:
        note = self._notes.of(particle)
        note.steps += 1
        if note.steps > self.limits.max_steps:
            particle.die("max_steps", f"no end after {self.limits.max_steps} steps")
        return not particle.done_stepping()

    async def _step_all(self, running: Sequence[Model], particles: Sequence[Model]) -> None:
        tasks = [asyncio.ensure_future(self._step_one(p)) for p in running]
        if not tasks:
            return
        left = None if self._deadline == math.inf else max(0.0, self._deadline - time.monotonic())
        try:
            done, pending = await asyncio.wait(
                tasks, timeout=left, return_when=asyncio.FIRST_EXCEPTION
            )
        finally:
            for task, particle in zip(tasks, running, strict=True):
                if not task.done():
                    # Before the cancellation, which unwinds the coroutine and loses the line.
                    particle.line = _line_waiting(task)
                task.cancel()
        # A cancelled step may take a moment: none may still run when this returns.
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:  # in the particles' order, so that the same one is named every time
            if task in done and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        if pending:
            self.close(particles)

    async def _step_one(self, particle: Model) -> None:
        if self.out_of_time:  # another one has hung until now: the next step closes all of them
            return
        await self._guard(particle.step, particle, self._notes.of(particle).place)

    async def _build(self, index: int) -> Model:
        return self._make(index)

    async def _guard(
        self, action: Callable[[], Awaitable[Any]], particle: Model | None, index: int
    ) -> Any:
        try:
            return await action()
        except BaseException as error:
            # A program's own exits are its errors: they must not end the event loop. What cancels
            # a step, or our own watchdog raises, is none.
            ours = isinstance(error, asyncio.CancelledError) or _from_the_package(error)
            if self._explain is None or (ours and not isinstance(error, Exception)):
                raise
            raise self._explain(error, particle, index, self.steps) from error


def _line_waiting(task: asyncio.Future[Any]) -> int | None:
    """The line of the program at which a step waits."""
    line, waiting = None, getattr(task, "get_coro", lambda: None)()
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None)
        if frame is not None and frame.f_code.co_filename == PROGRAM_FILE:
            line = frame.f_lineno
        waiting = getattr(waiting, "cr_await", None)
    return line


def _from_the_package(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] == __package__.partition(".")[0]


async def _verdict(particle: Any) -> Any:
    if particle.check is None:
        return None
    outcome = particle.check(str(particle))
    return await outcome if inspect.isawaitable(outcome) else outcome
