"""A follower under a prompt as a potential of genlm-control's."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from genlm.backend.tokenization import Token
from genlm.control import Potential

from ..protocol.follower import Follower
from ..protocol.measure import Role
from ..protocol.prefix import Prefix
from ..protocol.requests import LogProbs, Mass, Score
from ..samplers.weights import log_sum

__all__ = ["FollowerPotential"]


class FollowerPotential(Potential):  # type: ignore[misc]  # genlm ships no types
    """What a follower writes after a prompt.

    Its vocabulary is the follower's text tokens; the end of the sequence stands for all of the
    follower's end-of-text tokens together. Special tokens are in neither, so that the weights of
    the next tokens sum to a little less than 1. Weights are natural logs.

    Attributes:
        follower: the follower.
        temperature: divides the logits.
        role: what it is asked for, under the base measure of a run.
    """

    def __init__(
        self, follower: Follower, prompt: str | Iterable[int] = "", temperature: float = 1.0
    ) -> None:
        """Put a follower under a prompt.

        Args:
            follower: the follower.
            prompt: a user message, which the follower puts into its chat format, or token ids.
            temperature: divides the logits.
        """
        self.follower = follower
        self.temperature = temperature
        self.role = Role.PLAIN
        self._ids = np.asarray(follower.vocabulary.text_mask.ids)
        self._ends = np.asarray(follower.vocabulary.eos_mask.ids)
        texts = follower.vocabulary.tokens
        super().__init__([Token(int(i), texts[i]) for i in self._ids])
        self._tokens = {token.token_id: token for token in self.vocab}
        self._start = _start(follower, prompt)

    def at(
        self, prompt: str | Iterable[int], temperature: float = 1.0, role: Role = Role.PLAIN
    ) -> FollowerPotential:
        """The same follower under another prompt; the tables are shared."""
        # Hints change the prompt, and the table of tokens is as long as the vocabulary.
        other = copy.copy(self)
        other.__dict__.pop("_autobatched", None)  # genlm's own view of this one
        other.temperature = temperature
        other.role = role
        other._start = _start(self.follower, prompt)
        return other

    def tokens(self, ids: Iterable[int]) -> list[Any]:
        """Token ids as tokens of the vocabulary."""
        return [self._tokens[i] for i in ids]

    async def prefix(self, context: Sequence[Any]) -> float:
        """Log-probability of the tokens one after the other."""
        ids = _ids(context)
        if not ids:
            return 0.0
        logs = await self.follower.ask(Score(self._start, ids, self.temperature, self.role))
        return math.fsum(logs) if min(logs) > -math.inf else -math.inf

    async def complete(self, context: Sequence[Any]) -> float:
        """Log-probability of the tokens and then the end of text."""
        begun, ends = await asyncio.gather(self.prefix(context), self.logw_eos(context))
        return float(begun + ends)

    async def logw_eos(self, context: Sequence[Any]) -> float:
        """Log-probability of the end of text after the tokens."""
        mask = self.follower.vocabulary.eos_mask
        request = Mass(self._start.extend(_ids(context)), mask, self.temperature, self.role)
        return float(await self.follower.ask(request))

    async def logw_next(self, context: Sequence[Any]) -> Any:
        """Log-probabilities of the next token, the end of text last."""
        at = self._start.extend(_ids(context))
        request = LogProbs(at, self.temperature, self.role)
        row = np.asarray(await self.follower.ask(request), np.float64)
        return self.make_lazy_weights(np.append(row[self._ids], log_sum(row[self._ends])))

    def __repr__(self) -> str:
        return f"FollowerPotential({self.follower.name!r})"


def _start(follower: Follower, prompt: str | Iterable[int]) -> Prefix:
    return Prefix.of(follower.prompt(prompt) if isinstance(prompt, str) else prompt)


def _ids(context: Sequence[Any]) -> tuple[int, ...]:
    return tuple(token.token_id for token in context)
