"""The option that names the follower, as all commands have it."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["FollowerName"]

# Words, not a name: which follower it is depends on the machine.
_DEFAULT = "smollm2 where it was added, else embedded; DISCIPLE_FOLLOWER names another"

FollowerName = Annotated[
    str | None,
    typer.Option(
        "--follower",
        help="Who writes the text: smollm2, embedded, gguf:PATH, hf:ID_OR_PATH, vllm:ID_OR_PATH.",
        show_default=_DEFAULT,
    ),
]
