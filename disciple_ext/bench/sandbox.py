"""What the sandbox costs, against the same runs in this process (the level ``none``)."""

from __future__ import annotations

import gc
import math
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..follower.backend import Backend
from ..follower.host import HostFollower
from ..loop.steer import run_program, self_steer
from ..protocol.prefix import Prefix
from ..protocol.requests import Tokens
from ..protocol.vocabulary import Vocabulary
from ..records.task import Task

__all__ = ["Costs", "children", "measure"]

_TASK = "Please generate a sentence with exactly 82 characters."
_FOLLOWER = "embedded"
"""Named, so that the figures are the same model's on every machine."""
_BATCHES = 300
_TOKENS = 96

_LOCKSTEP = f"""
class InferenceModel(BaseModel):
    async def step(self):
        for _ in range({_BATCHES}):
            await self.next_token()
        self.finish()
"""


@dataclass(frozen=True)
class Costs:
    """What was measured.

    Attributes:
        ready_ms: milliseconds from the order to fork until a worker is locked: median, and the
            95th percentile.
        wall_ratio: median, over pairs of runs, of the seconds in the sandbox over those at
            ``none`` (SMC, N = 32, the embedded follower).
        wall_seconds: median seconds in the sandbox and at ``none``.
        batch_us: microseconds that the sandbox adds to a batch of 32 draws, with a follower that
            costs next to nothing on both sides.
        private_mb: megabytes of a worker that it shares with nobody, at most, in those runs; None
            where the system does not tell.
        zygote_s: seconds that the first run waits for the zygote.
    """

    ready_ms: tuple[float, float]
    wall_ratio: float
    wall_seconds: tuple[float, float]
    batch_us: float
    private_mb: float | None
    zygote_s: float


def measure(pairs: int = 9, level: str | None = None) -> Costs:
    """Measure on this machine; takes about a minute.

    Args:
        pairs: pairs of runs, in and out of the sandbox.
        level: the sandbox level, or None for the default.
    """
    # The follower is loaded, its code is warm.
    self_steer(_TASK, follower=_FOLLOWER, sandbox="none")
    gc.collect()
    gc.freeze()  # a full collection takes longer than what is measured, and strikes at random
    begun = time.monotonic()
    _seconds(_TASK, level)
    zygote = time.monotonic() - begun
    rows: list[tuple[float, float]] = []
    ready: list[float] = []
    with _PrivateMemory() as memory:
        for seed in range(pairs):
            # In turns and with the same seed: a machine that grows slower does so for both.
            options: dict[str, Any] = {"follower": _FOLLOWER, "n": 32, "seed": seed}
            inside = self_steer(_TASK, sandbox=level, **options).timings
            outside = self_steer(_TASK, sandbox="none", **options).timings
            rows.append((inside["inference"], outside["inference"]))
            ready.append(inside["ready"])
    # Short runs, for enough starts to speak of a 95th percentile.
    for seed in range(40):
        program = "class InferenceModel(BaseModel):\n    async def step(self): self.finish()"
        done = run_program(program, follower=_FOLLOWER, n=1, seed=seed, sandbox=level)
        ready.append(done.timings["ready"])
    return Costs(
        ready_ms=(1e3 * statistics.median(ready), 1e3 * _quantile(ready, 0.95)),
        wall_ratio=statistics.median(a / b for a, b in rows),
        wall_seconds=(statistics.median(a for a, _ in rows), statistics.median(b for _, b in rows)),
        batch_us=_batch_us(level, pairs),
        private_mb=memory.most,
        # The first run, less one that found the zygote there.
        zygote_s=zygote - rows[0][0],
    )


def _batch_us(level: str | None, pairs: int) -> float:
    follower = _flat()
    task = Task("nothing", n=32)
    options: dict[str, Any] = {"follower": follower, "sampler": "is"}
    run_program(_LOCKSTEP, task, sandbox=level, **options)
    extra = []
    for _ in range(pairs):
        inside = run_program(_LOCKSTEP, task, sandbox=level, **options).timings
        outside = run_program(_LOCKSTEP, task, sandbox="none", **options).timings
        # The worker's start is a figure of its own.
        extra.append((inside["inference"] - inside["ready"] - outside["inference"]) / _BATCHES)
    return 1e6 * statistics.median(extra)


def _seconds(task: str, level: str | None) -> float:
    return self_steer(task, follower=_FOLLOWER, n=32, sandbox=level).timings["inference"]


def _quantile(values: Sequence[float], q: float) -> float:
    return sorted(values)[min(len(values) - 1, math.ceil(q * len(values)) - 1)]


class _Flat(Backend):
    """A backend without a model: every token is as likely as any other."""

    max_context: int | None = None
    forwards = 0

    async def logits(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        self.forwards += 1
        return torch.zeros((len(contexts), _TOKENS))

    async def score(self, pairs: Sequence[tuple[Prefix, Tokens]]) -> list[torch.Tensor]:
        return [torch.zeros((len(tokens), _TOKENS)) for _, tokens in pairs]


def _flat() -> HostFollower:
    """A follower that costs next to nothing, so that the way there and back shows."""
    tokens = [bytes([byte]) for byte in range(32, 127)]
    vocabulary = Vocabulary(
        [*tokens, b""], eos=[len(tokens)], encode=lambda text: [ord(c) - 32 for c in text]
    )
    return HostFollower(_Flat(), vocabulary, lambda user, hint: (0,), name="flat")


class _PrivateMemory:
    """Watches the workers of this process: the most memory that one of them shares with nobody."""

    def __enter__(self) -> _PrivateMemory:
        self.most: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        # A worker's memory is gone with it, so it has to be looked at while it lives.
        while not self._over.wait(0.02):
            for zygote in children("self"):
                for worker in children(zygote):
                    private = _private_mb(worker)
                    if private is not None:
                        self.most = max(private, self.most or 0.0)


def children(pid: str) -> list[str]:
    """Ids of the processes that a process has started; none where the system does not tell."""
    try:
        tasks = [*Path(f"/proc/{pid}/task").iterdir()]
        return [child for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def _private_mb(pid: str) -> float | None:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024
