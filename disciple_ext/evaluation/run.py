"""Run methods on COLLIE, and log every run the moment it ends."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import DiscipleError, LimitExceeded, UsageError
from ..ledger import Purse
from ..planner.base import Planner
from ..plugins import Registry, load_plugins
from ..result import Result
from ..steer import arun_program, aself_steer
from ..task import Limits, Task
from .baselines import follower_program
from .budget import EqualTokens
from .collie import TASKS, TOKENIZER, Instance, load_instances, verify
from .log import RESULTS, LogWriter, Row, Sample, read_log, read_run, write_run
from .metrics import pass_at_1
from .provenance import data_hash, mismatch, versions, weights_hash
from .punkt import Splitter, default_splitter
from .scoring import prior_prompt, score_texts

__all__ = ["FOLLOWER_ONLY", "Progress", "evaluate"]

FOLLOWER_ONLY = "follower"
"""The method without a planner; every other method is a sampler's spec."""

# The paper's budgets, by the task's level.
PARTICLES = {"sent": 32, "para": 8}
TIMEOUTS = {"sent": 120.0, "para": 240.0}
FOLLOWER_TOKENS = {"sent": 32, "para": 128}

Progress = Callable[[Row, int, int], None]
"""Called after each run with its row, the number of runs done and of runs in all."""


@dataclass(frozen=True)
class _Bench:
    """What every run of an evaluation shares."""

    registry: Registry
    planner: Planner
    follower: Any
    splitter: Splitter
    n: int | None
    seed: int
    timeout: float | None
    budget: EqualTokens | None = None
    purse: Purse | None = None


def evaluate(
    methods: Sequence[str] = ("smc", "is", "rs", FOLLOWER_ONLY),
    *,
    out: str | Path,
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
    on_progress: Progress | None = None,
) -> list[Row]:
    """Run methods on COLLIE's instances, into the log of a directory.

    Each run's seed comes from ``seed`` and the instance's id, so that a part of the instances
    gives the same rows as all of them. An error that ends a run is logged with its type, and the
    next run goes on. Interrupted, the log holds every run that had ended.

    Args:
        methods: samplers' specs (the planner's program is run with them), or ``follower`` (the
            follower alone on the task's prompt, cut at 32 tokens for sentences, 128 for
            paragraphs). A spec with options is logged as it is given.
        out: directory of ``results.jsonl`` and ``run.json``.
        data: COLLIE's instances; what ``DISCIPLE_COLLIE`` names where it is None.
        tasks: task types; all nine where it is None.
        limit: instances of each type, from the first.
        n: samples; 32 for sentences and 8 for paragraphs where it is None.
        seed: seed of the evaluation.
        timeout: seconds for a run of a program; 120 for sentences and 240 for paragraphs where
            it is None.
        resume: go on with a log: what it holds is not run again.
        follower: a spec, or a loaded follower.
        planner: a planner's spec, or a planner.
        max_cost: US dollars that the planner's calls may cost in all runs of this call together;
            before the call that may exceed it the evaluation ends, and can be resumed.
        concurrency: runs at a time; they share the follower's batches.
        equal_tokens: the first method takes ``n`` samples, and each other as many as take as many
            follower tokens on instances of the same type (by what it took so far; a first run
            that only measures is thrown away).
        on_progress: called after each run.

    Returns:
        Every row of the log, those of earlier calls included.

    Raises:
        UsageError: a method, one of its options, a task, planner or follower is unknown, a number
            is out of range, or there is a log already and ``resume`` is not set.
        EvaluationError: data or log cannot be used, or the log was made with other settings.
        FollowerError: the follower cannot be loaded.
        LimitExceeded: the next call of the planner may cost more than is left.
    """
    out = Path(out)
    registry = load_plugins()
    _usable(methods, tasks, registry, limit=limit, n=n, concurrency=concurrency)
    everything = load_instances(data)
    earlier = _earlier(out, resume)
    done = {(row.id, row.method) for row in earlier}
    if equal_tokens and concurrency > 1:
        raise UsageError("equal tokens are measured one run at a time: leave concurrency at 1")
    budget = EqualTokens(methods[0], earlier) if equal_tokens else None
    if isinstance(follower, str):
        follower = registry.make("followers", follower)
    splitter = default_splitter()
    writer: Planner = registry.make("planners", planner) if isinstance(planner, str) else planner
    purse = Purse(max_cost) if max_cost is not None else None
    bench = _Bench(registry, writer, follower, splitter, n, seed, timeout, budget, purse)
    about = {
        "schema": 1,
        "command": sys.argv,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(),
        "n": n if n is not None else PARTICLES,
        "seed": seed,
        "timeout": timeout if timeout is not None else TIMEOUTS,
        "planner": writer.name,
        "follower": getattr(follower, "name", type(follower).__name__),
        "weights": weights_hash(follower),
        "data": data_hash(everything),
        "splitter": splitter.name,
        "tokenizer": TOKENIZER,
        "methods": list(methods),
        "tasks": list(tasks) if tasks is not None else list(TASKS),
        "limit": limit,
        "concurrency": concurrency,
        "equal_tokens": methods[0] if equal_tokens else None,
    }
    before = read_run(out) if done or resume else None
    if before is not None:
        mismatch(before, about, out)
        about["earlier"] = [*before.pop("earlier", []), before]
    write_run(out, about)
    chosen = _chosen(everything, tasks, limit)
    todo = [(i, m) for i in chosen for m in methods if (i.id, m) not in done]
    log = LogWriter(out)
    try:
        asyncio.run(_all(bench, todo, log, concurrency, on_progress))
    finally:
        log.close()
    return read_log(out)


