"""One evaluation on many machines: Ray starts the shards, and their lines become one log."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import EvaluationError, UsageError
from ..logs.log import RESULTS, RUN, LogWriter, Row, read_log, read_run, write_run
from ..logs.provenance import mismatch
from .shard import News, Shard

__all__ = ["Workers", "evaluate_many"]

_LIVES = 3
"""Workers that a shard may lose one after the other, without a new line, before it is given up."""


@dataclass(frozen=True)
class Workers:
    """What runs the shards.

    Attributes:
        count: workers, each with a follower of its own.
        address: of a Ray cluster; None for what ``RAY_ADDRESS`` names, else for this machine.
        cpus: CPU cores that Ray reserves for each.
        gpus: GPUs that Ray reserves for each, and shows it.
    """

    count: int
    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UsageError(f"there must be at least 1 worker, not {self.count}")
        if not (self.cpus >= 0 and self.gpus >= 0):
            raise UsageError("a worker's CPUs and GPUs must not be below 0")


def evaluate_many(
    arguments: Sequence[str],
    workers: Workers,
    *,
    out: Path,
    resume: bool = False,
    on_row: Callable[[int, Row], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> list[Row]:
    """Run ``disciple eval`` in shards, one for each worker, into one log.

    Each worker writes a log of its own; its lines are appended to the log in ``out`` as they come.
    A worker that is lost is replaced, and the new one goes on where the log ends.

    Args:
        arguments: what follows ``disciple eval``, without ``--shard``, ``--out`` and ``--resume``.
        workers: how many, and where.
        out: directory of the log.
        resume: go on with a log, however many workers wrote it.
        on_row: called with the number of a shard and each row of its.
        on_note: called with what else is to be known.

    Returns:
        Every row of the log.

    Raises:
        UsageError: Ray is not installed, or there is a log and ``resume`` is not set.
        EvaluationError: shards failed, or their settings differ.
    """
    ray = _ray()
    gathered = _Gathered(out, resume)
    say = on_note or (lambda text: None)
    started = _connect(ray, workers)
    shards = _Shards(ray, workers, arguments, gathered, say)
    try:
        # Told, not refused: Ray starts the others when there is room.
        _room(ray, workers, say)
        shards.start_all()
        for part, news in shards.news():
            for row in gathered.take(part, news):
                # A shard that makes progress is not failing: only losses without a new line count.
                shards.moves_on(part)
                if on_row is not None:
                    on_row(part, row)
            shards.go_on(part, news)
    finally:
        gathered.close()
        shards.kill()
        if started:
            ray.shutdown()
    failed = shards.failed
    if failed:
        reasons = "; ".join(f"shard {part}: {why}" for part, why in sorted(failed.items()))
        raise EvaluationError(
            f"{len(failed)} of {workers.count} shards did not end ({reasons}). The log in {out} "
            "has what was done; go on with --resume"
        )
    return read_log(out)


def _ray() -> Any:
    # Before the import, which reads it: nothing is to be sent out without the user's word.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            "many machines need Ray: pip install 'disciple-ext[ray]', or run the shards yourself "
            "(disciple eval SUITE --shard I/K) and merge them (disciple eval merge)"
        ) from error
    return ray


def _connect(ray: Any, workers: Workers) -> bool:
    """Connect to the cluster; whether that was done here."""
    if ray.is_initialized():
        return False
    address = workers.address or os.environ.get("RAY_ADDRESS") or "local"
    local = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", **local)
    except Exception as error:  # Ray raises many kinds, plain ones too
        raise UsageError(
            f"there is no Ray cluster to be had at {address} ({_first_line(error)}); start one "
            "with `ray start --head` and name its address (--ray)"
        ) from error
    return True


def _room(ray: Any, workers: Workers, say: Callable[[str], None]) -> None:
    have = ray.cluster_resources()
    wanted = {"CPU": workers.cpus, "GPU": workers.gpus}
    fit = min((int(have.get(k, 0) / v) for k, v in wanted.items() if v), default=workers.count)
    if fit < workers.count:
        say(f"the cluster has room for {fit} of {workers.count} workers now; the others wait")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class _Shards:
    """The shards as Ray's actors: started, listened to, and replaced where they are lost.

    Attributes:
        failed: why, by the number of the shard, for those that are given up.
    """

    def __init__(
        self,
        ray: Any,
        workers: Workers,
        arguments: Sequence[str],
        gathered: _Gathered,
        say: Callable[[str], None],
    ) -> None:
        self.failed: dict[int, str] = {}
        self._ray = ray
        self._count = workers.count
        self._arguments = arguments
        self._gathered = gathered
        self._say = say
        self._actor = ray.remote(num_cpus=workers.cpus, num_gpus=workers.gpus)(Shard)
        self._running: dict[int, Any] = {}
        self._waiting: dict[Any, int] = {}
        self._lives = dict.fromkeys(range(1, workers.count + 1), _LIVES)

    def start_all(self) -> None:
        """Start every shard; those that have no room wait inside Ray."""
        for part in self._lives:
            self._start(part)

    def news(self) -> Iterator[tuple[int, News]]:
        """What shards say, with their numbers, until none is under way."""
        while self._waiting:
            (ready,), _ = self._ray.wait(list(self._waiting), num_returns=1)
            part = self._waiting.pop(ready)
            try:
                # Errors of the actor's machine come here, when its answer is fetched.
                news: News = self._ray.get(ready)
            except self._ray.exceptions.RayActorError as error:
                self._lost(part, _first_line(error))
                continue
            yield part, news

    def moves_on(self, part: int) -> None:
        """A shard gave a new row: it may lose as many workers again."""
        self._lives[part] = _LIVES

    def go_on(self, part: int, news: News) -> None:
        """Listen for more, or see how the shard ended."""
        if news.code is None:
            self._listen(part)
            return
        with suppress(self._ray.exceptions.RayActorError):
            # First in its own words: a kill alone would leave the folder behind.
            self._ray.get(self._running[part].close.remote())
        self._ray.kill(self._running.pop(part))  # makes room for a shard that waits
        if news.code < 0:
            self._lost(part, f"its process was ended by signal {-news.code}")
        elif news.code:
            self.failed[part] = news.said.rpartition("\n")[2] or f"exit code {news.code}"

    def kill(self) -> None:
        """End all that are still there."""
        for actor in self._running.values():
            self._ray.kill(actor)

    def _start(self, part: int) -> None:
        shard = [*self._arguments, "--shard", f"{part}/{self._count}"]
        # The whole log, whoever wrote it: a worker that replaces another must not run it again.
        lines, run = self._gathered.lines(), self._gathered.run()
        self._running[part] = self._actor.remote(shard, lines, run)
        self._listen(part)

    def _listen(self, part: int) -> None:
        self._waiting[self._running[part].more.remote()] = part

    def _lost(self, part: int, why: str) -> None:
        self._lives[part] -= 1
        if self._lives[part]:
            self._say(f"the worker of shard {part} is lost ({why}); another one goes on with it")
            self._start(part)
        else:
            self.failed[part] = f"{_LIVES} workers were lost, the last one: {why}"


class _Gathered:
    """The log that all shards' lines go to."""

    def __init__(self, out: Path, resume: bool) -> None:
        self._out = out
        path = out / RESULTS
        if path.exists() and path.stat().st_size and not resume:
            raise UsageError(
                f"there is a log in {out} already; go on with it (--resume), or name another "
                "directory"
            )
        self._about = read_run(out) if resume else None
        self._writer = LogWriter(out)
        self._done = {(row.id, row.method) for row in read_log(out)}
        self._own: dict[int, Any] = {}

    def lines(self) -> bytes:
        """The log so far."""
        return (self._out / RESULTS).read_bytes()

    def run(self) -> bytes | None:
        """What ``run.json`` holds, or None where there is none."""
        path = self._out / RUN
        return path.read_bytes() if path.exists() else None

    def take(self, part: int, news: News) -> list[Row]:
        """Append a shard's new rows.

        Raises:
            EvaluationError: the shard was made with other settings, or its rows cannot be written.
        """
        if news.run is not None and part not in self._own:
            self._settings(part, json.loads(news.run))
        rows = [Row.from_json(line.decode()) for line in news.lines.splitlines()]
        # A lost worker's last rows may come again from the one that replaces it.
        new = [row for row in rows if (row.id, row.method) not in self._done]
        for row in new:
            self._writer.append(row)
            self._done.add((row.id, row.method))
        return new

    def _settings(self, part: int, about: dict[str, Any]) -> None:
        if self._about is not None:
            mismatch(self._about, about, self._out)
        # Each shard was given the log's own run.json, which would come back here as "earlier".
        self._own[part] = {k: v for k, v in about.items() if k != "earlier"}
        first = self._about or self._own[part]
        self._about = {**first, "shard": None, "workers": [self._own[p] for p in sorted(self._own)]}
        write_run(self._out, self._about)

    def close(self) -> None:
        """Close the log."""
        self._writer.close()
