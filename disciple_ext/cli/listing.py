"""``disciple samplers`` and ``disciple plugins``: what there is to choose from."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ..plugins import load_plugins
from .console import answer, answer_json, table

__all__ = ["plugins", "samplers"]

AsJson = Annotated[bool, typer.Option("--json", help="Print the list as JSON.")]


def samplers(as_json: AsJson = False) -> None:
    """List the samplers: name, kind, plugin, and what it does.

    Weighted samplers estimate the evidence and give proper weights; search samplers give good
    candidates and promise nothing.
    """
    registry = load_plugins()
    rows = []
    for name, factory in sorted(registry.tables["samplers"].items()):
        rows.append(
            {
                "name": name,
                "kind": registry.make("samplers", name).kind,
                "plugin": registry.owners[("samplers", name)],
                "about": _first_line(factory),
            }
        )
    if as_json:
        answer_json(rows)
        return
    answer(table([[str(cell) for cell in row.values()] for row in rows]))


def plugins(as_json: AsJson = False) -> None:
    """List the loaded plugins, with version, distribution and hooks.

    DISCIPLE_PLUGINS limits which are loaded: names to load, or names to block with a leading -.
    """
    loaded = load_plugins().plugins
    if as_json:
        answer_json([asdict(plugin) for plugin in loaded])
        return
    answer(table([[p.name, p.version, p.origin, ", ".join(p.hooks) or "-"] for p in loaded]))


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
