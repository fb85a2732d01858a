"""What computes a follower's logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from ..protocol.prefix import Prefix
from ..protocol.requests import Tokens

__all__ = ["Backend"]


class Backend(Protocol):
    """What computes logits. Classes that inherit it need no ``forget`` of their own.

    Attributes:
        max_context: tokens a context may have, or None for no limit.
        forwards: forward passes made so far.
    """

    max_context: int | None
    forwards: int

    async def logits(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        """Next-token logits of distinct contexts: float32, shape (contexts, vocabulary)."""
        ...

    async def score(self, pairs: Sequence[tuple[Prefix, Tokens]]) -> list[torch.Tensor]:
        """Logits before each token of (context, tokens) pairs: float32, (tokens, vocabulary)."""
        ...

    def forget(self) -> None:
        """Drop all that was computed; there is nothing to drop where nothing is kept."""
        return None
