"""The cases as ordinary LLaMPPL models, on the installed llamppl and genlm-backend."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from genlm.backend.llm import AsyncTransformer
from llamppl import CachedCausalLM, LMContext, Model, smc_standard
from llamppl.util import log_softmax

from ..follower.chat_template import ChatPrompt
from ..protocol.requests import Tokens
from ..protocol.vocabulary import Vocabulary
from .cases import HINT_EVERY, MAX_CHARS, NOISE, Cell, prompts
from .synthetic import Loaded

__all__ = ["Stock"]

_BATCH_SIZE, _TIMEOUT_S = 20, 0.02
"""genlm-backend's defaults."""

_TUNED_TIMEOUT_S = 0.0005


class Stock:
    """LLaMPPL's own language model over genlm-backend's Hugging Face backend.

    Attributes:
        lm: LLaMPPL's language model.
    """

    def __init__(self, loaded: Loaded, vocabulary: Vocabulary) -> None:
        """Wrap a model.

        Args:
            loaded: the model.
            vocabulary: our vocabulary of it, so that the masks hold the same tokens.
        """
        self.lm = CachedCausalLM(AsyncTransformer(loaded.model, loaded.tokenizer))
        self._prompt = ChatPrompt(loaded.tokenizer)
        # Single bytes count otherwise in LLaMPPL, where there are any.
        ours = vocabulary.max_chars(MAX_CHARS) & vocabulary.text_mask
        lengths = self.lm.masks._token_lengths
        for token in self.lm.masks.token_length_mask(min=1, max=MAX_CHARS) ^ set(ours):
            lengths[token] = 1 if token in ours else 0

    def run(self, cell: Cell, run: int, *, tuned: bool) -> None:
        """One run of a case.

        Args:
            cell: what to run.
            run: number of the run, which seeds it.
            tuned: whether the prompts' keys and values are cached, a batch is as large as the
                particles are many, and the batching timer is short.
        """
        self.lm.clear_cache()  # it grows without bound
        backend = self.lm.model
        backend.batch_size = cell.n if tuned else _BATCH_SIZE
        backend.timeout = _TUNED_TIMEOUT_S if tuned else _TIMEOUT_S
        # LLaMPPL draws from numpy's global state.
        np.random.seed(run)
        asyncio.run(self._run(cell, run, tuned))

    async def _run(self, cell: Cell, run: int, tuned: bool) -> None:
        given = prompts(cell.case, run)
        prior = self._prompt(given.prior)
        proposal = self._prompt(given.proposal) if given.proposal else None
        if tuned:
            for tokens in filter(None, (prior, proposal)):
                self.lm.cache_kv(list(tokens))
        hints = {}
        if cell.case == "e":
            for written in range(HINT_EVERY, cell.tokens, HINT_EVERY):
                hints[written] = self._prompt(given.prior, given.hint(written))
        model = _Writer(
            cell,
            await _open(self.lm, prior),
            await _open(self.lm, proposal) if proposal else None,
            hints,
        )
        await smc_standard(model, cell.n)


class _Writer(Model):  # type: ignore[misc]  # llamppl ships no types
    """Writes a token a step.

    Attributes:
        prior: the context that the weights are of.
        proposal: the context that tokens are drawn from, or None for the same.
        hints: the prompt with a hint, by the number of tokens after which it is put.
    """

    def __init__(
        self, cell: Cell, prior: Any, proposal: Any | None, hints: dict[int, Tokens]
    ) -> None:
        super().__init__()
        self.cell = cell
        self.lm = prior.lm
        self.prior = prior
        self.proposal = proposal
        self.hints = hints

    def immutable_properties(self) -> set[str]:
        """What copies share."""
        return {"cell", "lm", "hints"}

    async def step(self) -> None:
        """Draw the next token."""
        written = self.prior.token_count
        if written in self.hints:
            text = self.prior.tokens[self.prior.prompt_token_count :]
            self.proposal = await _open(self.lm, self.hints[written], text)
        masked = self.cell.case in "bc"
        if masked:
            mask = self.lm.masks.token_length_mask(min=1, max=MAX_CHARS)
            # The prior is observed, so that its mass is in the weight; the proposal is only
            # restricted.
            await self.observe(self.prior.mask_dist(mask), True)
            if self.proposal is not None:
                await self.intervene(self.proposal.mask_dist(mask), True)
        if self.proposal is None:
            await self.sample(self.prior.next_token())
        else:
            await self.sample(self.prior.next_token(), proposal=self.proposal.next_token())
        if masked:
            self.score(np.random.normal(0.0, NOISE))
        if self.prior.token_count == self.cell.tokens:
            self.finish()


async def _open(lm: Any, prompt: Tokens, text: list[int] | None = None) -> Any:
    """A context under a prompt of ready token ids, with the text that is there already."""
    # Its own constructor takes a text and encodes it; here the ids must be those of our prompts.
    ctx = LMContext.__new__(LMContext)
    ctx._init_common(lm, "", 1.0, False, True)
    ctx.prompt_token_count = len(prompt)
    ctx.tokens = [*prompt, *(text or [])]
    ctx.next_token_logprobs = log_softmax(await lm.next_token_logprobs(ctx.tokens))
    return ctx
