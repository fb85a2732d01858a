"""Models in GGUF files run by llama.cpp, a follower for disciple-ext: ``llamacpp:PATH``.

Read in this order: ``load`` (a file to a follower), ``backend`` (contexts to logits), ``cells``
(which sequences hold which texts), ``engine`` (one batch through the library), ``libraries`` (what
differs between the packages that bring llama.cpp).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from disciple_ext.registry.hookspecs import hookimpl

__all__ = ["register_followers"]


@hookimpl
def register_followers() -> dict[str, Callable[[str], Any]]:
    """The follower ``llamacpp``."""

    # The import stands inside: listing what there is should load neither torch nor llama.cpp.
    def llamacpp(argument: str) -> Any:
        from .load import from_spec

        return from_spec(argument)

    return {"llamacpp": llamacpp}
