"""Exact posteriors of programs over small models, by enumeration."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ..model.base import BaseModel
from ..protocol.follower import BaseFollower
from ..protocol.requests import Branch, Draw, LogProbs, Reply, Request
from ..protocol.stream import Stream
from ..records.task import Limits, Task
from ..registry.plugins import Registry, load_plugins
from ..run import loader
from ..run.particles import make_particle
from ..samplers.base import Run
from .toy import Pieces, ToyFollower

__all__ = ["ExactPosterior", "Execution", "exact_posterior", "load_model", "prior_masses"]


@dataclass(frozen=True)
class Execution:
    """One way in which a program can run.

    Attributes:
        text: the text at its end.
        log_proposal: natural log of the probability that the particle runs this way.
        log_weight: natural log of its weight.
        finish_reason: why it ended.
        check: verdict of the program's ``check``, or None.
        particle: the finished particle.
        path: natural log of its weight before the first step and after each step.
    """

    text: str
    log_proposal: float
    log_weight: float
    finish_reason: str
    check: bool | None
    particle: BaseModel
    path: tuple[float, ...]


@dataclass(frozen=True)
class ExactPosterior:
    """What a properly weighted sampler must give, by enumeration.

    Attributes:
        masses: unnormalised target mass of each text (linear space).
        executions: every execution, the dead ones included.
    """

    masses: dict[str, float]
    executions: tuple[Execution, ...]

    @property
    def evidence(self) -> float:
        """The sum of all masses."""
        return math.fsum(self.masses.values())

    @property
    def bound(self) -> float:
        """What the evidence of a sampler that steps its particles together cannot exceed.

        The product over steps of the largest factor by which any execution's weight grows there:
        an average of weights, after any number of resamplings, is at most that.
        """
        paths = [tuple(w for w in e.path if w > -math.inf) for e in self.executions]
        longest = max(map(len, paths))
        grown = np.zeros((len(paths), longest))  # a finished particle's weight does not change
        for row, path in zip(grown, paths, strict=True):
            row[: len(path)] = np.diff(path, prepend=0.0)
        return float(math.exp(grown.max(0).sum()))

    @property
    def probabilities(self) -> dict[str, float]:
        """The target: masses over the evidence."""
        return {text: mass / self.evidence for text, mass in self.masses.items()}


def exact_posterior(
    program: str | type[BaseModel],
    follower: BaseFollower,
    *,
    instruction: str = "toy",
    condition: bool = False,
    max_steps: int = 100,
    max_executions: int = 20_000,
) -> ExactPosterior:
    """Run a program in every way in which its draws can turn out.

    The mass of a text is the sum over executions of (probability of the draws) x (weight), which
    is what any properly weighted sampler estimates. The probabilities are computed here from the
    follower's distributions, apart from the code that draws. Other randomness of a program's own
    is not enumerated.

    Args:
        program: source, or a class.
        follower: a small model.
        instruction: the task, which is the prompt of programs that give none.
        condition: whether to condition on ``check``, as rejection sampling does.
        max_steps: steps after which a particle ends with weight zero.
        max_executions: executions that may be needed at most.

    Raises:
        ValueError: the program has more executions than that.
    """
    model = load_model(program, None)
    task = Task(instruction, n=1)
    limits = Limits(timeout=1e6, max_steps=max_steps)

    async def enumerate_all() -> list[Execution]:
        found: list[Execution] = []
        script: list[int] | None = []
        while script is not None:
            if len(found) >= max_executions:
                raise ValueError(f"the program has more than {max_executions} executions")
            branching = _Branching(follower, script)
            run = Run(
                lambda i, b=branching: make_particle(model, task, b, 0, i),  # type: ignore[misc]
                seed=0,
                limits=limits,
            )
            (particle,) = await run.spawn(1)
            particle.bind(particle.prior, _Choices(branching))
            path = [float(particle.weight)]
            while not particle.done_stepping():
                await run.step([particle])
                path.append(float(particle.weight))
            alive = particle.weight > -math.inf
            verdict = await run.check(particle) if alive else None
            found.append(
                Execution(
                    str(particle),
                    branching.log_proposal,
                    float(particle.weight),
                    particle.finish_reason or "ended",
                    verdict,
                    particle,
                    tuple(path),
                )
            )
            script = branching.next_script()
        return found

    executions = tuple(asyncio.run(enumerate_all()))
    masses: dict[str, float] = {}
    for e in executions:
        if e.log_weight > -math.inf and not (condition and e.check is False):
            masses[e.text] = masses.get(e.text, 0.0) + math.exp(e.log_proposal + e.log_weight)
    return ExactPosterior(masses, executions)


class _Branching:
    """A follower whose draws follow a script of choices, and take the first one beyond it."""

    def __init__(self, inner: BaseFollower, script: Sequence[int]) -> None:
        self.inner = inner
        self.log_proposal = 0.0
        self._script = list(script)
        self._taken: list[tuple[int, int]] = []  # choice, number of choices

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __deepcopy__(self, memo: object) -> _Branching:
        return self

    async def ask(self, request: Request) -> Reply:
        """Answer as the inner follower does, with ``u`` set so that the scripted choice comes."""
        if not isinstance(request, Draw | Branch):
            return await self.inner.ask(request)
        # Computed anew from the distribution, so that an error in the code that draws shows.
        asked = LogProbs(request.proposal, request.temperature, request.drawn_as)
        logs = await self.inner.ask(asked)
        p = np.exp(np.asarray(logs, dtype=np.float64))
        within = request.mask if isinstance(request, Draw) else request.given
        if within is not None:
            p = np.where(within.array, p, 0.0)
        if p.sum() == 0:
            return await self.inner.ask(request)
        p /= p.sum()
        if isinstance(request, Branch):
            inside = float(p[request.mask.array].sum())
            values: list[int]
            shares, values = np.array([inside, 1.0 - inside]), [True, False]
        else:
            shares, values = p, list(range(len(p)))
        # `1.0 - inside` may leave a rounding error, which is no outcome.
        options = [i for i in range(len(values)) if shares[i] > 1e-12]
        choice = self._choose(len(options))
        option = options[choice]
        self.log_proposal += math.log(shares[option])
        # From the middle of its share, so that rounding cannot draw a neighbour.
        u = float(shares[:option].sum() + 0.5 * shares[option])
        # Slots and frozen: a new request with the other u.
        fields = {name: getattr(request, name) for name in request.__slots__}
        reply: Any = await self.inner.ask(type(request)(**{**fields, "u": u}))
        got = reply.token if isinstance(request, Draw) else reply.value
        if got != values[option]:
            raise AssertionError(f"the follower drew {got} at u={u}; it should be {values[option]}")
        return reply

    def choose(self, shares: Sequence[float]) -> int:
        """A place in ``shares``: one of the ways in which the particle can go on."""
        total = math.fsum(shares)
        options = [k for k, share in enumerate(shares) if share > 1e-12 * total]
        option = options[self._choose(len(options))]
        self.log_proposal += math.log(shares[option] / total)
        return option

    def _choose(self, choices: int) -> int:
        index = len(self._taken)
        choice = self._script[index] if index < len(self._script) else 0
        self._taken.append((choice, choices))
        return choice

    def next_script(self) -> list[int] | None:
        """The next execution in depth-first order, or None after the last."""
        taken = list(self._taken)
        while taken and taken[-1][0] + 1 >= taken[-1][1]:
            taken.pop()
        return [c for c, _ in taken[:-1]] + [taken[-1][0] + 1] if taken else None


class _Choices(Stream):
    """A particle's stream whose choices among shares follow the script, too."""

    def __new__(cls, branching: _Branching) -> _Choices:
        """Make a stream without a seed."""
        return cast(_Choices, super().__new__(cls))

    def __init__(self, branching: _Branching) -> None:
        super().__init__()
        self._branching = branching

    def choose(self, shares: Sequence[float]) -> int:
        return self._branching.choose(shares)


