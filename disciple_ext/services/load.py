"""Services of the user's own, in a spec: ``python:FILE.py:NAME`` or ``python:MODULE:NAME``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from ..errors import UsageError

__all__ = ["from_python"]


def from_python(argument: str) -> Any:
    """The object of a name in a file or a module. It runs on the host, with the user's rights.

    Args:
        argument: ``FILE.py:NAME`` or ``MODULE:NAME``.

    Raises:
        UsageError: there is no such file, module or name, or importing it fails.
    """
    place, colon, name = argument.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise UsageError(
            f"{argument!r} names no object: write python:FILE.py:NAME or python:MODULE:NAME"
        )
    try:
        module = _file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        return getattr(module, name)
    except Exception as error:  # the user's own code
        raise UsageError(
            f"the service {argument!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def _file(path: Path) -> Any:
    name = f"disciple_service_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(f"no file {path}")
    # Registered before it runs: dataclasses look their module up by name.
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