def _usable(
    methods: Sequence[str], tasks: Sequence[str] | None, registry: Registry, **numbers: int | None
) -> None:
    known = [*sorted(registry.tables["samplers"]), FOLLOWER_ONLY]
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}")
    if not methods or len(set(methods)) < len(methods):
        raise UsageError("name at least one method, and each of them once")
    for method in methods:
        if method.partition(":")[0] not in known:
            raise UsageError(f"unknown method {method!r}; there are: {', '.join(known)}")
        if method.startswith(f"{FOLLOWER_ONLY}:"):
            raise UsageError(f"the method {FOLLOWER_ONLY!r} takes no options, but is {method!r}")
        if method != FOLLOWER_ONLY:
            registry.make("samplers", method)  # its options are refused before anything runs
    for task in tasks or ():
        if task not in TASKS:
            raise UsageError(f"unknown task {task!r}; there are: {', '.join(TASKS)}")


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
    instances: Sequence[Instance], tasks: Sequence[str] | None, limit: int | None
) -> list[Instance]:
    taken: dict[str, int] = {}
    chosen = []
    for instance in instances:
        number = taken[instance.task] = taken.get(instance.task, 0) + 1
        wanted = tasks is None or instance.task in tasks
        if wanted and (limit is None or number <= limit):
            chosen.append(instance)
    return chosen


