"""Every hook that a plugin may implement, on one page.

A plugin is a module or class with functions marked ``@disciple_ext.hookimpl``, found through the
entry-point group ``disciple_ext``. Each ``register_*`` hook is called once, when plugins are
loaded, and returns a dict from names to factories (called without arguments unless said
otherwise). Two plugins that give one name are an error that names both; a plugin that cannot be
imported, whose hook raises, or that gives something else (:mod:`disciple_ext.registry.contracts`)
is named in one warning and skipped.

Sides: *worker* hooks run where the program runs, inside the sandbox: they may not start threads
or import torch. *Host* hooks run where weights, keys, files and the network are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model.masks.base import Mask
    from ..planner.base import PlannerLike
    from ..protocol.follower import Follower
    from ..records.events import Event
    from ..samplers.base import Sampler

__all__ = ["HOST", "PROJECT", "WORKER", "hookimpl", "hookspec"]

PROJECT = "disciple_ext"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

WORKER = ("register_samplers", "register_masks", "register_patterns")
HOST = (
    "register_planners",
    "register_followers",
    "register_services",
    "register_suites",
    "register_commands",
    "observe",
)


@hookspec
def register_samplers() -> dict[str, Callable[[], Sampler]]:  # type: ignore[empty-body]
    """Worker side. Inference algorithms: name to factory.

    Named parameters of a factory that have defaults are the sampler's options: what follows
    ``NAME:`` in a spec is passed to them (:mod:`disciple_ext.registry.specs`).
    """


@hookspec
def register_masks() -> dict[str, type[Mask]]:  # type: ignore[empty-body]
    """Worker side. Masks, by the name under which programs see them."""


@hookspec
def register_patterns() -> dict[str, tuple[Any, str]]:  # type: ignore[empty-body]
    """Worker side. Names put into programs: name to (object, paragraph for the tutorial)."""


@hookspec
def register_planners() -> dict[str, Callable[..., PlannerLike]]:  # type: ignore[empty-body]
    """Host side. Planners: name to factory, called with what follows ``NAME:`` in the spec.

    A factory that also takes ``cache``, ``record`` or ``prices`` by keyword gets what the command
    line's ``--no-cache``, ``--record`` and ``--prices`` say; with one that does not, they are an
    error.
    """


@hookspec
def register_followers() -> dict[str, Callable[[str], Follower]]:  # type: ignore[empty-body]
    """Host side. Followers: name to factory, called with what follows ``NAME:`` in the spec."""


@hookspec
def register_services() -> dict[str, Callable[[str], Any]]:  # type: ignore[empty-body]
    """Host side. Services: name to factory, called with what follows ``NAME:`` in the spec.

    What a factory returns is described in :mod:`disciple_ext.services`. A program reaches only what
    the user gave to its run, under the name that it was given.
    """


@hookspec
def register_suites() -> dict[str, Callable[[], Any]]:  # type: ignore[empty-body]
    """Host side. Evaluation suites: name to factory of an ``evaluation.suite.Suite``."""


@hookspec
def register_commands(cli: Any) -> None:
    """Host side. Add commands to the ``disciple`` command line, a ``typer.Typer``."""


@hookspec
def observe(event: Event) -> None:
    """Host side. Called with every event of every run, a copy that cannot alter the run."""