def prior_masses(
    follower: ToyFollower, prompt: str, length: int, *, end: bool = True
) -> dict[Pieces, float]:
    """Probability of every token string up to a length, straight from the toy's table.

    Args:
        follower: the toy.
        prompt: the prompt.
        length: tokens at most.
        end: whether to multiply by the mass of the end of text; else the mass of the prefix.
    """
    texts = [i for i in range(follower.vocabulary.size) if i in follower.vocabulary.text_mask]
    ends = sorted(follower.vocabulary.eos)

    def walk(pieces: Pieces, mass: float) -> Iterator[tuple[Pieces, float]]:
        row = follower.probabilities(prompt, pieces)
        yield pieces, mass * (float(row[ends].sum()) if end else 1.0)
        if len(pieces) < length:
            for i in texts:
                yield from walk((*pieces, follower.pieces[i]), mass * float(row[i]))

    return dict(walk((), 1.0))


def load_model(program: str | type[BaseModel], registry: Registry | None) -> type[BaseModel]:
    """The class of a program, with the names that the loader gives it."""
    if not isinstance(program, str):
        return program
    # Without installed plugins, so that a test finds the same on every machine.
    registry = registry or load_plugins(installed=False)
    patterns = {name: made for name, (made, _) in registry.tables["patterns"].items()}
    return loader.load(program, {**registry.tables["masks"], **patterns})
