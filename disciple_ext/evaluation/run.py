"""Run methods on a suite, and log every run the moment it ends."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import DiscipleError, LimitExceeded, PluginError, UsageError
from ..follower import from_loaded
from ..planner.base import Planner
from ..planner.purse import Purse
from ..protocol.follower import BaseFollower
from ..registry.plugins import load_plugins
from .concurrency import each
from .logs.log import RESULTS, LogWriter, Row, Sample, read_log, read_run, write_run
from .logs.model_size import size_of
from .logs.provenance import data_hash, mismatch, versions, weights_hash
from .methods.asking import chat_of
from .methods.base import NO_ANSWER, Bench, Method, Outcome
from .methods.budget import EqualTokens
from .methods.registered import FOLLOWER_ONLY, asks_planner, method_of
from .methods.scoring import on_follower, score_texts
from .scores.metrics import pass_at_1
from .suites.base import Instance, Suite

__all__ = ["FOLLOWER_ONLY", "Progress", "evaluate"]

Progress = Callable[[Row, int, int], None]
"""Called after each run with its row, the number of runs done and of runs in all."""


@dataclass(frozen=True)
class _Plan:
    """How many samples each run takes, and from which seed.

    Attributes:
        methods: by the spec that names them in the log.
        n: samples, or None for the suite's.
        seed: seed of the evaluation.
        budget: what makes tokens equal, or None.
        fresh: whether each run begins with a follower that remembers nothing.
    """

    methods: Mapping[str, Method]
    n: int | None
    seed: int
    budget: EqualTokens | None
    fresh: bool


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
    follower: Any = "embedded",
    planner: str | Planner = "expert",
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
        follower: a spec, or a loaded follower.
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
    registry = load_plugins()
    if isinstance(suite, str):
        suite = _made_suite(registry.make("suites", suite), suite)
    _usable(methods, tasks, suite, shard, limit=limit, n=n, concurrency=concurrency)
    ways = {spec: method_of(spec, registry) for spec in methods}
    everything = suite.instances(data)
    earlier = _earlier(out, resume)
    done = {(row.id, row.method) for row in earlier}
    writer: Planner = registry.make("planners", planner) if isinstance(planner, str) else planner
    asking = [spec for spec, way in ways.items() if asks_planner(way)]
    if asking and not hasattr(writer, "bind"):
        chat_of(writer)
    if equal_tokens and (concurrency > 1 or shard):
        raise UsageError(
            "equal tokens are measured one run at a time, over all instances: leave concurrency "
            "at 1, and shards out"
        )
    if equal_tokens and asking:
        raise UsageError(f"equal tokens are the follower's, and {asking[0]!r} has none")
    loaded = registry.make("followers", follower) if isinstance(follower, str) else follower
    follower = from_loaded(loaded)
    purse = Purse(max_cost) if max_cost is not None else None
    bench = Bench(suite, registry, writer, follower, timeout, purse)
    budget = EqualTokens(methods[0], earlier) if equal_tokens else None
    budgets = {budget.level: budget for budget in suite.budgets.values()}
    about = {
        "schema": 1,
        "suite": suite.name,
        "command": sys.argv,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(),
        "n": n if n is not None else {name: b.n for name, b in budgets.items()},
        "seed": seed,
        "timeout": timeout if timeout is not None else {k: b.timeout for k, b in budgets.items()},
        "planner": writer.name,
        "examples": getattr(writer, "examples", None),
        "follower": follower.name,
        "weights": weights_hash(follower),
        "model": asdict(size_of(follower)),
        "data": data_hash(everything),
        **suite.settings,
        "settings": sorted(suite.settings),
        "methods": list(methods),
        "tasks": list(tasks) if tasks is not None else list(suite.budgets),
        "limit": limit,
        "shard": None if shard is None else "{}/{}".format(*shard),
        "concurrency": concurrency,
        "equal_tokens": methods[0] if equal_tokens else None,
    }
    before = read_run(out) if done or resume else None
    if before is not None:
        mismatch(before, about, out)
        about["earlier"] = [*before.pop("earlier", []), before]
    write_run(out, about)
    chosen = _chosen(everything, tasks, limit, shard)
    todo = [(i, m) for i in chosen for m in methods if (i.id, m) not in done]
    plan = _Plan(ways, n, seed, budget, fresh=concurrency == 1)
    log = LogWriter(out)
    finished = 0

    async def run(pair: tuple[Instance, str]) -> None:
        nonlocal finished
        row = await _one(bench, plan, *pair)
        log.append(row)
        finished += 1
        if on_progress is not None:
            on_progress(row, finished, len(todo))

    try:
        asyncio.run(each(todo, run, concurrency))
    finally:
        log.close()
    return read_log(out)


def _made_suite(made: Any, name: str) -> Suite:
    if not isinstance(made, Suite):
        raise PluginError(
            f"the plugin's factory of {name!r} makes no suite but a {type(made).__name__}: see "
            "disciple_ext.evaluation.suites.base.Suite"
        )
    return made


def _usable(
    methods: Sequence[str],
    tasks: Sequence[str] | None,
    suite: Suite,
    shard: tuple[int, int] | None,
    **numbers: int | None,
) -> None:
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}")
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise UsageError(f"a shard is one of 1/k to k/k, not {shard[0]}/{shard[1]}")
    if not methods or len(set(methods)) < len(methods):
        raise UsageError("name at least one method, and each of them once")
    for task in tasks or ():
        if task not in suite.budgets:
            raise UsageError(f"unknown task {task!r}; there are: {', '.join(suite.budgets)}")


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


def _chosen(
    instances: Sequence[Instance],
    tasks: Sequence[str] | None,
    limit: int | None,
    shard: tuple[int, int] | None,
) -> list[Instance]:
    """The instances to run; a shard is a part of the whole data, whatever tasks and limit say."""
    part, parts = shard or (1, 1)
    taken: dict[str, int] = {}
    chosen = []
    for place, instance in enumerate(instances):
        number = taken[instance.task] = taken.get(instance.task, 0) + 1
        wanted = tasks is None or instance.task in tasks
        if wanted and (limit is None or number <= limit) and place % parts == part - 1:
            chosen.append(instance)
    return chosen


async def _one(bench: Bench, plan: _Plan, instance: Instance, method: str) -> Row:
    """One run, whatever becomes of it, with as many samples as it is to have."""
    n = plan.n if plan.n is not None else bench.suite.budgets[instance.task].n
    n, budget = plan.methods[method].samples(n), plan.budget
    if budget is None:
        return await _sampled(bench, plan, instance, method, n)
    if not budget.knows(instance.task, method):
        budget.pilot(await _sampled(bench, plan, instance, method, n))
    n = budget.samples(instance.task, method, n)
    row = await _sampled(bench, plan, instance, method, n)
    budget.add(row)
    return row


async def _sampled(bench: Bench, plan: _Plan, instance: Instance, method: str, n: int) -> Row:
    key = hashlib.sha256(f"{plan.seed}/{instance.id}".encode()).digest()
    seed = int.from_bytes(key[:4], "big")
    begun = time.monotonic()
    samples: tuple[Sample, ...] = ()
    outcome: Outcome | None = None
    error: Exception | None = None
    try:
        if plan.fresh:
            await on_follower(_forget(bench.follower))
        outcome = await plan.methods[method].run(bench, instance, n, seed)
        seconds = time.monotonic() - begun
        samples = await _judged(bench, instance, outcome)
    except Exception as failure:  # one instance's failure is a row, never the evaluation's end
        if isinstance(failure, LimitExceeded) and failure.kind == "cost":
            raise  # there is no money for the next one either: --resume goes on, with more
        seconds = time.monotonic() - begun
        error = failure
    spent: Any = outcome if outcome is not None else error
    usage = getattr(spent, "usage", None)
    tried = outcome.attempts if outcome is not None else map(asdict, getattr(error, "attempts", ()))
    return Row(
        id=instance.id,
        task=instance.task,
        method=method,
        n=n,
        seed=seed,
        seconds=round(seconds, 3),
        samples=samples,
        pass_at_1=pass_at_1([s.log_weight for s in samples], [s.passed for s in samples]),
        attempts=tuple(tried),
        error=None if error is None else _described(error),
        program_hash=outcome.program_hash if outcome is not None else None,
        usage=asdict(usage) if usage is not None else {},
        cost=getattr(spent, "cost", None),
    )


async def _forget(follower: BaseFollower) -> None:
    """Have a run give the same numbers, to the last digit, whatever ran before it."""
    follower.forget()


async def _judged(bench: Bench, instance: Instance, outcome: Outcome) -> tuple[Sample, ...]:
    """The samples with the ground truth's verdicts, and scored under the common prior."""
    samples = outcome.samples
    if outcome.unscored:
        prompt = bench.suite.budgets[instance.task].prior_prompt
        scored = await score_texts(bench.follower, [(prompt, s.text) for s in samples])
        samples = tuple(
            replace(sample, log_prob=sum(token.log_prob for token in tokens))
            for sample, tokens in zip(samples, scored, strict=True)
        )
    texts = dict.fromkeys(s.text for s in samples if s.finish_reason not in NO_ANSWER)
    verdicts = {text: bench.suite.verify(instance, text) for text in texts}
    return tuple(
        replace(s, passed=s.finish_reason not in NO_ANSWER and verdicts[s.text]) for s in samples
    )


def _described(error: Exception) -> dict[str, str]:
    kind = type(error).__name__
    return {
        "type": kind if isinstance(error, DiscipleError) else f"internal: {kind}",
        "message": str(error),
    }
