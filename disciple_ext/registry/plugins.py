"""Find, load, block and list plugins, and look up what they registered."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from inspect import signature
from typing import Any, Literal

import pluggy

from ..errors import DiscipleError, PluginError, UsageError
from ..protocol.follower import BaseFollower
from . import hookspecs, specs
from .contracts import check_hooks, check_table
from .points import builtin_point, plugin_points

__all__ = ["Hook", "PluginInfo", "Registry", "load_plugins"]

Side = Literal["host", "worker"]

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
class Hook:
    """A hook that a plugin implements.

    Attributes:
        name: its name.
        side: where it runs: ``worker`` (inside the sandbox) or ``host``.
    """

    name: str
    side: Side


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
    hooks: tuple[Hook, ...] = ()

    def __str__(self) -> str:
        return f"{self.name!r} ({self.origin} {self.version})"


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

    def check(self, kind: str, spec: str) -> None:
        """Refuse a spec whose name nobody registered; nothing is made.

        Raises:
            UsageError: there is no such name.
        """
        name, _, _ = _parted(kind, spec)
        if name not in self.tables[kind]:
            known = ", ".join(sorted(self.tables[kind]))
            raise UsageError(f"unknown {kind.rstrip('s')} {spec!r}; there are: {known}")

    def make(self, kind: str, spec: str, **options: Any) -> Any:
        """Make the object that a spec names.

        A planner's, follower's or service's factory gets what follows ``NAME:`` as it stands (a
        follower's also what follows ``NAME,``, for options without a path), a sampler's gets it as
        options (see :mod:`disciple_ext.registry.specs`). The others take nothing. Options of the
        base measure at the end of a follower's spec are no matter of its factory: they become the
        follower's ``base_measure``.

        Args:
            kind: such as ``"planners"``.
            spec: the spec.
            **options: handed to a planner's or a follower's factory, by keyword.

        Raises:
            UsageError: there is no such name, its factory takes no such option, or what follows
                the name is malformed, unknown or refused.
            PluginError: the factory fails without options, or makes no sampler.
        """
        if kind == "followers":
            spec, measure = specs.split_measure(spec)
            if measure:
                return _based(self.make(kind, spec, **options), measure)
        name, colon, argument = _parted(kind, spec)
        what, table = kind.rstrip("s"), self.tables[kind]
        self.check(kind, spec)
        if kind in ("planners", "followers", "services"):
            for option in set(options) - set(signature(table[name]).parameters):
                flag = "--no-cache" if option == "cache" else f"--{option}"
                raise UsageError(f"the {what} {name!r} has no use for {flag}")
            return table[name](argument, **options)
        if colon and kind != "samplers":
            raise UsageError(f"the {what} {name!r} takes no argument")
        if colon:
            made = specs.call(what, name, table[name], argument)
        else:
            made = self._call(kind, name)
        if kind == "samplers":
            self._check_sampler(name, made)
        return made

    def _call(self, kind: str, name: str) -> Any:
        try:
            return self.tables[kind][name]()
        except DiscipleError:
            raise
        except Exception as error:  # third-party code
            raise PluginError(
                f"the {kind.rstrip('s')} {name!r} of the plugin {self.owners[kind, name]!r} cannot "
                f"be made: {type(error).__name__}: {error}"
            ) from error

    def _check_sampler(self, name: str, made: Any) -> None:
        kind = getattr(made, "kind", None)
        if kind not in ("weighted", "search") or not isinstance(getattr(made, "name", None), str):
            raise PluginError(
                f"the plugin {self.owners['samplers', name]!r} gives {name!r}, which makes no "
                f"sampler but a {type(made).__name__}: a sampler has a name, and its kind is "
                f"'weighted' or 'search', not {kind!r}"
            )


def _parted(kind: str, spec: str) -> tuple[str, str, str]:
    """A spec's name, what stands behind it, and the argument."""
    name, colon, argument = spec.partition(":")
    if kind == "followers" and "," in name:  # options of one that needs no path
        return spec.partition(",")
    return name, colon, argument


def _based(made: Any, measure: Mapping[str, Any]) -> BaseFollower:
    """A loaded follower whose texts are, where nobody says otherwise, under a base measure."""
    from ..follower import from_loaded

    follower = from_loaded(made)
    follower.base_measure = follower.base_measure.but(measure)
    return follower


