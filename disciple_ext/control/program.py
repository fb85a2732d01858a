"""The other way: a program where genlm-control expects a sampler."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Sequence
from typing import Any

from genlm.control import EOS
from genlm.control.sampler import TokenSampler
from genlm.control.sampler.sequence import Sequences

from ..errors import NoParticleAlive, UsageError
from ..loop.steer import arun_program
from ..model.base import BaseModel
from ..model.stops import Stop
from ..protocol.follower import Follower
from ..records.program import Program
from ..records.task import Task
from ..registry.plugins import Registry, load_plugins
from ..run import loader
from ..run.particles import make_particle
from ..samplers.smc import SMCSampler
from .follower import FollowerPotential

__all__ = ["ProgramSampler", "ProgramSequences"]


class ProgramSampler(TokenSampler):  # type: ignore[misc]  # genlm ships no types
    """A program as a token sampler, of which one unit is what one step of the program writes.

    Each unit is a list of the follower's tokens, the last one the end of the sequence where the
    text ends. It is properly weighted: the product of a sequence's weights is what the particle's
    weight would be, masks, scores, prior and proposal included. A critic of genlm-control's reads
    the units through ``flatten_units``. A unit carries the particle that wrote it, so that a
    program goes on with its state, and may be as stateful as it likes.

    The program runs in this process, with all its rights, and so must be trusted. To run one in the
    sandbox, use :class:`ProgramSequences`.

    Args:
        program: a class, or the source of a program.
        follower: what writes.
        instruction: the task, which is the prompt of programs that have none.
        seed: seed of every draw of the program's; those of genlm-control are torch's and numpy's.
        sandbox: must be ``"none"`` for a source: that the program may run here.
        registry: where programs find masks and patterns; the installed plugins where it is None.

    Raises:
        UsageError: a source was given, and not said to be trusted.
        ProgramRejected: the source defines no usable program.
    """

    def __init__(
        self,
        program: str | type[BaseModel],
        follower: Follower,
        *,
        instruction: str = "(none)",
        seed: int = 0,
        sandbox: str | None = None,
        registry: Registry | None = None,
    ) -> None:
        if isinstance(program, str):
            if sandbox != "none":
                raise UsageError(
                    "a token sampler runs the program in this process, with all its rights: read "
                    "it, and say sandbox='none' if you trust it, or use ProgramSequences"
                )
            patterns = (registry or load_plugins()).patterns()
            program = loader.load(program, patterns, instruction)
        self._model = program
        self._task = Task(instruction)
        self._follower = follower
        self._seed = seed
        self._made = itertools.count()
        particle = self._particle()
        # The target is the prior's: the proposal only draws.
        scored = particle.prior or particle.context
        super().__init__(FollowerPotential(follower, scored.prompt, scored.temp))

    async def start_weight(self) -> float:
        """Programs begin with a weight of one; one drawn in ``start`` comes with the first unit."""
        return 0.0

    async def sample(self, context: Sequence[Any], draw: Any = None) -> tuple[Any, float, float]:
        """Run one step of the program after the units so far.

        Returns:
            The unit, the natural log of its weight, and NaN: a program's draws have no one
            probability.

        Raises:
            ValueError: ``draw`` is given, or the units are not this sampler's.
        """
        if draw is not None:
            raise ValueError("a program draws by itself; it has no draw that could be replaced")
        before, particle = await self._after(context)
        length = particle.context.token_count
        # As in a run: a twist holds until the next step begins.
        particle.untwist()
        await particle.step()
        tokens = self._written(particle, length)
        if particle.finished:
            tokens.append(EOS)
        return _Unit(tokens, particle), _less(float(particle.weight), before), math.nan

    async def logw_eos(self, context: Sequence[Any]) -> float:
        """Log weight of ending the text after the units so far."""
        before, particle = await self._after(context)
        particle.untwist()
        with contextlib.suppress(Stop):  # it has died of it
            await particle.end()
        return _less(float(particle.weight), before)

    async def _after(self, context: Sequence[Any]) -> tuple[float, BaseModel]:
        """A particle that has written the units, and its log weight before the next one."""
        if not context:
            particle = self._particle()
            await particle.start()
            return 0.0, particle
        last = context[-1]
        if not isinstance(last, _Unit):
            raise ValueError("the context must be of units that this sampler has sampled")
        # A copy: several sequences may go on from one unit once genlm-control has resampled.
        return float(last.particle.weight), copy.deepcopy(last.particle)

    def _particle(self) -> BaseModel:
        index = next(self._made)
        return make_particle(self._model, self._task, self._follower, self._seed, index)

    def _written(self, particle: BaseModel, length: int) -> list[Any]:
        ends = self._follower.vocabulary.eos
        return self.target.tokens(  # type: ignore[no-any-return]
            i for i in particle.context.generated[length:] if i not in ends
        )


class _Unit(list[Any]):
    """The tokens of a step, and the particle that wrote them."""

    def __init__(self, tokens: Sequence[Any], particle: BaseModel) -> None:
        super().__init__(tokens)
        self.particle = particle


def _less(after: float, before: float) -> float:
    # Minus infinity less itself would be no number.
    return -math.inf if after == -math.inf else after - before


class ProgramSequences:
    """A program as a sampler of sequences: called as genlm-control's ``SMC`` is, it returns its
    ``Sequences``, whose ``log_ml`` is the run's log evidence.

    The program runs in the sandbox, as with :func:`~disciple_ext.run_program`. Each sequence is the
    whole text as bytes, and the end of the sequence.

    Args:
        program: the program, or its source.
        task: the task, or what to write in words.
        **options: further arguments of :func:`~disciple_ext.run_program`, such as ``follower``,
            ``services`` and ``sandbox``.
    """  # noqa: D205

    def __init__(self, program: Program | str, task: str | Task = "(none)", **options: Any) -> None:
        self._program = program
        self._task = task
        self._options = options

    async def __call__(
        self,
        n_particles: int,
        ess_threshold: float = 0.5,
        max_tokens: int | None = None,
        *,
        seed: int = 0,
        resampling_method: str = "multinomial",
    ) -> Sequences:
        """Run the program under sequential Monte Carlo.

        Where no particle is left alive, all sequences are empty and have weight zero.

        Args:
            n_particles: particles.
            ess_threshold: fraction of them below which the effective sample size leads to
                resampling.
            max_tokens: tokens of text that a particle may have.
            seed: seed of every draw.
            resampling_method: name of the resampling scheme.

        Raises:
            DiscipleError: as :func:`~disciple_ext.run_program`.
        """
        try:
            result = await arun_program(
                self._program,
                self._task,
                sampler=SMCSampler(ess_threshold, resampling_method),
                n=n_particles,
                max_tokens=max_tokens,
                seed=seed,
                **self._options,
            )
        except NoParticleAlive:
            return Sequences([[EOS]] * n_particles, [-math.inf] * n_particles)
        contexts = [[p.text.encode(), EOS] for p in result.particles]
        return Sequences(contexts, [p.log_weight for p in result.particles])
