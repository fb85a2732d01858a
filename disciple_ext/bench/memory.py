"""Peak memory of one run, measured in a process of its own.

``python -m disciple_ext.bench.memory`` is that process; :func:`peak_megabytes` starts it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from ..errors import DiscipleError
from .cases import Cell

__all__ = ["peak_megabytes"]


def peak_megabytes(implementation: str, cell: Cell, level: str | None = None) -> float | None:
    """Megabytes that a run takes at most, beyond those of the model and the libraries.

    Through the sandbox, the memory that the worker shares with nobody is counted, too.

    Returns:
        The peak, or None where the system does not tell.

    Raises:
        DiscipleError: the run failed.
    """
    order = json.dumps({"implementation": implementation, "cell": asdict(cell), "level": level})
    done = subprocess.run(
        # A process of its own: the peak of one that has run before is the peak of all its runs.
        [sys.executable, "-m", __name__, order],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DiscipleError(f"the run for the peak memory of {implementation!r} failed: {last}")
    peak: float | None = json.loads(done.stdout.splitlines()[-1])
    return peak


def _main(order: str) -> None:
    from .measure import Bench
    from .sandbox import _PrivateMemory

    given = json.loads(order)
    implementation, cell = given["implementation"], Cell(**given["cell"])
    bench = Bench(cell.model, level=given["level"])
    small = Cell(cell.case, cell.model, min(2, cell.n), min(2, cell.tokens))
    # Libraries load on first use, and are no part of what a run takes.
    bench.warm_up(implementation, small)
    before = _status("VmRSS")
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    except OSError:
        before = None  # what the peak would be of, nobody knows
    with _PrivateMemory() as worker:
        bench.measure(implementation, cell, "cpu", 0)
    after = _status("VmHWM")
    known = before is not None and after is not None
    print(json.dumps(after - before + (worker.most or 0.0) if known else None))  # type: ignore


def _status(name: str) -> float | None:
    """A line of ``/proc/self/status``, in megabytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    _main(sys.argv[1])
