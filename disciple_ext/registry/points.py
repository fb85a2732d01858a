"""Where plugins are found: the entry points of installed distributions, ours and others'."""

from __future__ import annotations

from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points

from ..errors import PluginError

__all__ = ["GROUP", "builtin_point", "plugin_points"]

GROUP = "disciple_ext"
"""The entry-point group."""
_OURS = "disciple-ext"
_BUILTIN = "builtin"


def builtin_point() -> EntryPoint:
    """The entry point of what the package itself registers.

    Raises:
        PluginError: the package was not installed, or not since its entry points changed.
    """
    try:
        # By our distribution, not by name alone: another one could call its own entry point
        # "builtin".
        found = tuple(distribution(_OURS).entry_points.select(group=GROUP, name=_BUILTIN))
    except PackageNotFoundError:
        found = ()
    for point in found:
        return point
    raise PluginError(
        "disciple-ext is imported, but not installed, so its own samplers and planners are not "
        "found; install it: `pip install disciple-ext`, or `pip install -e .` in its source"
    )


def plugin_points() -> tuple[EntryPoint, ...]:
    """The entry points of all other distributions."""
    points = entry_points(group=GROUP)
    return tuple(p for p in points if p.dist is None or p.dist.name != _OURS)
