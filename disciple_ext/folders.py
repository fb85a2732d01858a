"""Where the package keeps things for a user, beside the models."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CACHE", "cache_directory"]

CACHE = "DISCIPLE_CACHE"
"""Environment variable that names the directory of the cache."""


def cache_directory() -> Path:
    """``DISCIPLE_CACHE``, else ``disciple-ext`` in the user's cache directory (XDG)."""
    own = os.environ.get(CACHE)
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "disciple-ext"
