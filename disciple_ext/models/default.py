"""Which follower writes where nobody names one: SmolLM2 if it is here, else the embedded one."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from .catalogue import entry
from .store import holding, models_directory

__all__ = ["BETTER", "EMBEDDED", "FOLLOWER", "Default", "default_follower", "named_follower"]

FOLLOWER = "DISCIPLE_FOLLOWER"
"""Environment variable that names the default follower."""
BETTER = "smollm2"
EMBEDDED = "embedded"

_log = logging.getLogger("disciple_ext")
_told: set[str] = set()
_found: set[Path] = set()


@dataclass(frozen=True)
class Default:
    """The follower that writes where nobody names one.

    Attributes:
        spec: its spec.
        why: why it is this one.
        fix: the command that gets a better one, or the empty string.
    """

    spec: str
    why: str
    fix: str = ""


def default_follower() -> Default:
    """What ``DISCIPLE_FOLLOWER`` names, else SmolLM2 where it is usable, else the embedded one.

    Nothing is loaded or downloaded.
    """
    own = os.environ.get(FOLLOWER)
    if own:
        return Default(own, f"{FOLLOWER} names it")
    found = holding(entry(BETTER))
    if found.usable:
        return Default(BETTER, "it was added" if found.state == "added" else "it is installed")
    what = "damaged" if found.state == "damaged" else "not on this machine"
    return Default(EMBEDDED, f"{BETTER} is {what}", f"disciple models add {BETTER}")


def named_follower(spec: str | None) -> str:
    """The spec itself, or the default's.

    Where the default could be better, that is logged as a warning, once a process: without a
    handler of its own, Python writes it to standard error.
    """
    if spec is not None:
        return spec
    if not os.environ.get(FOLLOWER) and models_directory() in _found:
        # It was there a moment ago. Its SHA-256 takes a tenth of a second, and a loop asks often.
        return BETTER
    default = default_follower()
    if default.spec == BETTER:
        _found.add(models_directory())
    # The library itself prints nothing: whoever uses it may want that line elsewhere, or nowhere.
    if default.fix and default.why not in _told:
        _told.add(default.why)
        _log.warning(
            "the embedded follower writes, which is very small: %s; for better English: %s "
            "(%.0f MB, once); %s=%s keeps it, and this line away",
            *(default.why, default.fix, entry(BETTER).size / 1e6, FOLLOWER, EMBEDDED),
        )
    return default.spec
