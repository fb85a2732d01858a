"""``disciple samplers`` and ``disciple plugins``: what there is to choose from."""

from __future__ import annotations

import inspect
import math
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ..errors import PluginError
from ..registry import specs
from ..registry.plugins import load_plugins
from .console import answer, answer_json, note, table

__all__ = ["plugins", "samplers"]

AsJson = Annotated[bool, typer.Option("--json", help="Print the list as JSON.")]


def samplers(as_json: AsJson = False) -> None:
    """List the samplers, with kind, plugin, options and purpose.

    Weighted samplers estimate the evidence and give proper weights; search samplers give good
    candidates and promise nothing. Options are shown with their defaults, as they are written
    after a name: --sampler smc:ess_threshold=0.7
    """
    registry = load_plugins()
    rows: list[dict[str, Any]] = []
    for name, factory in sorted(registry.tables["samplers"].items()):
        try:
            kind = registry.make("samplers", name).kind
        except PluginError as error:  # one that fails must not hide the others
            note(f"warning: {error}")
            continue
        rows.append(
            {
                "name": name,
                "kind": kind,
                "plugin": registry.owners[("samplers", name)],
                "options": specs.options_of(factory),
                "about": _first_line(factory),
            }
        )
    if as_json:
        for row in rows:
            row["options"] = {name: _plain(value) for name, value in row["options"].items()}
        answer_json(rows)
        return
    for row in rows:
        row["options"] = specs.spell_options(row["options"]) or "-"
    answer(table([[str(cell) for cell in row.values()] for row in rows]))


def plugins(as_json: AsJson = False) -> None:
    """List the plugins, with version, distribution and hooks.

    Worker hooks run inside the sandbox, host hooks beside the weights. DISCIPLE_PLUGINS limits
    which plugins are loaded: names to load, or names to block with a leading -.
    """
    loaded = load_plugins().plugins
    if as_json:
        answer_json([asdict(plugin) for plugin in loaded])
        return
    rows = []
    for plugin in loaded:
        hooks = ", ".join(f"{hook.name} ({hook.side})" for hook in plugin.hooks)
        rows.append([plugin.name, plugin.version, plugin.origin, hooks or "-"])
    answer(table(rows))


def _plain(value: Any) -> Any:
    """A default as JSON has it, or the way Python writes it."""
    plain = value is None or isinstance(value, (bool, int, str))
    # JSON has no infinity, which may be an option's default.
    return value if plain or isinstance(value, float) and math.isfinite(value) else repr(value)


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
