"""The viewer: one HTML file with its styles, its script and the records inside.

It loads nothing. A record's texts are untrusted: they are embedded as JSON in which ``<`` cannot
occur, the script puts them into the page as text only, and the page's policy allows no script but
its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

__all__ = ["embedded", "open_page", "page", "show"]

_SCRIPTS = ("decode.js", "wording.js", "draw.js", "program.js", "stage.js", "main.js")
_BEGIN = '<script type="application/json" id="records">'
_END = "</script>"


class _Record(Protocol):
    data: dict[str, Any]


def page(records: Sequence[_Record], names: Sequence[str] = ()) -> str:
    """The page that shows records, each under its name."""
    css = _asset("viewer.css")
    script = "\n".join(['"use strict";', *map(_asset, _SCRIPTS)])
    data = [
        {"name": names[i] if i < len(names) else "", "data": record.data}
        for i, record in enumerate(records)
    ]
    policy = (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": escape(policy),
        "css": css,
        "records": _BEGIN + _json(data) + _END,
        "script": script,
    }
    html = _asset("viewer.html")
    # One by one, and the texts last: what they say is never taken for a place to fill.
    for name in ("policy", "css", "script", "records"):
        before, _, after = html.partition(f"@{name}@")
        html = before + parts[name] + after
    return html


def embedded(html: str) -> Any:
    """The first record in a page.

    Raises:
        ValueError: the page has none.
    """
    _, found, rest = html.rpartition(_BEGIN)
    if not found:
        raise ValueError("the page holds no trace")
    return json.loads(rest.partition(_END)[0])[0]["data"]


def show(html: str) -> None:
    """Show a page below a notebook's cell, or else in the browser."""
    # Not imported: only a process that has it loaded already can be a notebook's.
    shell = sys.modules.get("IPython")
    kernel = shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None
    if kernel:
        from IPython import display

        tools: Any = display
        # In a frame without the notebook's origin: its script reaches nothing of the notebook.
        frame = (
            '<iframe title="Trace" sandbox="allow-scripts" style="width:100%;height:900px;'
            f'border:0" srcdoc="{escape(html)}"></iframe>'
        )
        tools.display(tools.HTML(frame))
        return
    open_page(html)


def open_page(html: str) -> tuple[Path, bool]:
    """Write a page into a new temporary folder, and ask the browser for it.

    Returns:
        The file, and whether there was a browser to open it.
    """
    # A folder of its own, which only this user can read: texts may be private.
    path = Path(tempfile.mkdtemp(prefix="disciple-trace-")) / "trace.html"
    path.write_text(html, encoding="utf-8")
    return path, webbrowser.open(path.as_uri())


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8").strip()


def _json(data: Any) -> str:
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _hash(text: str) -> str:
    # Browsers hash what stands between the tags, with line ends as line feeds.
    digest = hashlib.sha256(f"\n{text}\n".encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
