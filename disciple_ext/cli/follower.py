"""The option that names the follower, as all commands have it."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["FollowerName"]

FollowerName = Annotated[
    str | None,
    typer.Option(
        "--follower",
        # The default in words: which one it is depends on the machine.
        help="Who writes the text: smollm2, embedded, gguf:PATH, hf:ID_OR_PATH, vllm:ID_OR_PATH; "
        "default: what DISCIPLE_FOLLOWER names, else smollm2 if it was added, else embedded.",
    ),
]
