"""One evaluation with several followers, each into a log of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ...errors import UsageError

__all__ = ["COMMAND", "places", "run_each"]

COMMAND = (sys.executable, "-m", "disciple_ext", "eval")
"""``disciple eval`` in a process of its own."""


def places(followers: Sequence[str], out: Path) -> dict[str, Path]:
    """Where each follower's log goes: a directory in ``out``, named after the follower.

    Raises:
        UsageError: two followers have one name.
    """
    if len(set(followers)) < len(followers):
        raise UsageError(f"name each follower once: {', '.join(followers)}")
    names = [spec.rstrip("/").split("/")[-1] for spec in followers]
    unique = len(set(names)) == len(names)
    # The whole specs where two models differ in their folder or backend only.
    chosen = names if unique else list(followers)
    folders = [re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") for name in chosen]
    if len(set(folders)) < len(folders):
        raise UsageError(f"the names of these followers are too much alike: {', '.join(followers)}")
    return {spec: out / folder for spec, folder in zip(followers, folders, strict=True)}


def run_each(
    suite: str,
    arguments: Sequence[str],
    logs: dict[str, Path],
    on_begin: Callable[[str, Path], None] | None = None,
) -> dict[str, int]:
    """Run ``disciple eval SUITE`` with each follower, one after the other.

    Each has a process of its own, which gives the model's memory back. A follower that fails keeps
    nobody waiting.

    Args:
        suite: name of the suite.
        arguments: options of ``disciple eval SUITE``.
        logs: the directory of each follower's log.
        on_begin: called with a follower and its directory before it is run.

    Returns:
        The exit code of each process; an interrupted one is the last.
    """
    codes: dict[str, int] = {}
    for spec, place in logs.items():
        if on_begin is not None:
            on_begin(spec, place)
        command = [*COMMAND, suite, *arguments, "--follower", spec, "--out", str(place)]
        codes[spec] = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
        # The interrupt is the user's, and is meant for all of them.
        if codes[spec] == 130:
            break
    return codes
