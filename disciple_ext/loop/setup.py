"""What a run needs, made of a caller's arguments: limits, planner, setting, follower, recorder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import UsageError
from ..models.default import named_follower
from ..planner.base import Planner, PlannerLike, as_planner
from ..planner.library.planner import with_library
from ..protocol.follower import BaseFollower
from ..protocol.measure import PLAIN, BaseMeasure
from ..records.events import Event, Listener, Observer, as_observer
from ..records.task import Task, Verifier
from ..registry.plugins import Registry
from ..run.setting import LoadedSetting, Setting
from ..samplers.base import Sampler
from ..sandbox.locks.policy import LEVELS
from ..services.batching import Services
from ..trace.record import Recorder

__all__ = [
    "Loading",
    "check_follower",
    "chosen_planner",
    "equipped",
    "limited",
    "load_follower",
    "recorder_for",
    "setting_of",
]


def limited(
    task: str | Task,
    n: int | None,
    timeout: float | None,
    max_tokens: int | None,
    verify: Verifier | None,
) -> Task:
    """The task, with the limits that were given beside it."""
    task = Task(task) if isinstance(task, str) else task
    limits = task.limits
    if timeout is not None:
        limits = replace(limits, timeout=timeout)
    if max_tokens is not None:
        limits = replace(limits, max_tokens=max_tokens)
    return replace(
        task,
        n=n if n is not None else task.n,
        limits=limits,
        verify=verify if verify is not None else task.verify,
    )


def chosen_planner(registry: Registry, planner: str | PlannerLike) -> Planner:
    """The planner itself, or the one that a spec names."""
    return as_planner(registry.make("planners", planner) if isinstance(planner, str) else planner)


def equipped(planner: Planner, registry: Registry, library: str, services: Services) -> Planner:
    """The planner, told of patterns and services, and behind the library where one is wanted."""
    # Set before the wrapping: a LibraryPlanner does not hand paragraphs on.
    planner.paragraphs = (*registry.paragraphs(), *services.paragraphs())
    return with_library(planner, library)


def setting_of(
    registry: Registry,
    sampler: str | Sampler,
    seed: int,
    sandbox: str | None,
    on_event: Listener | None,
    services: Mapping[str, Any] | None,
    recorder: Recorder | None,
    measure: BaseMeasure | Mapping[str, Any] | None,
) -> Setting:
    """The setting of a run, before its follower is loaded.

    Raises:
        UsageError: there is no such sampler, service or sandbox level, or the measure has no such
            option.
    """
    if measure is not None and not isinstance(measure, BaseMeasure):
        PLAIN.but(measure)  # refused before a model is loaded
    chosen: Sampler = registry.make("samplers", sampler) if isinstance(sampler, str) else sampler
    if sandbox is not None and sandbox not in LEVELS:
        raise UsageError(f"unknown sandbox level {sandbox!r}; one of {', '.join(LEVELS)}")

    def observe(event: Event) -> None:
        registry.manager.hook.observe(event=event)

    observers: list[Observer] = []
    # With no observer at all, a worker sends no events, so an empty hook must not count as one.
    if registry.manager.hook.observe.get_hookimpls():
        observers.append(as_observer(observe))
    if on_event is not None:
        observers.append(as_observer(on_event))
    if recorder is not None:
        observers.append(recorder)
    # Sorted, because zygotes are kept by their set of plugins; the built-ins are always loaded.
    plugins = tuple(sorted(p.name for p in registry.plugins if p.name != "builtin"))
    patterns = registry.patterns()
    made = Services({name: _service(registry, given) for name, given in (services or {}).items()})
    seen = tuple(observers)
    return Setting(chosen, int(seed), sandbox, seen, patterns, plugins, made, measure)


def _service(registry: Registry, given: Any) -> Any:
    return registry.make("services", given) if isinstance(given, str) else given


_followers: dict[str, BaseFollower] = {}


def check_follower(registry: Registry, follower: Any) -> None:
    """Refuse what is no follower, before a planner is paid; nothing is loaded.

    Raises:
        UsageError: there is no such follower.
    """
    from ..follower import from_loaded

    if isinstance(follower, str):
        registry.check("followers", follower)
    elif follower is not None:
        from_loaded(follower)


async def load_follower(registry: Registry, spec: Any) -> BaseFollower:
    """The follower of a spec; one that was loaded by name stays loaded for the next call.

    Args:
        registry: what knows its name.
        spec: the spec, a loaded follower, or None for the default.

    Raises:
        UsageError: there is no such follower.
        FollowerError: it cannot be loaded.
    """
    from ..follower import from_loaded

    if spec is not None and not isinstance(spec, str):
        return from_loaded(spec)
    # In a thread: weights are read, if only for their SHA-256.
    spec = await asyncio.to_thread(named_follower, spec)
    if spec not in _followers:
        _followers.clear()  # one model at a time: they are large
        _followers[spec] = from_loaded(await asyncio.to_thread(registry.make, "followers", spec))
    return _followers[spec]


class Loading:
    """The setting with its follower, which is loaded only once there is something to run."""

    def __init__(self, registry: Registry, spec: Any, setting: Setting) -> None:
        self.setting = setting
        self._registry, self._spec = registry, spec
        self._follower: BaseFollower | None = None
        self._loaded: LoadedSetting | None = None

    async def follower(self) -> BaseFollower:
        """The follower as it is, under no base measure."""
        if self._follower is None:
            self._follower = await load_follower(self._registry, self._spec)
        return self._follower

    async def __call__(self) -> LoadedSetting:
        """The setting with its follower."""
        if self._loaded is None:
            self._loaded = self.setting.load(await self.follower())
        return self._loaded


def recorder_for(trace: bool | Recorder, task: Task, seed: int) -> Recorder | None:
    """The recorder of a run, or None where no record is wanted."""
    recorder = Recorder() if trace is True else trace or None
    if recorder is not None:
        recorder.about(task=task.instruction, seed=seed)
    return recorder
