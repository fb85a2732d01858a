"""Followers over genlm-backend's AsyncLM, and over LLaMPPL's CachedCausalLM that holds one."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from ..errors import FollowerError
from ..protocol.prefix import Prefix
from ..protocol.requests import Tokens
from .backend import Backend
from .chat_template import ChatPrompt
from .hf import vocabulary_of
from .host import HostFollower

__all__ = ["GenlmBackend", "from_async_lm", "of_engine", "score_by_prefixes"]


class GenlmBackend(Backend):
    """Logits (here: log-probabilities) from an ``AsyncLM``'s own batched call.

    Attributes:
        lm: the ``AsyncLM``.
        size: log-probabilities in a row.
        max_context: tokens that a context may have, or None where the model does not say.
        forwards: batches asked for so far.
    """

    def __init__(self, lm: Any, *, size: int, max_context: int | None = None) -> None:
        self.lm = lm
        self.size = size
        self.max_context = max_context
        self.forwards = 0

    async def logits(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        """Next-token log-probabilities, float32, shape (contexts, vocabulary)."""
        self.forwards += 1
        rows = await self.lm.batch_next_token_logprobs([list(c.tokens) for c in contexts])
        rows = torch.as_tensor(rows).detach().float()
        if rows.shape[-1] != self.size:
            raise FollowerError(
                f"{type(self.lm).__name__} gives {rows.shape[-1]} log-probabilities for a "
                f"vocabulary of {self.size} tokens"
            )
        return rows

    async def score(self, pairs: Sequence[tuple[Prefix, Tokens]]) -> list[torch.Tensor]:
        """Log-probabilities before each token of (context, tokens) pairs."""
        return await score_by_prefixes(self, pairs)


async def score_by_prefixes(
    backend: Any, pairs: Sequence[tuple[Prefix, Tokens]]
) -> list[torch.Tensor]:
    """Answer a backend's ``score`` by its ``logits``: one row for each distinct prefix."""
    wanted = [[c.extend(tokens[:i]) for i in range(len(tokens))] for c, tokens in pairs]
    prefixes = list(dict.fromkeys(prefix for row in wanted for prefix in row))
    rows = await backend.logits(prefixes)
    index = {prefix: i for i, prefix in enumerate(prefixes)}
    return [rows[[index[prefix] for prefix in row]] for row in wanted]


def of_engine(llm: Any) -> tuple[Any, int]:
    """What a ``vllm.LLM`` knows of its model.

    Returns:
        The configurations, as :func:`~disciple_ext.follower.hf.vocabulary_of` reads them, and the
        tokens that a context may have: vLLM wants room for one token more.
    """
    config = llm.llm_engine.vllm_config.model_config
    generation = SimpleNamespace(**(config.try_get_generation_config() or {}))
    model = SimpleNamespace(config=config.hf_config, generation_config=generation)
    return model, int(config.max_model_len) - 1


def from_async_lm(lm: Any, *, name: str | None = None) -> HostFollower:
    """Wrap a loaded ``AsyncLM`` or ``CachedCausalLM``.

    Args:
        lm: what genlm-backend or LLaMPPL loaded.
        name: name for results; made of the class and the tokenizer where it is None.
    """
    inner = getattr(lm, "model", lm) if type(lm).__name__ == "CachedCausalLM" else lm
    tokenizer = inner.tokenizer
    model: Any = None
    max_context: int | None = None
    if hasattr(inner, "llm_engine"):  # AsyncVirtualLM: vLLM
        model, max_context = of_engine(inner.llm_engine)
    elif hasattr(getattr(inner, "model", None), "generation_config"):  # AsyncTransformer
        model = inner.model
        text = model.config.get_text_config()
        max_context = getattr(text, "max_position_embeddings", None)
    vocabulary = vocabulary_of(tokenizer, model)
    backend = GenlmBackend(inner, size=vocabulary.size, max_context=max_context)
    name = name or f"{type(inner).__name__}:{tokenizer.name_or_path}"
    return HostFollower(backend, vocabulary, ChatPrompt(tokenizer), name=name)
