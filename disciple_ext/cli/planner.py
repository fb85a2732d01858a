"""The options that choose a planner, and the planner that they choose."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

__all__ = ["MaxCost", "NoCache", "PlannerName", "PricesFile", "Record", "make_planner"]

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
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        metavar="USD",
        help="Make no call of the planner that may bring the cost above this.",
    ),
]


def make_planner(
    spec: str, *, no_cache: bool = False, record: str | None = None, prices: str | None = None
) -> Any:
    """The planner of a spec, with the options that were given.

    Raises:
        UsageError: there is no such planner, or it has no use for an option.
    """
    from ..plugins import load_plugins  # loads torch, through LLaMPPL

    options: dict[str, Any] = {"cache": False} if no_cache else {}
    if record is not None:
        options["record"] = os.path.expanduser(record)
    if prices is not None:
        options["prices"] = os.path.expanduser(prices)
    return load_plugins().make("planners", spec, **options)
