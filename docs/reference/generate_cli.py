"""Write cli.md from the commands' own help: python docs/reference/generate_cli.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMANDS = (
    "",
    "run",
    "plan",
    "exec",
    "check",
    "demo",
    "doctor",
    "samplers",
    "plugins",
    "new-plugin sampler",
    "cache",
    "cache clear",
    "library list",
    "library show",
    "library forget",
    "library export",
    "models add",
    "models list",
    "models remove",
    "eval collie",
    "eval puzzles",
    "eval words",
    "eval convert",
    "eval merge",
    "eval scale",
    "eval many",
    "judge",
    "view",
    "report",
    "bench sandbox",
    "bench engine",
    "bench masks",
)
PAGE = Path(__file__).with_name("cli.md")

HEAD = """\
# Command line

This page is made from the help of the commands by `python docs/reference/generate_cli.py`.

The answer goes to standard output and everything else to standard error. On a terminal, control
characters in texts are shown as escapes; into a pipe, texts go as they are. `NO_COLOR` is
respected. Ctrl-C ends a command within a second with exit code 130, and leaves no half-written
file.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for command in COMMANDS:
        title = f"disciple {command}".strip()
        parts.append(f"## {title}\n\n```text\n{help_text(command)}\n```\n")
    return "\n".join(parts)


def help_text(command: str) -> str:
    """The help of one command, 90 columns wide."""
    done = subprocess.run(
        [sys.executable, "-m", "disciple_ext", *command.split(), "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "90", "NO_COLOR": "1"},
    )
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
