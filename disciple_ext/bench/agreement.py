"""Do ours and stock's correct log-probabilities agree? Nobody should time what is wrong."""

from __future__ import annotations

import asyncio

import numpy as np
import torch

from ..errors import DiscipleError
from ..follower.host import HostFollower
from ..protocol.prefix import Prefix
from ..protocol.requests import LogProbs, Mass, Score, Tokens
from .cases import MAX_CHARS, prompts
from .stock import Stock

__all__ = ["TOLERANCE", "check_agreement"]

TOLERANCE = 1e-4
"""Largest difference allowed, in nats."""

_TEMPERATURES = (1.0, 0.7)


def check_agreement(follower: HostFollower, stock: Stock, tokens: int = 6) -> float:
    """Compare log-probabilities along given tokens, where nothing is random.

    The tokens are scored one by one, all at once, and as the mass of a mask, under two prompts of
    different length in the same batches. Stock's side is its one-by-one path without any cache,
    which is the one of its paths that is right.

    Args:
        follower: ours.
        stock: LLaMPPL's.
        tokens: length of the text, in tokens.

    Returns:
        The largest difference, in nats.

    Raises:
        DiscipleError: it is more than :data:`TOLERANCE`.
    """
    vocabulary = follower.vocabulary
    mask = vocabulary.max_chars(MAX_CHARS) & vocabulary.text_mask
    text = tuple(int(t) for t in np.random.default_rng(0).choice(sorted(mask), tokens))
    # A number that no measured run has, so that nothing of this is left in a cache for one.
    given = prompts("c", 999_999)
    both = [follower.prompt(p) for p in (given.prior, given.proposal) if p is not None]

    async def ours(temperature: float) -> list[float]:
        contexts = [Prefix.of(p) for p in both]
        asked = [Score(c, text, temperature) for c in contexts]
        masses, vectors = [], []
        for i in range(tokens):
            for context in contexts:
                now = context.extend(text[:i])
                masses.append(follower.ask(Mass(now, mask, temperature)))
                vectors.append(follower.ask(LogProbs(now, temperature)))
        scores, rows, log_masses = await asyncio.gather(
            asyncio.gather(*map(follower.ask, asked)),
            asyncio.gather(*vectors),
            asyncio.gather(*masses),
        )
        single = [float(row[text[i // len(both)]]) for i, row in enumerate(rows)]
        return [*(s for score in scores for s in score), *single, *log_masses]

    def theirs(temperature: float) -> list[float]:
        rows = {
            (p, i): _stock_row(stock, (*p, *text[:i]), temperature)
            for p in both
            for i in range(tokens)
        }
        single = [rows[p, i][text[i]] for i in range(tokens) for p in both]
        scores = [rows[p, i][text[i]] for p in both for i in range(tokens)]
        ids = torch.tensor(list(mask))
        masses = [rows[p, i][ids].logsumexp(0) for i in range(tokens) for p in both]
        return [float(x) for x in (*scores, *single, *masses)]

    found = [asyncio.run(ours(temperature)) for temperature in _TEMPERATURES]
    right = [theirs(temperature) for temperature in _TEMPERATURES]
    worst = float(np.max(np.abs(np.array(found) - np.array(right))))
    if not worst <= TOLERANCE:  # not a number is wrong, too
        raise DiscipleError(
            f"log-probabilities differ from stock LLaMPPL's by {worst:.2g} nats on the model "
            f"{follower.name!r}, and at most {TOLERANCE:g} is allowed: times of wrong numbers are "
            "worth nothing, so nothing was measured"
        )
    return worst


def _stock_row(stock: Stock, context: Tokens, temperature: float) -> torch.Tensor:
    logprobs = stock.lm.model.next_token_logprobs_uncached(list(context)).cpu()
    return torch.log_softmax(logprobs / temperature, -1)
