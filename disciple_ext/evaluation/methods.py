"""What is measured: DisCIPL with a sampler, the follower alone, and the planner alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from .. import specs
from ..errors import DiscipleError, LimitExceeded, UsageError
from ..ledger import Purse
from ..planner.base import Planner
from ..planner.chat import Answer
from ..plugins import Registry
from ..result import Result, Usage
from ..steer import arun_program, aself_steer
from ..task import Limits, Task
from .asking import ask, chat_of, paid
from .baselines import follower_program
from .beam import stochastic_beams
from .log import Sample
from .scoring import on_follower
from .suite import Instance, Suite

__all__ = [
    *("ALONE", "FOLLOWER_ONLY", "NO_ANSWER", "Bench", "Method", "Outcome", "asks_planner"),
    "method_of",
]


NO_ANSWER = ("refused", "no_answer")
"""How a sample ends that holds no text to verify; the empty text may be right somewhere."""


@dataclass(frozen=True)
class Bench:
    """What every run of an evaluation shares.

    Attributes:
        suite: the tasks.
        registry: what plugins registered.
        planner: writes programs, or answers itself.
        follower: the loaded follower.
        timeout: seconds for a run, or None for the suite's.
        purse: money for the planner's calls, or None for no limit.
    """

    suite: Suite
    registry: Registry
    planner: Planner
    follower: Any
    timeout: float | None = None
    purse: Purse | None = None

    def limits(self, instance: Instance) -> Limits:
        """The limits of a run on an instance."""
        own = self.suite.budgets[instance.task].timeout
        return Limits(timeout=self.timeout if self.timeout is not None else own)


@dataclass(frozen=True)
class Outcome:
    """What a method gave.

    Attributes:
        samples: the texts; the ground truth's verdicts are still to come.
        usage: tokens and forward passes.
        cost: US dollars, or None where a price is unknown.
        attempts: the programs tried.
        program_hash: of the program that gave the samples, or None.
        unscored: whether ``log_prob`` under the common prior is still to come.
    """

    samples: tuple[Sample, ...]
    usage: Usage
    cost: float | None
    attempts: tuple[dict[str, Any], ...] = ()
    program_hash: str | None = None
    unscored: bool = False


class Method(Protocol):
    """A way to texts for a task."""

    def samples(self, n: int) -> int:
        """How many samples it takes where ``n`` are asked for."""
        ...

    async def run(self, bench: Bench, instance: Instance, n: int, seed: int) -> Outcome:
        """Run it.

        Raises:
            DiscipleError: it failed, with ``usage`` and ``cost``.
        """
        ...


@dataclass(frozen=True)
class Steered:
    """The planner's program, run with a sampler (a spec)."""

    sampler: str

    def samples(self, n: int) -> int:
        """All of them."""
        return n

    async def run(self, bench: Bench, instance: Instance, n: int, seed: int) -> Outcome:
        """Plan and run, with the paper's R programs at most."""
        task = Task(instance.prompt, n=n, limits=bench.limits(instance), family=instance.task)
        result = await aself_steer(
            task,
            planner=bench.planner,
            follower=bench.follower,
            sampler=self.sampler,
            seed=seed,
            max_cost=bench.purse,
            registry=bench.registry,
        )
        return _outcome(result)


class FollowerAlone:
    """The follower under the task itself, at temperature 1."""

    def samples(self, n: int) -> int:
        """All of them."""
        return n

    async def run(self, bench: Bench, instance: Instance, n: int, seed: int) -> Outcome:
        """Draw independent texts, cut at the suite's number of tokens."""
        result = await arun_program(
            follower_program(bench.suite.budgets[instance.task].tokens),
            Task(instance.prompt, n=n, limits=bench.limits(instance), family=instance.task),
            follower=bench.follower,
            sampler="is",
            seed=seed,
            registry=bench.registry,
        )
        return _outcome(result, alone=True)


class Beams:
    """Stochastic beam search of the follower under the task itself, as wide as ``n``."""

    def samples(self, n: int) -> int:
        """All of them."""
        return n

    async def run(self, bench: Bench, instance: Instance, n: int, seed: int) -> Outcome:
        """Draw texts without replacement, cut at the suite's number of tokens."""
        follower, limits = bench.follower, bench.limits(instance)
        forwards = getattr(follower, "forwards", 0)
        most = bench.suite.budgets[instance.task].tokens
        rng = np.random.default_rng([seed, 0xBEA3])
        prompt = follower.prompt(instance.prompt)
        try:
            beams = await asyncio.wait_for(
                on_follower(stochastic_beams(follower, prompt, n, most, rng)), limits.timeout
            )
        except TimeoutError as error:
            raise LimitExceeded.timeout(limits.timeout) from error
        samples = tuple(
            Sample(
                text=follower.vocabulary.decode(beam.tokens).strip(),
                log_weight=None,
                check=None,
                passed=False,
                finish_reason="ended" if beam.ended else "max_tokens",
                tokens=len(beam.tokens),
                log_prob=None,
            )
            for beam in beams
        )
        usage = Usage(
            follower_tokens=sum(len(beam.tokens) + beam.ended for beam in beams),
            forwards=getattr(follower, "forwards", 0) - forwards,
        )
        return Outcome(samples, usage, 0.0, unscored=True)


