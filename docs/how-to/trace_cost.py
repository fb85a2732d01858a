"""What tracing costs: python docs/how-to/trace_cost.py [REPEATS].

The processor time of all that a trace adds to a run (telling the observers of each step, recording
it, and noting where each change of a weight comes from) as a share of the run's, in one process:
at the sandbox level `none` the program, the sampler, the follower and the recorder are one sum. A
ratio of runs with and without a trace would say the same, were it not lost in the noise of both.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from typing import Any

from disciple_ext import self_steer
from disciple_ext.model.base import BaseModel
from disciple_ext.samplers.report import Report

TASK = "Please generate a sentence with exactly 75 characters."
ADDED = ((Report, "step"), (BaseModel, "_note_change"))
spent = 0.0


def timed(method: Any) -> Any:
    """The method, with its processor seconds added up in ``spent``."""

    @functools.wraps(method)
    def wrapper(*args: Any) -> Any:
        global spent
        begun = time.thread_time()
        try:
            return method(*args)
        finally:
            spent += time.thread_time() - begun

    return wrapper


def run() -> tuple[float, float]:
    """Processor seconds of one run at N = 32, and of what the trace adds to it."""
    global spent
    spent, begun = 0.0, time.process_time()
    self_steer(TASK, follower="embedded", n=32, seed=0, sandbox="none", trace=True)
    return time.process_time() - begun, spent


if __name__ == "__main__":
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for owner, name in ADDED:
        setattr(owner, name, timed(getattr(owner, name)))
    run()  # loads the follower
    runs = [run() for _ in range(repeats)]
    shares = [added / (whole - added) for whole, added in runs]
    print(
        f"{repeats} runs of {statistics.median(whole for whole, _ in runs):.2f} CPU s: a trace "
        f"adds {100 * statistics.median(shares):.1f} % "
        f"(from {100 * min(shares):.1f} to {100 * max(shares):.1f})"
    )
