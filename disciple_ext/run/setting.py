"""Everything about a run but the task and the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..protocol.adapters import measured
from ..protocol.follower import BaseFollower
from ..protocol.measure import BaseMeasure
from ..records.events import Event, Observer
from ..samplers.base import Sampler
from ..services.batching import Services

__all__ = ["LoadedSetting", "Setting", "chosen_measure"]


@dataclass(frozen=True)
class Setting:
    """Everything about a run but the task, the program and the follower.

    Attributes:
        sampler: the inference algorithm.
        seed: seed of every draw.
        sandbox: level asked for, or None.
        observers: called with each event.
        patterns: names of masks and patterns that programs find.
        plugins: names of the plugins in use.
        services: what programs may call beside the follower.
        measure: the base measure, or what it has other than the follower's own.
    """

    sampler: Sampler
    seed: int
    sandbox: str | None
    observers: tuple[Observer, ...]
    patterns: dict[str, Any]
    plugins: tuple[str, ...] = ()
    services: Services = field(default_factory=Services)
    measure: BaseMeasure | Mapping[str, Any] | None = None

    def emit(self, event: Event) -> None:
        """Tell every observer."""
        for observer in self.observers:
            observer(event)

    def load(self, follower: BaseFollower) -> LoadedSetting:
        """The setting with a follower, which is under the base measure from here on.

        Raises:
            UsageError: the measure has no such option, or the follower cannot be put under it.
        """
        measure = chosen_measure(follower, self.measure)
        return LoadedSetting(
            **{**vars(self), "measure": measure}, follower=measured(follower, measure)
        )


def chosen_measure(
    follower: BaseFollower, given: BaseMeasure | Mapping[str, Any] | None
) -> BaseMeasure:
    """The base measure of a run: what is given goes before what the follower has by itself.

    Raises:
        UsageError: there is no such option, or a value is out of range.
    """
    if isinstance(given, BaseMeasure):
        return given
    return follower.base_measure.but(given or {})


@dataclass(frozen=True)
class LoadedSetting(Setting):
    """A setting whose follower is loaded.

    Attributes:
        follower: the model.
    """

    follower: BaseFollower = field(kw_only=True)
