"""``disciple bench engine``: what is measured, and in which order.

Implementations take turns within each repeat, so that a machine that grows slower or faster does
so for all of them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..demo import DEMO
from ..errors import UsageError
from .cases import CASES, HINT_EVERY, Cell
from .log import Log, Measurement
from .measure import IMPLEMENTATIONS, METRICS, Bench
from .memory import peak_megabytes
from .synthetic import MODELS, REAL, load

__all__ = ["GPU", "QUICK", "Job", "Selection", "plan", "run"]

_SLOW = ("stock", "tuned")
_SLOW_REPEATS = 3
_SLOW_TOKENS_128K = 8
_OURS_ALONE = ("ours", "sandbox", "floor")
_SWEPT = ("ours", "loop", "loop-shared", "floor")
_SWEEP_N = (1, 2, 4, 8, 16, 32, 64, 128)
_SWEEP_T = (16, 32, 64, 128, 256)
_SWEEP_T_N = 8
_STOCK_SWEEP_T = (16, 32, 64)


@dataclass(frozen=True)
class Selection:
    """What to measure.

    Attributes:
        cases: letters of the cases.
        models: names of the models; (d) has those of them that write real texts, or else the
            embedded one.
        n: numbers of particles for all cases but (d), whose tasks say.
        tokens: tokens for each particle.
        implementations: who writes.
        repeats: measurements of each kind; stock and tuned have at most 3, with SmolLM2 one.
        metrics: ``"cpu"``, ``"wall"`` and ``"memory"``.
        tasks: types of the tasks in (d).
        sweeps: whether to sweep over N and T, too (case (b), 32k).
        stock_everywhere: stock and tuned at every N; else at N = 32, and at 32k.
        device: torch device.
        level: the sandbox level, or None for the strongest to be had.
    """

    cases: Sequence[str] = tuple(CASES)
    models: Sequence[str] = ("embedded", "smollm2", "8k", "32k", "128k")
    n: Sequence[int] = (8, 32, 128)
    tokens: int = 32
    implementations: Sequence[str] = tuple(IMPLEMENTATIONS)
    repeats: int = 5
    metrics: Sequence[str] = (*METRICS, "memory")
    tasks: Sequence[str] = tuple(task.type for task in DEMO)
    sweeps: bool = True
    stock_everywhere: bool = False
    device: str = "cpu"
    level: str | None = None

    def __post_init__(self) -> None:
        for given, known, what in (
            (self.cases, CASES, "case"),
            (self.models, MODELS, "model"),
            (self.implementations, IMPLEMENTATIONS, "implementation"),
            (self.metrics, (*METRICS, "memory"), "metric"),
        ):
            for name in given:
                if name not in known:
                    raise UsageError(f"there is no {what} {name!r}; one of {', '.join(known)}")
        if min(self.n, default=1) < 1 or self.tokens < 1 or self.repeats < 1:
            raise UsageError("particles, tokens and repeats must be at least 1 each")


QUICK = Selection(
    cases=("a", "b", "c", "d", "e"),
    models=("32k",),
    n=(8,),
    tokens=12,
    repeats=1,
    metrics=("cpu",),
    tasks=("sent_01",),
    sweeps=False,
)
"""About two minutes, and of use on a busy machine, too: CPU seconds only."""

GPU = Selection(
    cases=("a", "b", "c"),
    models=("llama-1b",),
    n=(32, 128, 512),
    tokens=64,
    implementations=("ours", "sandbox", "loop", "loop-shared", "floor"),
    metrics=("wall",),
    sweeps=False,
    device="cuda",
)
"""For ``--device cuda``."""


@dataclass(frozen=True)
class Job:
    """A cell, and how often each implementation is measured on it.

    Attributes:
        cell: what is written.
        repeats: by implementation.
        memory: whether peak memory is measured, too.
    """

    cell: Cell
    repeats: dict[str, int]
    memory: bool = True

    def cell_of(self, implementation: str) -> Cell:
        """The cell as this implementation runs it: stock writes fewer tokens at 128k."""
        if implementation in _SLOW and self.cell.model == "128k":
            least = HINT_EVERY + 2 if self.cell.case == "e" else _SLOW_TOKENS_128K
            return replace(self.cell, tokens=min(self.cell.tokens, least))
        return self.cell


def plan(selection: Selection) -> list[Job]:
    """Everything that is to be measured, one model after the other."""
    found: dict[Cell, Job] = {}
    for job in _jobs(selection):
        known = found.get(job.cell)
        if known is not None:  # a place of a sweep that the table has, too
            job = Job(job.cell, job.repeats | known.repeats, known.memory)
        found[job.cell] = job
    # A model is loaded once; a sort keeps the order of its cells.
    return sorted(found.values(), key=lambda job: MODELS.index(job.cell.model))


def _jobs(s: Selection) -> Iterator[Job]:
    memory = "memory" in s.metrics

    def repeats(chosen: Sequence[str], model: str = "") -> dict[str, int]:
        slow = 1 if model == "smollm2" else _SLOW_REPEATS
        return {
            name: min(s.repeats, slow) if name in _SLOW else s.repeats
            for name in s.implementations
            if name in chosen
        }

    for model in s.models:
        for case in s.cases:
            for n in s.n if case != "d" else ():
                # Stock is so slow that all of its cells would take longer than everything else.
                stock = s.stock_everywhere or n == 32 or model == "32k"
                chosen = [i for i in IMPLEMENTATIONS if stock or i not in _SLOW]
                yield Job(Cell(case, model, n, s.tokens), repeats(chosen, model), memory)
    if "d" in s.cases:
        for task in DEMO:
            if task.type in s.tasks:
                for model in [m for m in s.models if m in REAL] or REAL[:1]:
                    cell = Cell(f"d:{task.type}", model, task.n, 0)
                    yield Job(cell, repeats(_OURS_ALONE), memory)
    if s.sweeps:
        for n in _SWEEP_N:
            names = [*_SWEPT, *(_SLOW if n == 1 else ())]
            yield Job(Cell("b", "32k", n, s.tokens), repeats(names), False)
        for tokens in _SWEEP_T:
            names = [*_SWEPT, *(_SLOW if tokens in _STOCK_SWEEP_T else ())]
            yield Job(Cell("b", "32k", _SWEEP_T_N, tokens), repeats(names), False)


def run(
    selection: Selection,
    out: Path | None = None,
    on_row: Callable[[Measurement, int, int], None] = lambda row, done, total: None,
) -> list[Measurement]:
    """Measure what is selected and not yet in the log.

    Args:
        selection: what to measure.
        out: directory of the log, or None for none.
        on_row: called after each measurement, with it, the number done and the number in all.

    Returns:
        Every measurement of the log.

    Raises:
        DiscipleError: ours and stock do not agree, or a run failed.
        UsageError: the log cannot be used.
    """
    log = Log(out, selection.device)
    wanted = [m for job in plan(selection) for m in _measurements(job, selection)]
    missing = [m for m in wanted if m not in log.rows]
    bench: Bench | None = None
    warm: set[tuple[str, Cell]] = set()
    for done, (cell, implementation, metric, repeat) in enumerate(missing, 1):
        facts: dict[str, int] = {}
        if metric == "memory":
            value = peak_megabytes(implementation, cell, selection.level)
        else:
            if bench is None or bench.model != cell.model:
                bench, warm = None, set()
                # Two models at a time might not fit, and their memory would show in the figures.
                load.cache_clear()
                gc.collect()
                bench = Bench(cell.model, device=selection.device, level=selection.level)
                # The tolerance is for float32; on a GPU the models are in bfloat16.
                if selection.device == "cpu":
                    bench.check()
            # The first run pays for compiled kernels, masks and allocations that all later ones
            # share.
            if (implementation, cell) not in warm:
                bench.warm_up(implementation, cell)
                warm.add((implementation, cell))
            value = bench.measure(implementation, cell, metric, repeat)
            if implementation == "ours":
                used = bench.ours.usage
                facts = {
                    "rows": bench.rows,
                    "passes": used.forwards,
                    "written": used.follower_tokens,
                }
        row = Measurement(
            cell.case,
            cell.model,
            cell.n,
            cell.tokens,
            implementation,
            metric,
            repeat,
            None if value is None else round(value, 5),
            **facts,
        )
        log.add(row)
        on_row(row, done, len(missing))
    return list(log.rows.values())


def _measurements(job: Job, selection: Selection) -> Iterator[tuple[Cell, str, str, int]]:
    """The measurements of a job: in each repeat, all implementations one after the other."""
    for repeat in range(max(job.repeats.values(), default=0)):
        for metric in METRICS:
            if metric in selection.metrics:
                for name, repeats in job.repeats.items():
                    if repeat < repeats:
                        yield job.cell_of(name), name, metric, repeat
    if job.memory:
        for name in job.repeats:
            if name != "floor":  # it needs a run of ours in its process
                yield job.cell_of(name), name, "memory", 0
