"""Run methods on a suite, and log every run the moment it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import PluginError, UsageError
from ..follower import from_loaded
from ..planner.base import PlannerLike, as_planner
from ..planner.purse import Purse
from ..protocol.adapters import measured
from ..protocol.measure import BaseMeasure
from ..registry.plugins import load_plugins
from ..run.setting import chosen_measure
from .concurrency import each
from .logs.follower import follower_spec
from .logs.log import RESULTS, LogWriter, Row, read_log, read_run, write_run
from .logs.provenance import mismatch
from .methods.base import Setup
from .methods.budget import EqualTokens
from .methods.registered import FOLLOWER_ONLY, method_of
from .one_run import Runs
from .settings import Settings, described
from .suites.base import Instance, Suite

__all__ = ["FOLLOWER_ONLY", "Progress", "evaluate"]

Progress = Callable[[Row, int, int], None]
"""Called after each run with its row, the number of runs done and of runs in all."""


# Its arguments and what they mean take most of its lines; the work is in the functions below.
def evaluate(
    methods: Sequence[str] = ("smc", "is", "rs", FOLLOWER_ONLY),
    *,
    out: str | Path,
    suite: str | Suite = "collie",
    data: str | Path | None = None,
    tasks: Sequence[str] | None = None,
    limit: int | None = None,
    n: int | None = None,
    seed: int = 0,
    timeout: float | None = None,
    resume: bool = False,
    follower: Any = None,
    measure: BaseMeasure | Mapping[str, Any] | None = None,
    planner: str | PlannerLike = "expert",
    max_cost: float | None = None,
    concurrency: int = 1,
    equal_tokens: bool = False,
    shard: tuple[int, int] | None = None,
    on_progress: Progress | None = None,
) -> list[Row]:
    """Run methods on a suite's instances, into the log of a directory.

    Each run's seed comes from ``seed`` and the instance's id, so that a part of the instances
    gives the same rows as all of them. An error that ends a run is logged with its type, and the
    next run goes on. Interrupted, the log holds every run that had ended.

    Args:
        methods: samplers' specs (the planner's program is run with them), ``follower`` (the
            follower alone on the task's prompt), ``beam`` (its stochastic beam search),
            ``planner``, ``cot`` and ``reasoning`` (the planner's chat model is asked for the
            text). A spec with options is logged as it is given.
        out: directory of ``results.jsonl`` and ``run.json``.
        suite: a suite, or the name of a registered one.
        data: where the suite's instances are; for COLLIE what ``DISCIPLE_COLLIE`` names where it
            is None.
        tasks: task types; all of the suite's where it is None.
        limit: instances of each type, from the first.
        n: samples; the suite's (the paper's 32, 8 and 16) where it is None.
        seed: seed of the evaluation.
        timeout: seconds for a run of a program; the suite's (120, 240 and 360) where it is None.
        resume: go on with a log: what it holds is not run again.
        follower: a spec, or a loaded follower. None is that of the log that goes on, else the
            default of :func:`~disciple_ext.self_steer`.
        measure: the base measure of all methods that the follower writes for, or what it has other
            than the follower's own (see :func:`~disciple_ext.self_steer`). ``log_prob`` of the
            methods without a program is under the model as it is.
        planner: a planner's spec, or a planner.
        max_cost: US dollars that the planner's calls may cost in all runs of this call together;
            before the call that may exceed it the evaluation ends, and can be resumed.
        concurrency: runs at a time; they share the follower's batches.
        equal_tokens: the first method takes ``n`` samples, and each other as many as take as many
            follower tokens on instances of the same type (by what it took so far; a first run
            that only measures is thrown away).
        shard: ``(i, k)`` for the i-th of k parts, from 1: every k-th instance of the suite.
            :func:`~disciple_ext.evaluation.many.merge.merge` makes one log of all parts.
        on_progress: called after each run.

    Returns:
        Every row of the log, those of earlier calls included.

    Raises:
        UsageError: a method, one of its options, a suite, task, planner or follower is unknown, the
            planner is no chat model and has to be asked for a text, a number
            is out of range, or there is a log already and ``resume`` is not set.
        EvaluationError: data or log cannot be used, or the log was made with other settings.
        FollowerError: the follower cannot be loaded.
        PluginError: what a plugin registered as a suite is none.
        LimitExceeded: the next call of the planner may cost more than is left.
    """
    out = Path(out)
    settings = Settings(
        methods=tuple(methods),
        tasks=None if tasks is None else tuple(tasks),
        limit=limit,
        n=n,
        seed=seed,
        timeout=timeout,
        concurrency=concurrency,
        equal_tokens=equal_tokens,
        shard=shard,
    )
    registry = load_plugins()
    if isinstance(suite, str):
        suite = _made_suite(registry.make("suites", suite), suite)
    settings.check(suite)
    ways = {spec: method_of(spec, registry) for spec in methods}
    instances = suite.instances(data)
    # Before planner and follower are made: a log that is there should be refused at once.
    earlier = _earlier(out, resume)
    writer = as_planner(registry.make("planners", planner) if isinstance(planner, str) else planner)
    settings.check_methods(ways.items(), writer)
    if follower is None or isinstance(follower, str):
        follower = registry.make("followers", follower_spec(follower, out, resume=resume))
    loaded = from_loaded(follower)
    purse = Purse(max_cost) if max_cost is not None else None
    under = chosen_measure(loaded, measure)
    measured(loaded, under)  # refused before anything runs
    setup = Setup(suite, registry, writer, loaded, timeout, purse, under)
    budget = EqualTokens(methods[0], earlier) if equal_tokens else None
    # Before the first run, so that even an interrupted log says what it was made with.
    _describe(out, described(settings, setup, instances), goes_on=bool(earlier) or resume)
    # Runs side by side share the follower's cache: to forget would take it from under the others.
    runs = Runs(setup, ways, n, seed, budget, fresh=concurrency == 1)
    _run_all(runs, settings.pairs(instances, earlier), out, concurrency, on_progress)
    return read_log(out)


def _run_all(
    runs: Runs,
    pairs: Sequence[tuple[Instance, str]],
    out: Path,
    concurrency: int,
    on_progress: Progress | None,
) -> None:
    """Run every pair of an instance and a method; each row is logged as soon as it is there."""
    log = LogWriter(out)
    finished = 0

    async def run(pair: tuple[Instance, str]) -> None:
        nonlocal finished
        row = await runs.row(*pair)
        log.append(row)
        finished += 1
        if on_progress is not None:
            on_progress(row, finished, len(pairs))

    try:
        asyncio.run(each(pairs, run, concurrency))
    finally:
        log.close()


def _describe(out: Path, about: dict[str, Any], *, goes_on: bool) -> None:
    """Write ``run.json``; what it said before is kept in it.

    Raises:
        EvaluationError: the log that goes on was made with other settings.
    """
    before = read_run(out) if goes_on else None
    if before is not None:
        mismatch(before, about, out)
        about["earlier"] = [*before.pop("earlier", []), before]
    write_run(out, about)


def _made_suite(made: Any, name: str) -> Suite:
    if not isinstance(made, Suite):
        raise PluginError(
            f"the plugin's factory of {name!r} makes no suite but a {type(made).__name__}: see "
            "disciple_ext.evaluation.suites.base.Suite"
        )
    return made


def _earlier(out: Path, resume: bool) -> list[Row]:
    """The rows that the log holds already."""
    path = out / RESULTS
    if not path.exists() or not path.stat().st_size:
        return []
    if not resume:
        raise UsageError(
            f"there is a log in {out} already; go on with it (--resume), or name another directory"
        )
    return read_log(out)
