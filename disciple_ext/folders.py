"""Where the package keeps things for a user, beside the models."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["CACHE", "cache_directory", "write_whole"]

CACHE = "DISCIPLE_CACHE"
"""Environment variable that names the directory of the cache."""


def cache_directory() -> Path:
    """``DISCIPLE_CACHE``, else ``disciple-ext`` in the user's cache directory (XDG)."""
    own = os.environ.get(CACHE)
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "disciple-ext"


def write_whole(path: Path, text: str) -> None:
    """Write a file as a whole or not at all: others may read it meanwhile. Makes its folder.

    Raises:
        OSError: the folder cannot be made or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, because os.replace is atomic only within one file system.
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, suffix=".part", delete=False
    ) as file:
        file.write(text)
    os.replace(file.name, path)
