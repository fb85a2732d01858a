"""``disciple library``: the programs that passed, and are used again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from ..planner.library.store import Entry, Library, default_folder
from .console import answer, answer_json, examples, note, table

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Programs that passed, used again for tasks of the same family (--library).",
)

Folder = Annotated[
    Path | None,
    typer.Option("--dir", help="The library; default: what DISCIPLE_LIBRARY names, or your own."),
]
Name = Annotated[str, typer.Argument(help="The program's name, or how it begins.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _library(folder: Path | None) -> Library:
    return Library(folder or default_folder())


@app.command("list", epilog=examples("disciple library list", "disciple library list --json"))
def list_(folder: Folder = None, as_json: AsJson = False) -> None:
    """List the programs: name, planner, uses, whether it is for a family, and its first task."""
    library = _library(folder)
    entries = library.entries()
    if as_json:
        answer_json([{**asdict(entry), "general": entry.general} for entry in entries])
    elif entries:
        answer(table([_row(entry) for entry in entries]))
    else:
        note(f"the library {library.folder} is empty; `disciple run --library on ...` fills it")


@app.command("show", epilog=examples("disciple library show 3f2a > program.py"))
def show(name: Name, folder: Folder = None, as_json: AsJson = False) -> None:
    """Print a program, and where it comes from."""
    entry = _library(folder).get(name)
    if as_json:
        answer_json({**asdict(entry), "general": entry.general})
        return
    note(f"{entry.name}, written by {entry.planner} on {entry.created}, for: {entry.task}")
    note(f"passed {len(entry.passed)} tasks, failed {len(entry.failed)}, used again {entry.uses}")
    answer(entry.source.rstrip())


@app.command("forget", epilog=examples("disciple library forget 3f2a"))
def forget(name: Name, folder: Folder = None) -> None:
    """Remove a program."""
    note(f"forgot {_library(folder).forget(name).name}")


@app.command("export", epilog=examples("disciple library export programs.jsonl"))
def export(
    file: Annotated[Path, typer.Argument(help="A new file: one conversation on each line.")],
    folder: Folder = None,
) -> None:
    """Write the programs as fine-tuning data: tasks and the programs that solved them."""
    from ..planner.chat.prompt import Briefing, fenced, messages
    from ..records.task import Task

    entries = _library(folder).entries()
    try:
        # "x": a file that is there may be data that somebody has worked on.
        with file.open("x", encoding="utf-8") as out:
            for entry in entries:
                said = fenced(entry.source.rstrip(), "python")
                asked = messages(Task(entry.task), (), Briefing(family=entry.general))
                talk = {"messages": [*asked, {"role": "assistant", "content": said}]}
                out.write(json.dumps(talk) + "\n")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    note(f"wrote {len(entries)} programs to {file}")


def _row(entry: Entry) -> list[str]:
    kind = "family" if entry.general else "one task"
    return [entry.name, entry.planner, f"{entry.uses} uses", kind, entry.task]
