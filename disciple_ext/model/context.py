"""A generation in progress: one prompt, the tokens after it, and what is pending.

A drop-in for LLaMPPL's ``LMContext``: ``next_token()`` and ``mask_dist()`` are LLaMPPL
distributions, so a plain ``llamppl.Model`` can use it. The logits stay with the follower; a
context is a few values that its copies share.
"""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from llamppl.distributions.distribution import Distribution
from llamppl.distributions.lmcontext import LMContext
from numpy.typing import NDArray

from .prefix import Prefix
from .requests import Branch, Draw, Follower, LogProbs, Mass, Score, Tokens
from .stream import Stream
from .vocabulary import TokenMask, from_ids, intersect, unfinished

__all__ = ["FollowerContext", "MaskDist", "NextToken", "Token"]


class Token(str):
    """A token as its text, which also knows its id.

    Unlike LLaMPPL's token it equals its own text (``token == " the"``) and can be hashed.
    """

    __slots__ = ("token_id",)
    token_id: int

    def __new__(cls, text: str, token_id: int) -> Token:
        """Make a token of this text and id."""
        token = super().__new__(cls, text)
        token.token_id = token_id
        return token

    def __int__(self) -> int:
        return self.token_id

    def __eq__(self, other: object) -> bool:
        return self.token_id == other if isinstance(other, int) else str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __deepcopy__(self, memo: dict[int, Any]) -> Token:
        return self


class FollowerContext(LMContext):  # type: ignore[misc]  # llamppl ships no types
    """A text in progress under one prompt.

    Attributes:
        follower: the model.
        prefix: the prompt and everything after it, as requests name it.
        temp: temperature of every request.
        pending: tokens not ruled out by mask draws that no token has consumed yet, or None.
        log_pending: log of this context's own mass of ``pending`` (0 where it is None).
        random: source of this context's draws.
    """

    def __init__(
        self,
        follower: Follower,
        prompt: str | Tokens,
        *,
        temp: float = 1.0,
        random: Stream | None = None,
    ) -> None:
        """Open a context; no request is made before the first one is needed.

        Args:
            follower: the model.
            prompt: a user message (put into the model's chat format), or ready token ids.
            temp: temperature, above 0.
            random: stream of the draws; a fixed one where it is None.
        """
        self.follower = follower
        self.user = prompt if isinstance(prompt, str) else ""
        self._start = Prefix.of(follower.prompt(prompt) if isinstance(prompt, str) else prompt)
        self.prefix = self._start
        # The text of the tokens up to a node, and the bytes at its end that are no text yet.
        self._decoded = (self._start, "", b"")
        self.temp = temp
        self.pending: TokenMask | None = None
        self.log_pending = 0.0
        self.random = random if random is not None else Stream()

    # What LLaMPPL's code reads ------------------------------------------------------------

    @property
    def lm(self) -> Follower:
        """The follower."""
        return self.follower

    @property
    def tokens(self) -> list[int]:
        """Token ids of the prompt and of everything after it (a copy)."""
        return list(self.prefix.tokens)

    @property
    def token_count(self) -> int:
        """Tokens after the prompt."""
        return len(self.prefix) - len(self._start)

    @property
    def generated(self) -> list[int]:
        """Token ids after the prompt, forced ones and a drawn end of text included (a copy)."""
        return list(self.prefix.after(self._start))

    @property
    def prompt(self) -> Tokens:
        """Token ids of the prompt; setting them puts another prompt before the same text."""
        return self._start.tokens

    @prompt.setter
    def prompt(self, tokens: Tokens) -> None:
        generated = self.generated
        self._start = Prefix.of(tokens)
        self.prefix = self._start.extend(generated)
        self._decoded = (self._start, "", b"")

    def next_token(self) -> NextToken:
        """Distribution of the next token, end of text included."""
        return NextToken(self)

    def mask_dist(self, mask: AbstractSet[int]) -> MaskDist:
        """Distribution of whether the next token is in ``mask``.

        The outcome stays pending: the token that follows is drawn and scored given it.
        """
        return MaskDist(self, mask)

    def __str__(self) -> str:
        node, text, rest = self._decoded
        if node is not self.prefix:
            tokens = self.follower.vocabulary.tokens
            data = rest + b"".join(tokens[i] for i in self.prefix.after(node))
            rest = unfinished(data)
            text += data[: len(data) - len(rest)].decode("utf-8", errors="replace")
            self._decoded = (self.prefix, text, rest)
        return text

    def __deepcopy__(self, memo: dict[int, Any]) -> FollowerContext:
        clone = memo[id(self)] = type(self).__new__(type(self))
        clone.__dict__.update(self.__dict__)
        clone.random = (
            self.random.__deepcopy__(memo) if id(self.random) not in memo else memo[id(self.random)]
        )
        return clone

    # State changes ------------------------------------------------------------------------

    @property
    def drawable(self) -> TokenMask | None:
        """What may come next: the pending mask and the ids the tokenizer knows."""
        exists = self.follower.vocabulary.exists
        if exists is None or self.pending is None:
            return exists if self.pending is None else self.pending
        return intersect(exists, self.pending)

    def append(self, token: int) -> None:
        """Add a token; whatever was pending is consumed by it."""
        self.prefix = self.prefix.then(token)
        self.pending, self.log_pending = None, 0.0

    def narrow(self, mask: TokenMask, log_mass: float) -> None:
        """Rule out every token outside ``mask``, whose mass with what is pending is given."""
        self.pending = mask if self.pending is None else intersect(self.pending, mask)
        self.log_pending = log_mass

    async def logprobs(self) -> NDArray[np.float32]:
        """The whole next-token distribution, shape (vocabulary,), natural logs.

        Pending masks are not applied. Ask for it only where a mask will not do: it copies a
        vector of the vocabulary's size.
        """
        vector: NDArray[np.float32] = await self.follower.ask(LogProbs(self.prefix, self.temp))
        return vector

    def coerce(self, mask: AbstractSet[int]) -> TokenMask:
        """``mask`` as a :class:`TokenMask` over this follower's vocabulary."""
        return (
            mask if isinstance(mask, TokenMask) else from_ids(mask, self.follower.vocabulary.size)
        )

    def token(self, token_id: int) -> Token:
        """The token with this id, as its text."""
        data = self.follower.vocabulary.tokens[token_id]
        return Token(data.decode("utf-8", errors="replace"), token_id)


