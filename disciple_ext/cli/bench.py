"""``disciple bench``: what things cost on this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from .console import answer, answer_json, examples, note, table
from .progress import hush

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Measure what things cost on this machine.")

SANDBOX_EXAMPLES = ("disciple bench sandbox", "disciple bench sandbox --pairs 25 --json")


@app.command("sandbox", epilog=examples(*SANDBOX_EXAMPLES))
def sandbox(
    pairs: Annotated[
        int, typer.Option("--pairs", min=1, help="Pairs of runs, in and out of the sandbox.")
    ] = 9,
    level: Annotated[
        str | None, typer.Option("--sandbox", metavar="LEVEL", help="The level to measure.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """What the sandbox adds to the same runs at the level none, measured in turns."""
    hush()
    from ..bench.sandbox import measure

    note(f"measuring {pairs} pairs of runs; leave the machine alone for about a minute")
    costs = measure(pairs, level)
    if as_json:
        answer_json(asdict(costs))
        return
    inside, outside = costs.wall_seconds
    memory = "not to be had here" if costs.private_mb is None else f"{costs.private_mb:.0f} MB"
    rows = [
        ("first run waits for the zygote", f"{costs.zygote_s:.2f} s"),
        ("worker locked and ready", "{:.1f} ms (95 %: {:.1f} ms)".format(*costs.ready_ms)),
        ("SMC, N = 32, wall time", f"x {costs.wall_ratio:.3f} ({inside:.2f} s / {outside:.2f} s)"),
        ("added to a batch of 32 draws", f"{costs.batch_us:.0f} us"),
        ("memory of a worker's own", memory),
    ]
    answer(table(rows))
