"""What models cost: prices as data, which a file of the user's may add to or replace."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...records.result import Usage

__all__ = ["MOST_OUTPUT", "PRICES", "Price", "Prices", "known_prices"]

PRICES = "DISCIPLE_PRICES"
"""Environment variable that names a file of prices."""

MOST_OUTPUT = 16_384
"""Output tokens that a call is taken to have at most, where neither price nor planner says."""

_SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_EXAMPLE = '{"models": {"my-model": {"input": 2.5, "cached": 1.25, "output": 10}}}'


@dataclass(frozen=True)
class Price:
    """What a model costs, in US dollars per million tokens.

    Attributes:
        input: of input tokens that were not cached.
        cached: of cached input tokens.
        output: of output tokens, thinking included.
        most_output: output tokens that one answer may have.
    """

    input: float
    cached: float
    output: float
    most_output: int = MOST_OUTPUT

    def cost(self, usage: Usage) -> float:
        """US dollars for a planner's tokens."""
        return (
            self.input * usage.planner_input
            + self.cached * usage.planner_cached
            + self.output * usage.planner_output
        ) / 1e6


class Prices:
    """A table of prices.

    Args:
        models: price by model; the name ``*`` stands for every model that is not named.
    """

    def __init__(self, models: Mapping[str, Price]) -> None:
        self._models = dict(models)

    def of(self, model: str) -> Price | None:
        """The price of a model, a dated snapshot of it included, or None where it is unknown."""
        # From the particular to the general: a snapshot may have a price of its own.
        for name in (model, _SNAPSHOT.sub("", model), "*"):
            if name in self._models:
                return self._models[name]
        return None


def known_prices(path: str | os.PathLike[str] | None = None) -> Prices:
    """The prices that ship with the package, and those of a file, which go first.

    Args:
        path: a JSON file of the form of ``prices.json``; what ``DISCIPLE_PRICES`` names where it
            is None.

    Raises:
        UsageError: the file cannot be read, or holds no prices.
    """
    own = json.loads(files(__package__).joinpath("prices.json").read_text("utf-8"))
    models = {name: _price(name, price) for name, price in own["models"].items()}
    path = path or os.environ.get(PRICES) or None
    if path is not None:
        models |= _read(Path(path), Prices(models))
    return Prices(models)


def _read(path: Path, own: Prices) -> dict[str, Price]:
    try:
        data = json.loads(path.read_text("utf-8"))
        return {str(name): _price(name, price, own) for name, price in data["models"].items()}
    except OSError as error:
        raise UsageError(f"cannot read the prices {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{path} holds no prices ({type(error).__name__}: {error}); it should look like "
            f"{_EXAMPLE}, in US dollars per million tokens"
        ) from error


def _price(name: str, data: Mapping[str, Any], own: Prices | None = None) -> Price:
    """A price; what it does not say of the longest answer is as in our own table."""
    for field in ("input", "output"):
        if field not in data:
            raise ValueError(f"the price of {name!r} has no {field!r}")
    # No price for cached tokens: they count in full, so that a limit is rather too strict.
    unit = float(data["input"]), float(data.get("cached", data["input"])), float(data["output"])
    # json reads NaN and Infinity; with either, no limit on the cost would hold.
    if not all(math.isfinite(price) and price >= 0 for price in unit):
        raise ValueError(f"the price of {name!r} is no amount of money")
    known = own.of(name) if own is not None else None
    most = data.get("most_output", known.most_output if known is not None else MOST_OUTPUT)
    if not isinstance(most, int) or most < 1:
        raise ValueError(f"the most output tokens of {name!r} must be a whole number, not {most!r}")
    return Price(*unit, most_output=most)