@dataclass(frozen=True)
class PlannerAlone:
    """The planner's chat model is asked for the text itself.

    Attributes:
        count: answers to each task.
        think: whether it is told to reason first, and to mark its answer.
    """

    count: int
    think: bool

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UsageError(f"samples must be at least 1, not {self.count}")

    def samples(self, n: int) -> int:
        """Its own number: answers cost money, and n does not."""
        return self.count

    async def run(self, bench: Bench, instance: Instance, n: int, seed: int) -> Outcome:
        """Ask ``count`` times."""
        chat = chat_of(bench.planner, bench.follower, on_follower)
        messages = [{"role": "user", "content": instance.prompt}]
        if self.think:
            messages.insert(0, {"role": "system", "content": bench.suite.cot_prompt})
        samples: list[Sample] = []
        usage = Usage()
        costs: list[float | None] = []
        for number in range(self.count):
            try:
                answer = await ask(chat, messages, number, bench.purse)
            except DiscipleError as error:
                error.usage = usage + (error.usage or Usage())
                error.cost = _sum([*costs, error.cost])
                raise
            if answer.origin == "model":
                usage += answer.usage or Usage()
            costs.append(paid(answer))
            samples.append(_answered(answer, think=self.think))
        return Outcome(tuple(samples), usage, _sum(costs))


def _sum(costs: list[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def _answered(answer: Answer, *, think: bool) -> Sample:
    """The text in an answer; none in a refusal, or where it should be marked and is not."""
    text: str | None = answer.text.strip()
    if think:
        found = _ANSWER.findall(answer.text)
        text = found[-1].strip() if found else None  # the last: reasoning may try several
    reason = "ended" if answer.whole else "max_tokens"
    if answer.refusal or answer.finish_reason == "content_filter":
        text, reason = None, "refused"
    elif not text:
        reason = "no_answer"
    tokens = answer.usage.planner_output if answer.usage is not None else 0
    return Sample(text or "", None, None, False, reason, tokens, None)


def _outcome(result: Result, *, alone: bool = False) -> Outcome:
    samples = tuple(
        Sample(
            text=p.text.strip() if alone else p.text,
            log_weight=None if alone else p.log_weight,
            check=p.check,
            passed=False,
            finish_reason=p.finish_reason,
            tokens=p.tokens,
            log_prob=p.log_prob,
        )
        for p in result.particles
    )
    return Outcome(
        samples,
        result.usage,
        result.cost,
        tuple(asdict(attempt) for attempt in result.attempts),
        result.program.get("hash"),
        unscored=alone,  # it wrote under the task's prompt
    )


def _planner(samples: int = 1) -> Method:
    return PlannerAlone(samples, think=False)


def _cot(samples: int = 1) -> Method:
    return PlannerAlone(samples, think=True)


FOLLOWER_ONLY = "follower"
"""The method of the follower alone, at temperature 1."""

ALONE: Mapping[str, Callable[..., Method]] = {
    FOLLOWER_ONLY: FollowerAlone,
    "beam": Beams,
    "planner": _planner,
    "cot": _cot,
}
"""The methods without a program; every other method is a sampler's spec."""


def method_of(spec: str, registry: Registry) -> Method:
    """The method that a spec names.

    Raises:
        UsageError: there is none, or it has no such option.
    """
    name, colon, options = spec.partition(":")
    known = [*sorted(registry.tables["samplers"]), *ALONE]
    if name not in known:
        raise UsageError(f"unknown method {spec!r}; there are: {', '.join(known)}")
    if name not in ALONE:
        registry.make("samplers", spec)  # its options are refused before anything runs
        return Steered(spec)
    method: Method = specs.call("method", name, ALONE[name], options) if colon else ALONE[name]()
    return method


def asks_planner(method: Method) -> bool:
    """Whether the method asks the planner's chat model for the text itself."""
    return isinstance(method, PlannerAlone)
