"""The options that choose a planner, and the planner that they choose."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError

if TYPE_CHECKING:
    from ..planner.base import Planner

__all__ = [
    "Examples",
    "LibraryMode",
    "MaxCost",
    "NoCache",
    "PlannerName",
    "PricesFile",
    "Record",
    "make_planner",
]

PlannerName = Annotated[
    str,
    typer.Option(
        "--planner", help="Who writes the program: expert, openai:MODEL, replay:DIR or follower."
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Ask the planner anew; see `disciple cache`.")
]
Record = Annotated[
    str | None,
    typer.Option(
        "--record", metavar="DIR", help="Write the planner's answers there, for replay:DIR."
    ),
]
PricesFile = Annotated[
    str | None,
    typer.Option("--prices", metavar="FILE", help="Prices of models, before the built-in ones."),
]
Examples = Annotated[
    str | None,
    typer.Option(
        "--examples",
        help="Expert programs that a chat model is shown: held-out (all but that of the task's own "
        "type; the default), reference (that one alone) or none.",
    ),
]
LibraryMode = Annotated[
    str,
    typer.Option(
        "--library",
        help="on: run programs that passed on such tasks before, and keep those that pass now; "
        "read: keep none; off.",
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        metavar="USD",
        help="Make no call of the planner that may bring the cost above this.",
    ),
]


def make_planner(
    spec: str,
    *,
    no_cache: bool = False,
    record: str | None = None,
    prices: str | None = None,
    examples: str | None = None,
) -> Planner:
    """The planner of a spec, with the options that were given.

    Raises:
        UsageError: there is no such planner, or it has no use for an option.
    """
    from ..planner.base import as_planner
    from ..registry.plugins import load_plugins  # loads torch, through LLaMPPL

    # Only what was given: a planner without the option refuses it.
    options: dict[str, Any] = {"cache": False} if no_cache else {}
    if record is not None:
        options["record"] = os.path.expanduser(record)
    if prices is not None:
        options["prices"] = os.path.expanduser(prices)
    planner = as_planner(load_plugins().make("planners", spec, **options))
    if examples is not None:
        from ..planner.chat.planner import EXAMPLES

        if examples not in EXAMPLES:
            raise UsageError(f"there are no examples {examples!r}; choose: {', '.join(EXAMPLES)}")
        if planner.examples is None:
            raise UsageError(f"the planner {spec!r} has no use for --examples")
        planner.examples = examples
    return planner
