"""``disciple view``, and ``--trace`` of the commands that run programs."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..errors import DiscipleError, UsageError
from ..trace.record import Record, Recorder, target
from ..trace.viewer import open_page, page
from .console import answer, note

__all__ = ["EXAMPLES", "Trace", "tracing", "view"]

EXAMPLES = (
    "disciple view run.html",
    "disciple view smc.json is.json",
    "disciple view smc.json is.json --out compared.html",
)

Trace = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Record what inference does, and write it to name.html (the viewer, one file) or "
        "name.json (the data, for `disciple view`).",
    ),
]


def view(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Traces: name.json or name.html.")
    ],
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE.html", help="Write the viewer there; open nothing."),
    ] = None,
) -> None:
    """Open the viewer of a trace in the browser; with two, compare them."""
    records = [Record.load(name) for name in files]
    html = page(records, [Path(name).stem for name in files] if len(files) > 1 else ())
    if out is not None:
        if target(out) != "html":
            raise UsageError(f"the viewer is a page: name it name.html, not {out}")
        _write(Path(out), html)
        answer(out)
        return
    if len(files) == 1 and Path(files[0]).suffix.lower() == ".html":
        # A page is opened as it is, with whatever version of the viewer wrote it.
        path = Path(files[0]).resolve()
        opened = webbrowser.open(path.as_uri())
    else:
        path, opened = open_page(html)
    if not opened:
        note("no browser was found; open this file in one:")
    answer(str(path))


@contextmanager
def tracing(path: str | None, *, quiet: bool = False) -> Iterator[Recorder | None]:
    """A recorder whose record is written at the end, also where an error ends the run.

    Raises:
        UsageError: the file's name or folder will not do; this comes before anything is run.
    """
    if path is None:
        yield None
        return
    # Here already: a name that will not do should be refused before anything is paid for.
    target(path)
    recorder = Recorder()
    try:
        yield recorder
    except DiscipleError as error:
        recorder.close(error)
        _save(recorder, path, quiet)
        raise
    _save(recorder, path, quiet)


def _save(recorder: Recorder, path: str, quiet: bool) -> None:
    record = recorder.record()
    text = record.to_html() if target(path) == "html" else record.to_json() + "\n"
    _write(Path(path), text)
    if not quiet:
        note(f"trace: {path}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
