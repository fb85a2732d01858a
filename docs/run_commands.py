"""Run a page's commands, and put what they print below them: python docs/run_commands.py PAGE...

The pages are run in order in one empty folder. On a page, a block ``python title="x.py"`` is
written to that file, a block ``sh`` is run, and a block ``text`` right after it is what it printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

BLOCK = re.compile(r'^```(sh|text|\w+ title="[^"]+")\n(.*?)^```$', re.DOTALL | re.MULTILINE)


def output(command: str, folder: Path) -> str:
    """What a shell prints, standard error included, without the spaces that end lines."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "90", "NO_COLOR": "1"}
    # The pages show the model that is part of the package, whatever else is on this machine.
    environment["DISCIPLE_FOLLOWER"] = "embedded"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def run(page: str, folder: Path, compare: Callable[[str, str, str], None] | None = None) -> str:
    """Run a page's text in a folder, and return it with what its commands printed.

    Args:
        page: the page's text.
        folder: where its commands run.
        compare: called with each command, what the page shows, and what the command printed.
    """
    ran = ["", ""]  # the last command, and what it printed

    def block(match: re.Match[str]) -> str:
        kind, text = match[1], match[2]
        if kind == "sh":
            ran[:] = text, output(text, folder)
        elif kind == "text":
            if compare is not None:
                compare(ran[0], text, ran[1])
            return f"```text\n{ran[1]}```"
        else:
            name = kind.split('"')[1]
            (folder / name).write_text(text, encoding="utf-8")
        return match[0]

    return BLOCK.sub(block, page)


def main(pages: list[Path]) -> None:
    """Bring the pages up to date."""
    with tempfile.TemporaryDirectory() as folder:
        for page in pages:
            page.write_text(run(page.read_text("utf-8"), Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
