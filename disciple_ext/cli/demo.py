"""``disciple demo``: nine tasks that small models cannot do, solved by one."""

from __future__ import annotations

import math
import textwrap
import time
from typing import Annotated

import typer

from ..demo import DEMO, DemoRow, DemoTask, run_demo
from .console import answer, answer_json, escape, note

__all__ = ["EXAMPLES", "demo"]

EXAMPLES = ("disciple demo", "disciple demo --json | jq .passed")
_WIDTH = 88


def demo(
    follower: Annotated[
        str, typer.Option("--follower", help="Who writes: embedded or hf:ID_OR_PATH.")
    ] = "embedded",
    seed: Annotated[int, typer.Option("--seed", help="Seed of every run.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print each result as JSON.")] = False,
) -> None:
    """Solve one task of each of COLLIE's nine types, and let the ground truth judge the texts."""
    started = time.monotonic()
    rows = []
    for row in run_demo(follower=follower, seed=seed, start=_announce):
        rows.append(row)
        if as_json:
            answer_json(
                {"type": row.task.type, "passed": row.passed, "result": row.result.to_dict()}
            )
        else:
            answer(_shown(row))
    passed = sum(row.passed for row in rows)
    seconds = time.monotonic() - started
    line = f"{passed} of {len(rows)} pass the ground truth; {seconds:.0f} s, seed {seed}"
    if as_json:
        note(line)
    else:
        answer(line)
    if passed < len(rows):
        raise typer.Exit(1)


def _announce(task: DemoTask) -> None:
    if task is DEMO[0]:
        note("the embedded follower writes, programs of the expert planner steer it ...\n")


def _shown(row: DemoRow) -> str:
    """One task as lines: prompt, text, weight, verdict."""
    result = row.result
    lines = [_block(row.task.type, " ".join(row.task.prompt.split()))]
    if result.text is None:
        lines.append(_block("text", "(none)"))
    else:
        lines.append(_block("text", escape(result.text)))
        chosen = next((p for p in result.particles if p.text == result.text), None)
        if chosen is not None and chosen.log_weight > -math.inf:
            total = f"{chosen.weight:.3f} of {len(result.particles)} particles"
            lines.append(_block("weight", f"{total}, log weight {chosen.log_weight:.2f}"))
    lines.append(_block("truth", "pass" if row.passed else "FAIL"))
    return "\n".join(lines) + "\n"


def _block(label: str, text: str) -> str:
    start = f"{label:<8}"
    return "\n".join(
        textwrap.fill(part, _WIDTH, initial_indent=start if i == 0 else " " * 8,
                      subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)
        for i, part in enumerate(text.split("\n"))
    )  # fmt: skip
