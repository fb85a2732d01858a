"""Everything about a run but the task and the program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..protocol.follower import BaseFollower
from ..records.events import Event, Observer
from ..samplers.base import Sampler
from ..services.batching import Services

__all__ = ["LoadedSetting", "Setting"]


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
    """

    sampler: Sampler
    seed: int
    sandbox: str | None
    observers: tuple[Observer, ...]
    patterns: dict[str, Any]
    plugins: tuple[str, ...] = ()
    services: Services = field(default_factory=Services)

    def emit(self, event: Event) -> None:
        """Tell every observer."""
        for observer in self.observers:
            observer(event)

    def load(self, follower: BaseFollower) -> LoadedSetting:
        """The setting with a follower."""
        return LoadedSetting(**vars(self), follower=follower)


@dataclass(frozen=True)
class LoadedSetting(Setting):
    """A setting whose follower is loaded.

    Attributes:
        follower: the model.
    """

    follower: BaseFollower = field(kw_only=True)