def load_plugins(
    *,
    installed: bool = True,
    only: Collection[str] | None = None,
    side: Side = "host",
) -> Registry:
    """Load the built-ins and, unless switched off, every installed plugin.

    ``DISCIPLE_PLUGINS`` limits them: a comma-separated list of plugin names to load (empty for
    none), or of names to block, each with a leading ``-``. A plugin that cannot be imported or
    breaks its contract is named in one warning, and skipped.

    Args:
        installed: False for the built-ins alone.
        only: names of the plugins to load, in place of what the environment says.
        side: ``"worker"`` asks plugins for what lives in the sandbox, and for nothing else.

    Raises:
        PluginError: two plugins have one name, or registered one.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    registry = Registry(manager, tables={kind: {} for kind in _TABLES})
    point = builtin_point()
    # The built-ins come first and are not asked of the environment: blocking them leaves nothing.
    own = _info(point)
    _add(registry, point.load(), own, side)
    for point in _chosen(own, only) if installed else ():
        try:
            plugin = point.load()
        except Exception as error:  # third-party code: name it and go on without it
            _skip(_info(point), f"cannot be imported: {type(error).__name__}: {error}")
        else:
            _add(registry, plugin, _info(point), side)
    return registry


def _chosen(own: PluginInfo, only: Collection[str] | None) -> Sequence[EntryPoint]:
    """The entry points to load; no two of them have one name."""
    found = plugin_points()
    if only is None:
        wanted = _wanted({point.name for point in found})
        chosen = [point for point in found if point.name in wanted]
    else:
        chosen = [point for point in found if point.name in only]
    seen = {own.name: own}
    for info in map(_info, chosen):
        if info.name in seen:
            raise PluginError(
                f"two plugins have one name: {seen[info.name]} and {info}; uninstall one of their "
                f"distributions, or do without plugins of that name: DISCIPLE_PLUGINS=-{info.name}"
            )
        seen[info.name] = info
    return chosen


def _wanted(found: Collection[str]) -> set[str]:
    """Of the names found, those that DISCIPLE_PLUGINS leaves."""
    setting = os.environ.get("DISCIPLE_PLUGINS")
    if setting is None:
        return set(found)
    names = [n.strip() for n in setting.split(",") if n.strip()]
    blocked = {n[1:] for n in names if n.startswith("-")}
    chosen = {n for n in names if not n.startswith("-")}
    unknown = sorted((blocked | chosen) - set(found))
    if unknown:
        _warn(
            f"DISCIPLE_PLUGINS names what is not installed: {', '.join(map(repr, unknown))}; "
            f"installed are: {', '.join(sorted(found)) or 'none'}"
        )
    # Names to block alone leave all the others.
    return (chosen if chosen or not blocked else set(found)) - blocked


def _info(point: EntryPoint) -> PluginInfo:
    dist = point.dist
    return PluginInfo(point.name, dist.version if dist else "?", dist.name if dist else "?")


def _add(registry: Registry, plugin: Any, info: PluginInfo, side: Side) -> None:
    manager, name = registry.manager, info.name
    loaded = hookspecs.WORKER if side == "worker" else (*hookspecs.WORKER, *hookspecs.HOST)
    try:
        check_hooks(plugin)
        manager.register(plugin, name)
        manager.check_pending()
        hooks = {
            # Called one by one, not by pluggy's hook: so the plugin that breaks can be named and
            # skipped.
            caller.name: implementation.function
            for caller in manager.get_hookcallers(plugin) or ()
            for implementation in caller.get_hookimpls()
            if implementation.plugin is plugin
        }
        found = {
            kind: check_table(hook, hooks[hook]())
            for kind, hook in _TABLES.items()
            # A worker must not run host hooks: those may import torch or start threads.
            if hook in hooks and hook in loaded
        }
        twice = found.get("masks", {}).keys() & found.get("patterns", {}).keys()
        if twice:
            raise TypeError(f"{min(twice)!r} is both a mask and a pattern of it")
    except Exception as error:  # third-party code: name it and go on without it
        # It may have been registered before it broke, and its `observe` would still be called.
        if manager.has_plugin(name):
            manager.unregister(name=name)
        _skip(info, f"breaks its contract: {error}")
        return
    # Only now, when the whole plugin is known to be sound: none is ever half registered.
    for kind, table in found.items():
        for key, factory in table.items():
            # Outside the `try`: a clash is the user's to settle, so it is an error and not a skip.
            _refuse_twice(registry, kind, key, info)
            registry.tables[kind][key] = factory
            registry.owners[kind, key] = name
    order = (*hookspecs.WORKER, *hookspecs.HOST)
    offered = tuple(
        Hook(hook, "worker" if hook in hookspecs.WORKER else "host")
        for hook in sorted(hooks, key=order.index)
    )
    registry.plugins.append(PluginInfo(name, info.version, info.origin, offered))


def _refuse_twice(registry: Registry, kind: str, key: str, info: PluginInfo) -> None:
    # Programs find masks and patterns in one namespace.
    for other in ("masks", "patterns") if kind in ("masks", "patterns") else (kind,):
        owner = registry.owners.get((other, key))
        if owner is not None and owner != info.name:
            (first,) = [plugin for plugin in registry.plugins if plugin.name == owner]
            raise PluginError(
                f"the plugins {first} and {info} both register the {kind.rstrip('s')} {key!r}; "
                f"block one with DISCIPLE_PLUGINS=-{info.name}"
            )


def _skip(info: PluginInfo, what: str) -> None:
    _warn(f"the plugin {info} is skipped: it {what}")


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=4)
