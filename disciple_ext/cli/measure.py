"""The options of the base measure, which several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from ..protocol.measure import OPTIONS

__all__ = ["MEASURE_EXAMPLE", "measuring"]

MEASURE_EXAMPLE = (
    'disciple run "Write a haiku about rain." --follower smollm2 --temperature 0.8 --top-p 0.95'
)

_HELP = {
    "temperature": "Divides the logits of prior and proposal.",
    "top_p": "Keep the likeliest tokens that together have this probability.",
    "top_k": "Keep so many of the likeliest tokens.",
    "min_p": "Keep tokens with this share of the likeliest one's probability.",
    "alpha": "Target the probability of the whole text to this power.",
    "proposal_temperature": "The proposal's own; the weights make up for it.",
    "proposal_top_p": "The proposal's own.",
    "proposal_top_k": "The proposal's own.",
    "proposal_min_p": "The proposal's own.",
}


def measuring(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the base measure; those that were given come as ``measure``."""

    @functools.wraps(command)
    def with_options(*args: Any, **given: Any) -> None:
        asked = {name: given.pop(name) for name in OPTIONS}
        said = {name: value for name, value in asked.items() if value is not None}
        command(*args, measure=said, **given)

    # typer reads a command's options from its signature and its annotations, which it does not
    # find by their text where the function that it gets is not the one that they were written in.
    own, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    kept = [
        p.replace(annotation=hints[p.name]) for p in own.parameters.values() if p.name != "measure"
    ]
    added = {name: _option(name) for name in OPTIONS}
    keyword = inspect.Parameter.KEYWORD_ONLY
    kept += [inspect.Parameter(n, keyword, default=None, annotation=h) for n, h in added.items()]
    made: Any = with_options
    made.__signature__ = own.replace(parameters=kept)
    made.__annotations__ = {p.name: p.annotation for p in kept}
    del made.__wrapped__
    return with_options


def _option(name: str) -> Any:
    kind = int if name.endswith("top_k") else float
    flag = "--" + name.replace("_", "-")
    return Annotated[kind | None, typer.Option(flag, help=_HELP[name])]
