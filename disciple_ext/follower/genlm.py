"""Followers over genlm-backend's AsyncLM, and over LLaMPPL's CachedCausalLM that holds one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..model.prefix import Prefix
from ..model.requests import Tokens
from .chat import ChatPrompt
from .hf import vocabulary_of
from .host import HostFollower

__all__ = ["from_async_lm"]


class GenlmBackend:
    """Logits (here: log-probabilities) from an ``AsyncLM``'s own batched call."""

    max_context: int | None = None

    def __init__(self, lm: Any) -> None:
        self.lm = lm
        self.forwards = 0

    async def logits(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        """Next-token log-probabilities, float32, shape (contexts, vocabulary)."""
        self.forwards += 1
        rows = await self.lm.batch_next_token_logprobs([list(c.tokens) for c in contexts])
        return torch.as_tensor(rows).float().cpu()

    async def score(self, pairs: Sequence[tuple[Prefix, Tokens]]) -> list[torch.Tensor]:
        """Log-probabilities before each token of (context, tokens) pairs."""
        prefixes = [c.extend(tokens[:i]) for c, tokens in pairs for i in range(len(tokens))]
        rows = await self.logits(prefixes)
        return list(torch.split(rows, [len(tokens) for _, tokens in pairs]))


def from_async_lm(lm: Any) -> HostFollower:
    """Wrap a loaded ``AsyncLM`` or ``CachedCausalLM``."""
    inner = getattr(lm, "model", lm) if type(lm).__name__ == "CachedCausalLM" else lm
    tokenizer = inner.tokenizer
    vocabulary = vocabulary_of(tokenizer)
    name = f"{type(inner).__name__}:{tokenizer.name_or_path}"
    return HostFollower(GenlmBackend(inner), vocabulary, ChatPrompt(tokenizer), name=name)
