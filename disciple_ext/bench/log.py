"""The log of a benchmark: one line of JSON for each measurement, so that it can be gone on with."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..follower.engine.tuning import processor
from .cases import Cell

__all__ = ["Log", "Measurement", "machine", "read_log", "read_machine"]

RESULTS, RUN = "results.jsonl", "run.json"


@dataclass(frozen=True)
class Measurement:
    """One measurement.

    Attributes:
        case: what was written; see :class:`disciple_ext.bench.cases.Cell`.
        model: on which model.
        n: particles.
        tokens: tokens for each particle.
        implementation: who wrote it.
        metric: ``"cpu"`` and ``"wall"`` in seconds, or ``"memory"`` in megabytes.
        repeat: number of the repeat, from 0.
        value: what was measured, or None where the system does not tell.
        rows: contexts that ours evaluated, or None for the others.
        passes: forward passes that ours made for them, or None.
        written: tokens that ours drew for all particles, or None.
    """

    case: str
    model: str
    n: int
    tokens: int
    implementation: str
    metric: str
    repeat: int
    value: float | None
    rows: int | None = None
    passes: int | None = None
    written: int | None = None

    @property
    def cell(self) -> Cell:
        """The place in the table."""
        return Cell(self.case, self.model, self.n, self.tokens)

    @property
    def key(self) -> tuple[Cell, str, str, int]:
        """What tells it from all other measurements."""
        return (self.cell, self.implementation, self.metric, self.repeat)


class Log:
    """Measurements in memory, and in a directory where one is given.

    Attributes:
        rows: the measurements by their key.
    """

    def __init__(
        self, directory: Path | None, device: str = "cpu", packages: Iterable[str] = ()
    ) -> None:
        """Open a log; what is in it already stays.

        Args:
            directory: where it is, or None for a log in memory.
            device: what is measured.
            packages: packages whose versions matter beside the usual ones.

        Raises:
            UsageError: the directory cannot be used, or its log was made on another machine or
                with other versions.
        """
        self.rows: dict[tuple[Cell, str, str, int], Measurement] = {}
        self._path = None if directory is None else directory / RESULTS
        if directory is None:
            return
        now = machine(device, packages)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if (directory / RESULTS).exists():
                self.rows = {row.key: row for row in read_log(directory)}
                data = (directory / RESULTS).read_bytes()
                os.truncate(directory / RESULTS, data.rfind(b"\n") + 1)  # a torn line goes
                # Times of two machines or versions in one table would be compared as if they were
                # of one.
                if read_machine(directory) != now:
                    raise UsageError(
                        f"{directory} was measured on another machine or with other versions "
                        f"({directory / RUN} says which); choose another directory"
                    )
            (directory / RUN).write_text(json.dumps(now, indent=2) + "\n", "utf-8")
        except OSError as error:
            raise UsageError(f"the log in {directory} cannot be used: {error}") from error

    def add(self, row: Measurement) -> None:
        """Keep a measurement, and write it at once."""
        self.rows[row.key] = row
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row), allow_nan=False) + "\n")


def read_log(directory: Path) -> list[Measurement]:
    """The measurements of a log; a torn last line is left out.

    Raises:
        UsageError: there is no log, or a line of it is none of ours.
    """
    path = directory / RESULTS
    try:
        text = path.read_text("utf-8")
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [Measurement(**json.loads(line)) for line in lines]
    except OSError as error:
        raise UsageError(
            f"there is no log {path} ({error.strerror}); `disciple bench engine --out {directory}` "
            "makes one"
        ) from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"{path} is no log of this benchmark: {error}") from error


def read_machine(directory: Path) -> dict[str, Any]:
    """What ``run.json`` says; empty where there is none."""
    try:
        found: dict[str, Any] = json.loads((directory / RUN).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def machine(device: str = "cpu", packages: Iterable[str] = ()) -> dict[str, Any]:
    """Where and with what it is measured."""
    packages = ("torch", "transformers", "llamppl", "genlm-backend", *packages)
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "device": device if device == "cpu" else _accelerator(),
        "python": sys.version.split()[0],
        **{name: _version(name) for name in packages},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _accelerator() -> str:
    import torch

    return str(torch.cuda.get_device_name())
