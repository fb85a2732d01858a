"""Log-probabilities of whole texts under a prompt, token by token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ...protocol.follower import Follower
from ...protocol.prefix import Prefix
from ...protocol.requests import Score
from ...run import inprocess

__all__ = ["ScoredToken", "on_follower", "score_texts"]

T = TypeVar("T")

# 2**25 float32 are 128 MiB, before what the model itself needs.
_BATCH_LOGITS = 2**25
"""Logits of one batch at most: rows, times the longest row's tokens, times the vocabulary."""

_FOR_EVER = 1e6


@dataclass(frozen=True)
class ScoredToken:
    """A token of a text.

    Attributes:
        start: code points before it.
        end: code points up to its end.
        log_prob: nats given the prompt and everything before it.
    """

    start: int
    end: int
    log_prob: float


async def score_texts(
    follower: Follower, texts: Sequence[tuple[str, str]]
) -> list[tuple[ScoredToken, ...]]:
    """Score texts in the tokenizer's own segmentation; end of text is not counted.

    The segmentation is that of the text, not the one in which it happened to be drawn, so that
    texts from different sources are scored alike.

    Args:
        follower: the model.
        texts: (prompt, text) pairs; equal pairs are scored once.
    """
    found: dict[tuple[str, str], tuple[ScoredToken, ...]] = {}
    # Texts of one length share a batch: rows are padded to the longest.
    todo = sorted(dict.fromkeys(texts), key=lambda pair: -len(pair[1]))
    while todo:
        longest = max(1, len(follower.vocabulary.encode(todo[0][1])))
        rows = max(1, _BATCH_LOGITS // (longest * follower.vocabulary.size))
        batch, todo = todo[:rows], todo[rows:]
        scored = await on_follower(_score(follower, batch))
        found.update(zip(batch, scored, strict=True))
    return [found[pair] for pair in texts]


async def _score(
    follower: Follower, batch: Sequence[tuple[str, str]]
) -> list[tuple[ScoredToken, ...]]:
    return list(await asyncio.gather(*(_score_one(follower, *pair) for pair in batch)))


async def _score_one(follower: Follower, prompt: str, text: str) -> tuple[ScoredToken, ...]:
    tokens = follower.vocabulary.encode(text)
    if not tokens:
        return ()
    logs = await follower.ask(Score(Prefix.of(follower.prompt(prompt)), tokens))
    scored, read = [], b""
    for token, log_prob in zip(tokens, logs, strict=True):
        start = _characters(read)
        read += follower.vocabulary.tokens[token]
        scored.append(ScoredToken(start, _characters(read), float(log_prob)))
    return tuple(scored)


def _characters(data: bytes) -> int:
    # Counts first bytes, so that a token which ends inside a character can be counted, too.
    return sum(byte & 0xC0 != 0x80 for byte in data)


async def on_follower(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` on the loop on which runs use their followers (a follower knows one loop)."""
    return await asyncio.wrap_future(inprocess.start(work, time.monotonic() + _FOR_EVER))
