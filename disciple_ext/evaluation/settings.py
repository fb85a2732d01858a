"""What an evaluation was asked to do: checked, applied to the data, and kept in ``run.json``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import UsageError
from .logs.log import Row
from .logs.model_size import size_of
from .logs.provenance import data_hash, versions, weights_hash
from .methods.base import Method, Setup
from .methods.chat import chat_of
from .methods.registered import asks_planner
from .suites.base import Instance, Suite

__all__ = ["Settings", "described"]


@dataclass(frozen=True)
class Settings:
    """The arguments of :func:`~disciple_ext.evaluation.run.evaluate` that say what to run.

    Attributes:
        methods: specs, as they are named in the log.
        tasks: task types, or None for all of the suite's.
        limit: instances of each type, or None for all.
        n: samples, or None for the suite's.
        seed: seed of the evaluation.
        timeout: seconds for a run, or None for the suite's.
        concurrency: runs at a time.
        equal_tokens: whether the first method's tokens are every method's budget.
        shard: ``(i, k)`` for the i-th of k parts, or None.
    """

    methods: tuple[str, ...]
    tasks: tuple[str, ...] | None
    limit: int | None
    n: int | None
    seed: int
    timeout: float | None
    concurrency: int
    equal_tokens: bool
    shard: tuple[int, int] | None

    def check(self, suite: Suite) -> None:
        """Refuse numbers out of range, no method, and tasks that the suite lacks.

        Raises:
            UsageError: with what is wrong.
        """
        numbers = {"limit": self.limit, "n": self.n, "concurrency": self.concurrency}
        for name, value in numbers.items():
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}")
        if self.shard is not None and not 1 <= self.shard[0] <= self.shard[1]:
            raise UsageError(f"a shard is one of 1/k to k/k, not {self.shard[0]}/{self.shard[1]}")
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise UsageError("name at least one method, and each of them once")
        for task in self.tasks or ():
            if task not in suite.budgets:
                raise UsageError(f"unknown task {task!r}; there are: {', '.join(suite.budgets)}")

    def check_methods(self, methods: Iterable[tuple[str, Method]], planner: Any) -> None:
        """Refuse methods that the planner cannot serve, or whose tokens cannot be made equal.

        Raises:
            UsageError: with what is wrong.
        """
        asking = [spec for spec, method in methods if asks_planner(method)]
        # A planner that needs a follower has no chat before it is bound: asked later.
        if asking and not planner.needs_follower:
            chat_of(planner)
        if self.equal_tokens and (self.concurrency > 1 or self.shard):
            raise UsageError(
                "equal tokens are measured one run at a time, over all instances: leave "
                "concurrency at 1, and shards out"
            )
        if self.equal_tokens and asking:
            raise UsageError(f"equal tokens are the follower's, and {asking[0]!r} has none")

    def chosen(self, instances: Sequence[Instance]) -> list[Instance]:
        """The instances to run; a shard is a part of all of them, whatever tasks and limit say."""
        part, parts = self.shard or (1, 1)
        taken: dict[str, int] = {}
        chosen = []
        for place, instance in enumerate(instances):
            # Counted for all shards alike: a limit means the same instances, whoever runs them.
            number = taken[instance.task] = taken.get(instance.task, 0) + 1
            wanted = self.tasks is None or instance.task in self.tasks
            if wanted and (self.limit is None or number <= self.limit):
                if place % parts == part - 1:
                    chosen.append(instance)
        return chosen

    def pairs(
        self, instances: Sequence[Instance], earlier: Iterable[Row]
    ) -> list[tuple[Instance, str]]:
        """Every instance and method of which the log has no row yet."""
        done = {(row.id, row.method) for row in earlier}
        chosen = self.chosen(instances)
        return [(i, m) for i in chosen for m in self.methods if (i.id, m) not in done]


def described(settings: Settings, setup: Setup, instances: Sequence[Instance]) -> dict[str, Any]:
    """What ``run.json`` says of an evaluation: all that its rows depend on."""
    suite, follower, n, timeout = setup.suite, setup.follower, settings.n, settings.timeout
    budgets = {budget.level: budget for budget in suite.budgets.values()}
    return {
        "schema": 1,
        "suite": suite.name,
        "command": sys.argv,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(),
        "n": n if n is not None else {name: b.n for name, b in budgets.items()},
        "seed": settings.seed,
        "timeout": timeout if timeout is not None else {k: b.timeout for k, b in budgets.items()},
        "planner": setup.planner.name,
        "examples": setup.planner.examples,
        "follower": follower.name,
        "measure": setup.measure.to_dict(),
        "weights": weights_hash(follower),
        "model": asdict(size_of(follower)),
        "data": data_hash(instances),
        **suite.settings,
        # Names those that a log cannot mix, for `mismatch` to compare when the log goes on.
        "settings": sorted(suite.settings),
        "methods": list(settings.methods),
        "tasks": list(settings.tasks) if settings.tasks is not None else list(suite.budgets),
        "limit": settings.limit,
        "shard": None if settings.shard is None else "{}/{}".format(*settings.shard),
        "concurrency": settings.concurrency,
        "equal_tokens": settings.methods[0] if settings.equal_tokens else None,
    }
