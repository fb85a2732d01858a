"""One measurement: an implementation writes a cell's text once."""

from __future__ import annotations

import gc
import os
import resource
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch

from ..errors import UsageError
from .agreement import check_agreement
from .cases import Cell
from .loop import Loop
from .ours import Ours, Recording
from .sandbox import children
from .stock import Stock
from .synthetic import load

__all__ = ["IMPLEMENTATIONS", "METRICS", "Bench"]

IMPLEMENTATIONS = {
    "ours": "disciple-ext in process (sandbox level none)",
    "sandbox": "disciple-ext through the sandbox",
    "stock": "LLaMPPL over genlm-backend as they are",
    "tuned": "the same with cached prompts, batches of N and a timer of 0.5 ms",
    "loop": "a bare Hugging Face loop, the prompt evaluated in every row as generate does",
    "loop-shared": "the same with the prompt evaluated once",
    "floor": "the forward passes of ours alone",
}
METRICS = {"cpu": 1, "wall": 2}
"""What is measured, in seconds, and the number of threads it is measured with."""


class Bench:
    """All implementations on one model.

    Attributes:
        rows: contexts that the last run of ours evaluated.
    """

    def __init__(self, model: str, *, device: str = "cpu", level: str | None = None) -> None:
        """Load a model.

        Args:
            model: its name.
            device: torch device.
            level: the sandbox level, or None for the strongest to be had.
        """
        self.model = model
        self.loaded = load(model, device)
        self.rows = 0
        self._level = level
        self._recording: Recording = []
        self._recorded_as: tuple[Cell, str, int] | None = None

    @cached_property
    def ours(self) -> Ours:
        """Ours."""
        return Ours(self.loaded)

    @cached_property
    def stock(self) -> Stock:
        """LLaMPPL."""
        return Stock(self.loaded, self.ours.follower.vocabulary)

    @cached_property
    def loop(self) -> Loop:
        """The bare loop."""
        return Loop(self.loaded, self.ours.follower.vocabulary)

    def check(self) -> float:
        """Whether ours and stock agree in float32; see :func:`check_agreement`."""
        model = self.loaded.model
        dtype = model.dtype
        if dtype == torch.float32:
            return check_agreement(self.ours.follower, self.stock)
        try:
            # There and back without loss: every bfloat16 is a float32.
            model.float()
            ours = Ours(self.loaded)
            return check_agreement(ours.follower, Stock(self.loaded, ours.follower.vocabulary))
        finally:
            model.to(dtype)

    def warm_up(self, implementation: str, cell: Cell) -> None:
        """Run once without a clock: the whole cell with what is ours, a few tokens else."""
        # With a prompt of its own, so that the measured run finds nothing in a cache.
        run = run_number(cell, implementation, "warm", 0)
        if implementation in ("stock", "tuned", "loop", "loop-shared"):
            cell = replace(cell, n=2, tokens=min(2, cell.tokens))
        if implementation == "floor":
            self.ours.replay(self.ours.run(cell, run, "none"))
        else:
            self._run(implementation, cell, run)()

    def measure(self, implementation: str, cell: Cell, metric: str, repeat: int) -> float:
        """Seconds that an implementation needs for a cell.

        Args:
            implementation: one of :data:`IMPLEMENTATIONS`.
            cell: what to run.
            metric: ``"cpu"`` (of all processes, one thread) or ``"wall"`` (two threads).
            repeat: number of the repeat, from 0.
        """
        self.ours.threads(METRICS[metric])
        run = run_number(cell, implementation, metric, repeat)
        if implementation == "floor" and self._recorded_as != (cell, metric, repeat):
            # That run of ours was measured another day, or is not wanted: make one like it.
            self._recording = self.ours.run(cell, run, "none")
        action = self._run(implementation, cell, run)
        # Before the clock: what earlier runs have left must not be collected in this one.
        gc.collect()
        clock = _cpu_seconds if metric == "cpu" else time.perf_counter
        begun = clock()
        action()
        seconds = clock() - begun
        if implementation == "ours":
            self._recorded_as = (cell, metric, repeat)
        return seconds

    def _run(self, implementation: str, cell: Cell, run: int) -> Callable[[], object]:
        """What to time; everything that it needs is loaded."""
        if implementation == "ours":
            ours = self.ours

            def in_process() -> None:
                self._recording = ours.run(cell, run, "none")
                self.rows = sum(len(args[0]) for _, args, _ in self._recording)

            return in_process
        if implementation == "sandbox":
            ours = self.ours
            return lambda: ours.run(cell, run, self._level)
        if implementation == "floor":
            self.ours.prepare()
            return lambda: self.ours.replay(self._recording)
        if implementation in ("stock", "tuned"):
            stock = self.stock
            return lambda: stock.run(cell, run, tuned=implementation == "tuned")
        if implementation in ("loop", "loop-shared"):
            loop = self.loop
            return lambda: loop.run(cell, run, shared=implementation == "loop-shared")
        raise UsageError(
            f"there is no implementation {implementation!r}; one of {', '.join(IMPLEMENTATIONS)}"
        )


def run_number(cell: Cell, implementation: str, metric: str, repeat: int) -> int:
    """A number from 0 to 999999 for a run: its seed, and the mark of its prompts."""
    key = (cell.case, cell.model, cell.n, cell.tokens, implementation, metric, repeat)
    # crc32 and not hash(), which Python salts anew in each process.
    return zlib.crc32(repr(key).encode()) % 1_000_000


def _cpu_seconds() -> float:
    """CPU seconds of this process and of the sandbox's, ended workers included."""
    time.sleep(0.05)  # until the zygote has seen the end of its workers
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    alive = sum(map(_tree_seconds, children("self")))
    return time.process_time() + ended.ru_utime + ended.ru_stime + alive


def _tree_seconds(pid: str) -> float:
    try:
        # From the last bracket: the process's name before it may hold blanks and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # no such system, or the process has ended meanwhile
        return 0.0
    ticks = sum(int(x) for x in fields[11:15])  # user and system time, its own and its children's
    return ticks / _TICKS + sum(map(_tree_seconds, children(pid)))


_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
"""Ticks of the kernel's process clock in a second."""
