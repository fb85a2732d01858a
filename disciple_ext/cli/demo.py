"""``disciple demo``: nine tasks that small models cannot do, solved by one."""

from __future__ import annotations

import textwrap
import time
from typing import Annotated, Any

import typer

from ..demo import DEMO, DemoRow, DemoTask, run_demo
from ..models.default import named_follower
from .console import answer, answer_json, escape, note
from .follower import FollowerName
from .measure import measuring
from .progress import hush

__all__ = ["EXAMPLES", "demo"]

EXAMPLES = ("disciple demo", "disciple demo --json | jq .passed")
_WIDTH = 88


@measuring
def demo(
    follower: FollowerName = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of every run.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print each result as JSON.")] = False,
    *,
    measure: dict[str, Any],
) -> None:
    """Solve nine tasks, one of each of COLLIE's types.

    A small follower writes, and the ground truth judges the texts. `make demo` gets SmolLM2 first.
    """
    hush(follower)
    follower = named_follower(follower)
    started = time.monotonic()
    rows = []
    for row in run_demo(follower=follower, seed=seed, measure=measure, start=_announce):
        rows.append(row)
        if as_json:
            answer_json(_data(row))
        else:
            answer(_shown(row))
    passed = sum(row.passed for row in rows)
    seconds = time.monotonic() - started
    said = f"{passed} of {len(rows)} pass the ground truth"
    line = f"{said}; {seconds:.0f} s, seed {seed}, follower {follower}"
    if as_json:
        note(line)
    else:
        answer(line)
    if passed < len(rows):
        raise typer.Exit(1)


def _announce(task: DemoTask) -> None:
    if task is DEMO[0]:
        note("Nine tasks, one of each of COLLIE's types; this takes a minute or two.\n")


def _data(row: DemoRow) -> dict[str, Any]:
    return {
        "type": row.task.type,
        "prompt": row.task.prompt,
        "passed": row.passed,
        "error": None if row.error is None else str(row.error),
        "result": None if row.result is None else row.result.to_dict(),
    }


def _shown(row: DemoRow) -> str:
    """One task as lines: prompt, text, weight, verdict."""
    lines = [_block(row.task.type, " ".join(row.task.prompt.split()))]
    if row.error is not None:
        lines.append(_block("error", escape(str(row.error))))
    elif row.result is not None and row.result.text is not None:
        result, text = row.result, row.result.text
        lines.append(_block("text", escape(text)))
        # Copies of one text share its weight after resampling.
        alike = [p for p in result.particles if p.text == text]
        share, count = sum(p.weight for p in alike), len(result.particles)
        log_weight = max(p.log_weight for p in alike)
        lines.append(_block("weight", f"{share:.3f} of {count} particles, log {log_weight:.2f}"))
    lines.append(_block("truth", "pass" if row.passed else "FAIL"))
    return "\n".join(lines) + "\n"


def _block(label: str, text: str) -> str:
    start = f"{label:<8}"
    return "\n".join(
        textwrap.fill(part, _WIDTH, initial_indent=start if i == 0 else " " * 8,
                      subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)
        for i, part in enumerate(text.split("\n"))
    )  # fmt: skip