class NextToken(Distribution):  # type: ignore[misc]
    """The next token of a context; drawing or observing it advances the context."""

    def __init__(self, ctx: FollowerContext) -> None:
        self.ctx = ctx

    async def sample(self) -> tuple[Token, float]:
        """Draw a token; its log-probability is given what was pending."""
        ctx = self.ctx
        drawn = await ctx.follower.ask(
            Draw(ctx.prefix, None, ctx.drawable, ctx.random.random(), ctx.temp)
        )
        if drawn.token < 0:
            raise ValueError("what is pending rules out every token of this context")
        ctx.append(drawn.token)
        return ctx.token(drawn.token), drawn.log_q - drawn.log_mass

    async def log_prob(self, x: Token | int | str) -> float:
        """Log-probability of a token given what is pending; the context advances by it."""
        ctx, token = self.ctx, token_id(self.ctx, x)
        if ctx.pending is not None and token not in ctx.pending:
            ctx.append(token)
            return -math.inf
        (log_p,) = await ctx.follower.ask(Score(ctx.prefix, (token,), ctx.temp))
        log_p -= ctx.log_pending
        ctx.append(token)
        return float(log_p)


class MaskDist(Distribution):  # type: ignore[misc]
    """Whether the next token of a context is in a mask; the outcome stays pending."""

    def __init__(self, ctx: FollowerContext, mask: AbstractSet[int]) -> None:
        self.ctx = ctx
        self.mask = ctx.coerce(mask)

    async def sample(self) -> tuple[bool, float]:
        """Draw the outcome; its log-probability is given what was pending."""
        ctx = self.ctx
        request = Branch(
            ctx.prefix, None, self.mask, ctx.drawable, ctx.pending, ctx.random.random(), ctx.temp
        )
        branched = await ctx.follower.ask(request)
        ctx.narrow(self.mask if branched.value else ~self.mask, branched.log_p)
        return branched.value, branched.log_q

    async def log_prob(self, v: bool) -> float:
        """Log-probability of the outcome; the context is narrowed to it."""
        ctx = self.ctx
        mask = self.mask if v else ~self.mask
        before = ctx.log_pending
        both = mask if ctx.pending is None else intersect(ctx.pending, mask)
        log_mass = float(await ctx.follower.ask(Mass(ctx.prefix, both, ctx.temp)))
        ctx.narrow(mask, log_mass)
        return log_mass - before


def token_id(ctx: FollowerContext, x: object) -> int:
    """Id of a token given as a :class:`Token`, an id, LLaMPPL's token or its exact text.

    Raises:
        ValueError: the text is not exactly one token.
    """
    if isinstance(x, Token):
        return x.token_id
    if isinstance(x, str):
        ids = ctx.follower.vocabulary.encode(x)
        if len(ids) != 1:
            raise ValueError(
                f"{x!r} is {len(ids)} tokens, not one; use 'await self.force({x!r})' instead"
            )
        return ids[0]
    return int(getattr(x, "token_id", x))  # type: ignore[call-overload, no-any-return]