async def _all(
    bench: _Bench,
    todo: Sequence[tuple[Instance, str]],
    log: LogWriter,
    concurrency: int,
    on_progress: Progress | None,
) -> None:
    """Run everything, ``concurrency`` runs at a time, started in order.

    Raises:
        LimitExceeded: the money is gone; what was under way has come to its end.
    """
    queue = iter(todo)
    done = 0
    poor: LimitExceeded | None = None

    async def worker() -> None:
        nonlocal done, poor
        for instance, method in queue:
            if poor is not None:
                return
            try:
                row = await _one(bench, instance, method)
            except LimitExceeded as error:
                poor = error
                return
            log.append(row)
            done += 1
            if on_progress is not None:
                on_progress(row, done, len(todo))

    workers = [asyncio.ensure_future(worker()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        for task in workers:
            task.cancel()
    if poor is not None:
        raise poor


async def _one(bench: _Bench, instance: Instance, method: str) -> Row:
    """One run, whatever becomes of it, with as many samples as it is to have."""
    n = bench.n if bench.n is not None else PARTICLES[instance.task.partition("_")[0]]
    if bench.budget is None:
        return await _sampled(bench, instance, method, n)
    if not bench.budget.knows(instance.task, method):
        bench.budget.pilot(await _sampled(bench, instance, method, n))
    n = bench.budget.samples(instance.task, method, n)
    row = await _sampled(bench, instance, method, n)
    bench.budget.add(row)
    return row


async def _sampled(bench: _Bench, instance: Instance, method: str, n: int) -> Row:
    level = instance.task.partition("_")[0]
    key = hashlib.sha256(f"{bench.seed}/{instance.id}".encode()).digest()
    seed = int.from_bytes(key[:4], "big")
    begun = time.monotonic()
    samples: tuple[Sample, ...] = ()
    result, error = None, None
    try:
        limits = Limits(timeout=bench.timeout if bench.timeout is not None else TIMEOUTS[level])
        task = Task(instance.prompt, n=n, limits=limits)
        result = await _run(bench, task, level, method, seed)
        seconds = time.monotonic() - begun
        samples = await _samples(bench, instance, result, alone=method == FOLLOWER_ONLY)
    except Exception as failure:  # one instance's failure is a row, never the evaluation's end
        if isinstance(failure, LimitExceeded) and failure.kind == "cost":
            raise  # there is no money for the next one either: --resume goes on, with more
        seconds = time.monotonic() - begun
        error = failure
    attempts = result.attempts if result is not None else getattr(error, "attempts", ())
    return Row(
        id=instance.id,
        task=instance.task,
        method=method,
        n=n,
        seed=seed,
        seconds=round(seconds, 3),
        samples=samples,
        pass_at_1=pass_at_1([s.log_weight for s in samples], [s.passed for s in samples]),
        attempts=tuple(asdict(attempt) for attempt in attempts),
        error=None if error is None else _described(error),
        program_hash=result.program.get("hash") if result is not None else None,
        usage=_usage(error if result is None else result),
        cost=getattr(error if result is None else result, "cost", None),
    )


async def _run(bench: _Bench, task: Task, level: str, method: str, seed: int) -> Result:
    if method == FOLLOWER_ONLY:
        return await arun_program(
            follower_program(FOLLOWER_TOKENS[level]),
            task,
            follower=bench.follower,
            sampler="is",
            seed=seed,
            registry=bench.registry,
        )
    return await aself_steer(
        task,
        planner=bench.planner,
        follower=bench.follower,
        sampler=method,
        seed=seed,
        max_cost=bench.purse,
        registry=bench.registry,
    )


async def _samples(
    bench: _Bench, instance: Instance, result: Result, *, alone: bool
) -> tuple[Sample, ...]:
    """The particles with the ground truth's verdicts; ``alone`` for the follower-only method."""
    texts = [p.text.strip() if alone else p.text for p in result.particles]
    log_probs = [p.log_prob for p in result.particles]
    if alone:  # it wrote under the task's prompt: score the texts under the common prior
        prompt = prior_prompt(instance.task)
        scored = await score_texts(bench.follower, [(prompt, text) for text in texts])
        log_probs = [sum(token.log_prob for token in tokens) for tokens in scored]
    verdicts = {
        text: verify(instance.task, instance.targets, text, splitter=bench.splitter)
        for text in dict.fromkeys(texts)
    }
    return tuple(
        Sample(
            text=text,
            log_weight=None if alone else p.log_weight,
            check=p.check,
            passed=verdicts[text],
            finish_reason=p.finish_reason,
            tokens=p.tokens,
            log_prob=log_prob,
        )
        for text, p, log_prob in zip(texts, result.particles, log_probs, strict=True)
    )


def _usage(outcome: Result | Exception | None) -> dict[str, int]:
    """What a run used, also where it ended in an error."""
    usage = getattr(outcome, "usage", None)
    return asdict(usage) if usage is not None else {}


def _described(error: Exception) -> dict[str, str]:
    kind = type(error).__name__
    return {
        "type": kind if isinstance(error, DiscipleError) else f"internal: {kind}",
        "message": str(error),
    }
