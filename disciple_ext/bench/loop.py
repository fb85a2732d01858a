"""A bare Hugging Face loop: one batch, one cache for each prompt, multinomial draws."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache

from ..follower.chat_template import ChatPrompt
from ..protocol.requests import Tokens
from ..protocol.vocabulary import Vocabulary
from .cases import HINT_EVERY, MAX_CHARS, NOISE, Cell, prompts
from .synthetic import Loaded

__all__ = ["Loop"]


class Loop:
    """What one would write without a library. It neither resamples nor shares anything."""

    def __init__(self, loaded: Loaded, vocabulary: Vocabulary) -> None:
        self._model = loaded.model
        self._prompt = ChatPrompt(loaded.tokenizer)
        allowed = vocabulary.max_chars(MAX_CHARS) & vocabulary.text_mask
        self._allowed = torch.tensor(allowed.array, device=loaded.model.device)

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def run(self, cell: Cell, run: int, *, shared: bool) -> torch.Tensor:
        """One run of a case.

        Args:
            cell: what to run.
            run: number of the run, which seeds it.
            shared: whether the prompt is evaluated once and its cache repeated; else every row
                of the batch evaluates it, as ``generate`` does.

        Returns:
            The log weights, shape (particles,).
        """
        given = prompts(cell.case, run)
        device = self._model.device
        generator = torch.Generator(device).manual_seed(run)
        prior = _Batch(self._model, self._prompt(given.prior), cell.n, shared)
        proposal = prior
        if given.proposal:
            proposal = _Batch(self._model, self._prompt(given.proposal), cell.n, shared)
        weights = torch.zeros(cell.n, device=device)
        text = torch.empty((cell.n, 0), dtype=torch.long, device=device)
        masked = cell.case in "bc"
        for written in range(cell.tokens):
            if cell.case == "e" and written and written % HINT_EVERY == 0:
                prompt = self._prompt(given.prior, given.hint(written))
                proposal = _Batch(self._model, prompt, cell.n, shared, text)
            log_q = torch.log_softmax(proposal.logits, -1)
            if masked:
                within = log_q.masked_fill(~self._allowed, -torch.inf)
                log_mass = torch.logsumexp(within, -1)
            else:
                within, log_mass = log_q, torch.zeros_like(weights)
            token = torch.multinomial(within.exp(), 1, generator=generator)
            weights += log_mass
            if proposal is not prior:
                log_p = torch.log_softmax(prior.logits, -1)
                weights += (log_p - log_q).gather(1, token)[:, 0]
            if masked:
                noise = torch.randn(cell.n, generator=generator, device=device)
                weights += NOISE * noise
            text = torch.cat((text, token), 1)
            # The last token needs no forward pass: nothing is drawn after it.
            if written + 1 < cell.tokens:
                prior.append(token)
                if proposal is not prior:
                    proposal.append(token)
        return weights.cpu()


class _Batch:
    """A batch of texts under one prompt.

    Attributes:
        logits: of each row's next token: float32, shape (rows, vocabulary).
    """

    def __init__(
        self,
        model: Any,
        prompt: Tokens,
        rows: int,
        shared: bool,
        text: torch.Tensor | None = None,
    ) -> None:
        self.logits: torch.Tensor
        self._model = model
        self._cache = DynamicCache()
        start = torch.tensor([prompt], device=model.device)
        if shared:
            self._forward(start)
            self._cache.batch_repeat_interleave(rows)
            self.logits = self.logits.expand(rows, -1)
            # The prompt is in the cache already; only a text behind it is still to be evaluated.
            start = start[:, :0]
        ids = start.expand(rows, -1)
        if text is not None:
            ids = torch.cat((ids, text), 1)
        if ids.shape[1]:
            self._forward(ids)

    def append(self, token: torch.Tensor) -> None:
        """Add a token to each row: shape (rows, 1)."""
        self._forward(token)

    def _forward(self, ids: torch.Tensor) -> None:
        output = self._model(
            input_ids=ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1
        )
        # float32 for the sums over the vocabulary, whatever the model computes in.
        self.logits = output.logits[:, -1].float()
