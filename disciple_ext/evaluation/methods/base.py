"""What a method of an evaluation is: what it is given, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ...planner.base import Planner
from ...planner.purse import Purse
from ...protocol.measure import PLAIN, BaseMeasure
from ...records.result import Usage
from ...records.task import Limits
from ...registry.plugins import Registry
from ..logs.log import Sample
from ..suites.base import Instance, Suite

__all__ = ["NO_ANSWER", "Setup", "Method", "Outcome"]

NO_ANSWER = ("refused", "no_answer")
"""How a sample ends that holds no text to verify; the empty text may be right somewhere."""


@dataclass(frozen=True)
class Setup:
    """What every run of an evaluation shares.

    Attributes:
        suite: the tasks.
        registry: what plugins registered.
        planner: writes programs, or answers itself.
        follower: the loaded follower.
        timeout: seconds for a run, or None for the suite's.
        purse: money for the planner's calls, or None for no limit.
        measure: the base measure of the follower's texts.
    """

    suite: Suite
    registry: Registry
    planner: Planner
    follower: Any
    timeout: float | None = None
    purse: Purse | None = None
    measure: BaseMeasure = PLAIN

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

    async def run(self, setup: Setup, instance: Instance, n: int, seed: int) -> Outcome:
        """Run it.

        Raises:
            DiscipleError: it failed, with ``usage`` and ``cost``.
        """
        ...
