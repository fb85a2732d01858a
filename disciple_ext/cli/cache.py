"""``disciple cache``: the planner's answers that were paid for, and are kept."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from .console import answer, answer_json, examples, table

__all__ = ["EXAMPLES", "app"]

EXAMPLES = ("disciple cache --json", "disciple cache clear --older-than 30")
CLEAR_EXAMPLES = ("disciple cache clear", "disciple cache clear --older-than 30 --json")

app = typer.Typer(rich_markup_mode=None, invoke_without_command=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Show which planners' answers are kept, and where.

    They are in DISCIPLE_CACHE, or in disciple-ext in the user's cache directory.
    """
    if context.invoked_subcommand is not None:
        return
    from ..planner.chat.cache import AnswerStore

    held = AnswerStore().holdings()
    if as_json:
        answer_json(asdict(held))
        return
    rows = [["file", held.path], ["answers", str(held.entries)], ["size", _size(held.bytes)]]
    rows += [[f"  {model}", str(count)] for model, count in held.models.items()]
    answer(table(rows))


@app.command("clear", epilog=examples(*CLEAR_EXAMPLES))
def clear(
    older_than: Annotated[
        float | None,
        typer.Option("--older-than", metavar="DAYS", help="Only answers older than this."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Forget answers."""
    from ..planner.chat.cache import AnswerStore

    store = AnswerStore()
    gone = store.clear(older_than=older_than)
    if as_json:
        answer_json({"path": str(store.path), "removed": gone})
    else:
        answer(f"{gone} answers removed from {store.path}")


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
