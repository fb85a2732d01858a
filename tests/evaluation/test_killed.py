"""An evaluation killed ten times and resumed gives the log of one left alone."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from disciple_ext.evaluation.logs.log import read_log
from disciple_ext.evaluation.many.merge import without_times

KILLS = 10
METHODS = "smc,is,follower,beam"
TARGETS = {"sent_01": 40, "sent_03": [5, 8], "sent_04": ["time"], "para_02": [2, "be"]}
PROMPTS = {
    "sent_01": "Please generate a sentence with exactly 40 characters. Include whitespace into "
    "your character count.",
    "sent_03": "Please generate a sentence with at least 5 words, with each word having at most 8 "
    "characters.",
    "sent_04": "Please generate a sentence containing the word 'time'.",
    "para_02": "Please generate a paragraph:\n1) with exactly 2 sentences;\n2) not containing the "
    "word 'be'.",
}


def command(data: Path, out: Path, *more: str) -> list[str]:
    chosen = ["--method", METHODS, "-n", "4", "--data", str(data), "--out", str(out)]
    return [sys.executable, "-m", "disciple_ext", "eval", "collie", *chosen, *more]


@pytest.mark.slow
def test_a_run_killed_ten_times_gives_the_same_log(tmp_path: Path) -> None:
    data, alone, killed = tmp_path / "wiki.jsonl", tmp_path / "alone", tmp_path / "killed"
    data.write_text(
        "".join(
            json.dumps(
                {
                    **{"id": f"{task}/{number}", "task": task, "prompt": PROMPTS[task]},
                    **{"targets": TARGETS[task], "corpus": "", "example": ""},
                }
            )
            + "\n"
            for task in TARGETS
            for number in range(3)
        )
    )
    subprocess.run(command(data, alone), check=True, capture_output=True)
    rows = read_log(alone)
    assert len(rows) == 48
    pace = sum(row.seconds for row in rows) / len(rows)
    rng = random.Random(9)
    for number in range(KILLS):
        more = ["--resume"] if (killed / "run.json").exists() else []
        before = _written(killed)
        process = subprocess.Popen(
            command(data, killed, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while number and _written(killed) == before and process.poll() is None:
            time.sleep(0.01)  # start-up takes longer than the runs: most kills are for these
        time.sleep(rng.uniform(0, 5 * pace))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it was still running"
    done = subprocess.run(command(data, killed, "--resume"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    again = read_log(killed)
    assert len(again) == len(rows)

    def lines(directory: Path) -> list[str]:
        found = sorted(read_log(directory), key=lambda row: (row.id, row.method))
        return [json.dumps(without_times(row)) for row in found]

    assert lines(killed) == lines(alone)


def _written(directory: Path) -> int:
    """When ``run.json`` was written: a process does it right before its first run."""
    path = directory / "run.json"
    return path.stat().st_mtime_ns if path.exists() else 0
