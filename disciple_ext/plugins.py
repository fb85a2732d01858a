"""Find, load, block and list plugins, and look up what they registered."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Literal

import pluggy

from . import hookspecs
from .errors import PluginError, UsageError

__all__ = ["PluginInfo", "Registry", "load_plugins"]

_TABLES = {
    "samplers": "register_samplers",
    "masks": "register_masks",
    "patterns": "register_patterns",
    "planners": "register_planners",
    "followers": "register_followers",
    "services": "register_services",
    "suites": "register_suites",
}


@dataclass(frozen=True)
class PluginInfo:
    """One loaded plugin.

    Attributes:
        name: its entry point's name.
        version: version of its distribution.
        origin: name of its distribution.
        hooks: hooks that it implements.
    """

    name: str
    version: str
    origin: str
    hooks: tuple[str, ...]


@dataclass
class Registry:
    """What all plugins registered: for each kind, a dict from name to factory."""

    manager: pluggy.PluginManager
    plugins: list[PluginInfo] = field(default_factory=list)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    owners: dict[tuple[str, str], str] = field(default_factory=dict)

    def patterns(self) -> dict[str, Any]:
        """The masks and patterns, by the name under which programs find them."""
        patterns = {name: made for name, (made, _) in self.tables["patterns"].items()}
        return {**self.tables["masks"], **patterns}

    def paragraphs(self) -> tuple[str, ...]:
        """What plugins say of their masks and patterns, for planners: one paragraph each."""
        told = {name: said for name, (_, said) in self.tables["patterns"].items()}
        for name, mask in self.tables["masks"].items():
            if self.owners[("masks", name)] != "builtin":
                told[name] = inspect.cleandoc(mask.__doc__ or "a mask").partition("\n\n")[0]
        return tuple(f"`{name}`: {told[name]}" for name in sorted(told))

    def make(self, kind: str, spec: str) -> Any:
        """Make the object that a spec ``NAME`` or ``NAME:ARGUMENT`` names.

        Raises:
            UsageError: there is no such name.
        """
        name, _, argument = spec.partition(":")
        table = self.tables[kind]
        if name not in table:
            known = ", ".join(sorted(table))
            raise UsageError(f"unknown {kind.rstrip('s')} {spec!r}; there are: {known}")
        if kind in ("planners", "followers"):
            return table[name](argument)
        if argument:
            raise UsageError(f"the {kind.rstrip('s')} {name!r} takes no argument")
        return table[name]()


def load_plugins(
    *,
    installed: bool = True,
    only: Collection[str] | None = None,
    side: Literal["host", "worker"] = "host",
) -> Registry:
    """Load the built-ins and, unless switched off, every installed plugin.

    ``DISCIPLE_PLUGINS`` limits them: a comma-separated list of plugin names to load (empty for
    none), or of names to block, each with a leading ``-``.

    Args:
        installed: False for the built-ins alone.
        only: names of the plugins to load, in place of what the environment says.
        side: ``"worker"`` asks plugins for what lives in the sandbox, and for nothing else.

    Raises:
        PluginError: two plugins registered one name.
    """
    from . import builtin

    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    registry = Registry(manager, tables={kind: {} for kind in _TABLES})
    hooks = hookspecs.WORKER if side == "worker" else tuple(_TABLES.values())
    _add(registry, builtin, "builtin", hooks, version=_version(), origin="disciple-ext")
    if installed:
        for point in entry_points(group=hookspecs.PROJECT):
            if point.name in only if only is not None else _wanted(point.name):
                try:
                    plugin = point.load()
                except Exception as error:  # third-party code: name it and go on without it
                    _warn(point.name, f"cannot be imported: {type(error).__name__}: {error}")
                    continue
                dist = point.dist
                _add(
                    registry,
                    plugin,
                    point.name,
                    hooks,
                    version=dist.version if dist else "?",
                    origin=dist.name if dist else "?",
                )
    return registry


def _add(
    registry: Registry,
    plugin: Any,
    name: str,
    hooks: Collection[str],
    *,
    version: str,
    origin: str,
) -> None:
    manager = registry.manager
    try:
        manager.register(plugin, name)
        manager.check_pending()
        found = {}
        for kind, hook in _TABLES.items():
            if hook in hooks and getattr(plugin, hook, None) is not None:
                table = getattr(plugin, hook)()
                if not isinstance(table, dict):
                    raise TypeError(f"{hook} returned {type(table).__name__}, not a dict")
                found[kind] = table
    except Exception as error:
        if manager.has_plugin(name):
            manager.unregister(name=name)
        _warn(name, f"breaks its contract: {error}")
        return
    for kind, table in found.items():
        for key, factory in table.items():
            if key in registry.tables[kind]:
                other = registry.owners[(kind, key)]
                raise PluginError(
                    f"the plugins {other!r} and {name!r} both register the {kind.rstrip('s')} "
                    f"{key!r}; block one with DISCIPLE_PLUGINS=-{name}"
                )
            registry.tables[kind][key] = factory
            registry.owners[(kind, key)] = name
    offered = tuple(h for h in (*hookspecs.WORKER, *hookspecs.HOST) if hasattr(plugin, h))
    registry.plugins.append(PluginInfo(name, version, origin, offered))


def _wanted(name: str) -> bool:
    setting = os.environ.get("DISCIPLE_PLUGINS")
    if setting is None:
        return True
    names = [n.strip() for n in setting.split(",") if n.strip()]
    blocked = {n[1:] for n in names if n.startswith("-")}
    chosen = {n for n in names if not n.startswith("-")}
    return name not in blocked and (name in chosen or bool(blocked and not chosen))


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("disciple-ext")
    except PackageNotFoundError:
        return "uninstalled"


def _warn(name: str, what: str) -> None:
    warnings.warn(f"the plugin {name!r} is skipped: it {what}", RuntimeWarning, stacklevel=3)
