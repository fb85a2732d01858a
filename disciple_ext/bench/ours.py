"""Our own runs, in process and through the sandbox, and the floor: their forward passes alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import torch

from ..demo import DEMO
from ..errors import DiscipleError
from ..follower.hf import from_model
from ..follower.host import HostFollower
from ..loop.steer import run_program
from ..models.catalogue import catalogue
from ..planner.expert.planner import write_program
from ..records.program import Program
from ..records.result import Usage
from ..records.task import Limits, Task
from ..run import inprocess
from . import cases
from .cases import Cell
from .synthetic import Loaded

__all__ = ["Ours", "Recording"]

_SECONDS = 3600.0
"""Time limit of a run."""

_MEMORY = 4096
"""Mebibytes that a worker may use."""

Recording = list[tuple[str, tuple[Any, ...], dict[str, Any]]]
"""Calls of a backend: method, arguments, named arguments."""

_METHODS = ("logits", "score")


class Ours:
    """A follower of ours that lives on between the runs, as in a program that uses the package.

    Attributes:
        follower: the follower.
        usage: what the last run took.
    """

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self.follower = self._make()
        self._floor: HostFollower | None = None
        self.usage = Usage()

    def _make(self) -> HostFollower:
        return from_model(self._loaded.model, self._loaded.tokenizer, name=self._loaded.name)

    def threads(self, count: int) -> None:
        """Compute with ``count`` threads; torch keeps the number for each thread apart."""

        async def on_the_loop() -> None:
            torch.set_num_threads(count)

        torch.set_num_threads(count)
        inprocess.submit(on_the_loop()).result()

    def run(self, cell: Cell, run: int, level: str | None) -> Recording:
        """One run, at a sandbox level (None: the strongest to be had here).

        Returns:
            What was asked of the backend.
        """
        instruction, source = _program(cell, run)
        entry = catalogue().get(cell.model)
        # The COLLIE programs write as users have them write; the others at temperature 1, as stock.
        own = entry.base_measure if entry is not None and cell.case.startswith("d") else None
        backend: Any = self.follower.backend
        recording: Recording = []
        for name in _METHODS:
            # On the object: the class stays as it is for every other follower.
            setattr(backend, name, _recorded(getattr(backend, name), name, recording))
        try:
            result = run_program(
                Program(source, trusted=True),
                Task(instruction, n=cell.n, limits=Limits(timeout=_SECONDS, memory=_MEMORY)),
                follower=self.follower,
                seed=run,
                sandbox=level,
                measure=own,
            )
        finally:
            for name in _METHODS:
                delattr(backend, name)  # the class's own method shows again
        self.usage = result.usage
        return recording

    def replay(self, recording: Recording) -> None:
        """The floor: the same forward passes, and nothing else, on a backend of its own.

        Raises:
            DiscipleError: there was no forward pass, so that there is nothing to compare with.
        """
        if not recording:
            raise DiscipleError("the run asked nothing of its backend: there is no floor")
        if self._floor is None:
            self._floor = self._make()
        backend: Any = self._floor.backend
        if self._floor._threads is not None:  # as many as ours has chosen for this model
            torch.set_num_threads(self._floor._threads)

        async def calls() -> None:
            for name, args, named in recording:
                await getattr(backend, name)(*args, **named)
            # Kernels run on after the call returns; without this their time would not be counted.
            if torch.cuda.is_available():
                torch.cuda.synchronize()

        asyncio.run(calls())

    def prepare(self) -> None:
        """Make what the floor needs, so that its first run is not charged for it."""
        if self._floor is None:
            self._floor = self._make()


def _program(cell: Cell, run: int) -> tuple[str, str]:
    """The instruction and the program of a cell."""
    if cell.case.startswith("d"):
        return _collie(cell.case.partition(":")[2])
    return "(none)", cases.program(cell.case, cases.prompts(cell.case, run), cell.tokens)


def _recorded(call: Callable[..., Any], name: str, into: Recording) -> Callable[..., Any]:
    async def recorded(*args: Any, **named: Any) -> Any:
        # The lists are copied: who asks may go on to use them.
        into.append((name, tuple(list(a) if isinstance(a, list) else a for a in args), named))
        return await call(*args, **named)

    return recorded


def _collie(type_: str) -> tuple[str, str]:
    """A task of the demo, and the expert's program for it."""
    task = next(task for task in DEMO if task.type == type_)
    return task.prompt, write_program(task.prompt)
