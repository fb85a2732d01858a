"""What one sentence costs on each follower: python docs/how-to/vllm_cost.py SPEC SPEC ...

Each round runs the same task on every follower in turn, each in a process of its own, so that what
else the machine does falls on all of them. The first run of a process, which compiles and fills
caches, is not counted; its text is forgotten before the one that is.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

TASK = "Please generate a sentence with exactly 9 words."
ROUNDS = 3


def measure(spec: str) -> dict[str, Any]:
    """Wall-clock and processor seconds, tokens and forward passes of one run at N = 32."""
    from disciple_ext import self_steer
    from disciple_ext.registry.plugins import load_plugins

    follower = load_plugins().make("followers", spec)
    self_steer(TASK, follower=follower, n=32, seed=1)
    follower.forget()
    forwards, wall, cpu = follower.forwards, time.perf_counter(), time.process_time()
    result = self_steer(TASK, follower=follower, n=32, seed=2)
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "tokens": result.usage.follower_tokens,
        "forwards": follower.forwards - forwards,
        "text": result.text,
    }


def main(specs: list[str]) -> None:
    """Print a row of a table for each follower."""
    rows: dict[str, list[dict[str, Any]]] = {spec: [] for spec in specs}
    loads = []
    for _ in range(ROUNDS):
        for spec in specs:
            loads.append(os.getloadavg()[0])
            asked = [sys.executable, __file__, "--one", spec]
            found = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout
            rows[spec].append(json.loads(found.splitlines()[-1]))
    print("| Follower | Seconds | CPU seconds | Tokens | CPU ms a token | Batches |")
    print("|--|--|--|--|--|--|")
    for spec, runs in rows.items():
        wall, cpu = (statistics.median(run[key] for run in runs) for key in ("wall", "cpu"))
        tokens, forwards = runs[-1]["tokens"], runs[-1]["forwards"]
        each = 1000 * cpu / tokens
        print(f"| `{spec}` | {wall:.1f} | {cpu:.1f} | {tokens} | {each:.1f} | {forwards} |")
    for spec, runs in rows.items():
        print(f"{spec}: {runs[-1]['text']}")
    print(f"load of the machine (1 minute): {min(loads):.1f} to {max(loads):.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2])))
    else:
        main(sys.argv[1:])
