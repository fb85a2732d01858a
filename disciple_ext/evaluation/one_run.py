"""One run of a method on an instance, as a row of the log, whatever becomes of it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..errors import DiscipleError, LimitExceeded
from ..protocol.follower import BaseFollower
from ..records.result import Usage
from .logs.log import Row, Sample
from .methods.base import NO_ANSWER, Method, Outcome, Setup
from .methods.budget import EqualTokens
from .methods.scoring import on_follower, score_texts
from .scores.metrics import pass_at_1
from .suites.base import Instance

__all__ = ["Runs"]


@dataclass(frozen=True)
class Runs:
    """Makes the rows of an evaluation.

    Attributes:
        setup: what all runs share.
        methods: by the spec that names them in the log.
        n: samples, or None for the suite's.
        seed: seed of the evaluation.
        budget: what makes tokens equal, or None.
        fresh: whether each run begins with a follower that remembers nothing.
    """

    setup: Setup
    methods: Mapping[str, Method]
    n: int | None
    seed: int
    budget: EqualTokens | None
    fresh: bool

    async def row(self, instance: Instance, method: str) -> Row:
        """The row of one run, with as many samples as it is to have.

        Raises:
            LimitExceeded: the next call of the planner may cost more than is left.
        """
        n = self.n if self.n is not None else self.setup.suite.budgets[instance.task].n
        n = self.methods[method].samples(n)
        if self.budget is None:
            return await self._run(instance, method, n)
        if not self.budget.knows(instance.task, method):
            # Thrown away: its number of samples was not yet the one that makes tokens equal.
            self.budget.pilot(await self._run(instance, method, n))
        n = self.budget.samples(instance.task, method, n)
        row = await self._run(instance, method, n)
        self.budget.add(row)
        return row

    async def _run(self, instance: Instance, method: str, n: int) -> Row:
        # From the id, not the place: a part of the instances gives the same rows as all of them.
        key = hashlib.sha256(f"{self.seed}/{instance.id}".encode()).digest()
        seed = int.from_bytes(key[:4], "big")
        begun = time.monotonic()
        samples: tuple[Sample, ...] = ()
        outcome: Outcome | None = None
        error: Exception | None = None
        try:
            if self.fresh:
                # What a cache holds changes the batches' shapes, and with them the last digits of
                # logits.
                await on_follower(_forget(self.setup.follower))
            outcome = await self.methods[method].run(self.setup, instance, n, seed)
            seconds = time.monotonic() - begun
            samples = await _verified(self.setup, instance, outcome)
        except Exception as failure:  # one instance's failure is a row, never the evaluation's end
            if isinstance(failure, LimitExceeded) and failure.kind == "cost":
                raise  # there is no money for the next one either: --resume goes on, with more
            seconds = time.monotonic() - begun
            error = failure
        spent = _spent(outcome, error)
        return Row(
            id=instance.id,
            task=instance.task,
            method=method,
            n=n,
            seed=seed,
            seconds=round(seconds, 3),
            samples=samples,
            pass_at_1=pass_at_1([s.log_weight for s in samples], [s.passed for s in samples]),
            attempts=spent.attempts,
            error=None if error is None else _described(error),
            program_hash=outcome.program_hash if outcome is not None else None,
            usage=asdict(spent.usage) if spent.usage is not None else {},
            cost=spent.cost,
        )


@dataclass(frozen=True)
class _Spent:
    """What a run cost, as far as that is known."""

    attempts: tuple[dict[str, Any], ...] = ()
    usage: Usage | None = None
    cost: float | None = None


def _spent(outcome: Outcome | None, error: Exception | None) -> _Spent:
    if outcome is not None:  # with an error, too: the samples could not be verified
        return _Spent(outcome.attempts, outcome.usage, outcome.cost)
    if isinstance(error, DiscipleError):
        return _Spent(tuple(map(asdict, error.attempts)), error.usage, error.cost)
    return _Spent()


async def _forget(follower: BaseFollower) -> None:
    """Have a run give the same numbers, to the last digit, whatever ran before it."""
    follower.forget()


async def _verified(setup: Setup, instance: Instance, outcome: Outcome) -> tuple[Sample, ...]:
    """The samples with the ground truth's verdicts, and scored under the common prior."""
    samples = outcome.samples
    if outcome.unscored:
        prompt = setup.suite.budgets[instance.task].prior_prompt
        scored = await score_texts(setup.follower, [(prompt, s.text) for s in samples])
        samples = tuple(
            replace(sample, log_prob=sum(token.log_prob for token in tokens))
            for sample, tokens in zip(samples, scored, strict=True)
        )
    # Each text once: copies are many after resampling, and verdicts may be slow.
    texts = dict.fromkeys(s.text for s in samples if s.finish_reason not in NO_ANSWER)
    verdicts = {text: setup.suite.verify(instance, text) for text in texts}
    return tuple(
        replace(s, passed=s.finish_reason not in NO_ANSWER and verdicts[s.text]) for s in samples
    )


def _described(error: Exception) -> dict[str, str]:
    kind = type(error).__name__
    return {
        # Marked, so that a bug of ours is not counted among the programs' errors.
        "type": kind if isinstance(error, DiscipleError) else f"internal: {kind}",
        "message": str(error),
    }
