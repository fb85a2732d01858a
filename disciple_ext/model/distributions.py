"""Tokens, and LLaMPPL's distributions of the next one and of whether it is in a mask."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

import numpy as np
from llamppl.distributions.distribution import Distribution
from llamppl.llms import Token as LLaMPPLToken
from numpy.typing import NDArray

from ..protocol.follower import Follower
from ..protocol.measure import Role
from ..protocol.prefix import Prefix
from ..protocol.requests import Branch, Draw, Mass, Score
from ..protocol.stream import Stream
from ..protocol.vocabulary import TokenMask, intersect

__all__ = ["Context", "MaskDist", "NextToken", "Token", "renormalise", "token_id"]


class Token(str, LLaMPPLToken):  # type: ignore[misc]
    """A token as its text, which also knows its id.

    Unlike LLaMPPL's token it equals its own text (``token == " the"``) and can be hashed, and
    ``+`` joins texts.

    Attributes:
        token_id: its id.
        lm: the drop-in ``lm`` of the context that it comes from, or None where there is none.
    """

    token_id: int
    lm: Any

    def __new__(cls, text: str, token_id: int, lm: Any = None) -> Token:
        """Make a token of this text and id."""
        token = super().__new__(cls, text)
        token.token_id = token_id
        token.lm = lm
        return token

    def __init__(self, text: str, token_id: int, lm: Any = None) -> None:
        pass  # not LLaMPPL's

    @property
    def token_str(self) -> str:
        """Its text."""
        return str.__str__(self)

    def __radd__(self, other: Any) -> Any:
        return NotImplemented  # a text joins texts by itself; LLaMPPL's would make a sequence

    def __int__(self) -> int:
        return self.token_id

    def __eq__(self, other: object) -> bool:
        return self.token_id == other if isinstance(other, int) else str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    # `__eq__` alone would take it away: LLaMPPL's tokens cannot be looked up in a mask.
    __hash__ = str.__hash__

    def __deepcopy__(self, memo: dict[int, Any]) -> Token:
        return self


class Context(Protocol):
    """What the distributions need of a :class:`~disciple_ext.FollowerContext`."""

    follower: Follower
    prefix: Prefix
    temp: float
    role: Role
    random: Stream

    @property
    def drawable(self) -> TokenMask | None:
        """What may come next, or None for every token."""
        ...

    def append(self, token: int) -> None:
        """Add a token."""
        ...

    def narrow(self, mask: TokenMask, log_mass: float) -> None:
        """Rule out every token outside a mask."""
        ...

    async def log_given(self) -> float:
        """Log mass of what may come next."""
        ...

    def coerce(self, mask: AbstractSet[int]) -> TokenMask:
        """A set of ids as a mask."""
        ...

    def token(self, token_id: int) -> Token:
        """The token with this id."""
        ...


class NextToken(Distribution):  # type: ignore[misc]
    """The next token of a context; drawing or observing it advances the context."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    async def sample(self) -> tuple[Token, float]:
        """Draw a token; its log-probability is given what was pending."""
        ctx = self.ctx
        drawn = await ctx.follower.ask(
            Draw(ctx.prefix, None, ctx.drawable, ctx.random.random(), ctx.temp, ctx.role)
        )
        if drawn.token < 0:
            raise ValueError("what is pending rules out every token of this context")
        ctx.append(drawn.token)
        return ctx.token(drawn.token), drawn.log_q - drawn.log_mass

    async def log_prob(self, x: Token | int | str) -> float:
        """Log-probability of a token given what is pending; the context advances by it."""
        ctx, token = self.ctx, token_id(self.ctx, x)
        within = ctx.drawable
        if within is not None and token not in within:
            ctx.append(token)
            return -math.inf
        (log_p,) = await ctx.follower.ask(Score(ctx.prefix, (token,), ctx.temp, ctx.role))
        given = await ctx.log_given()
        ctx.append(token)
        return float(log_p - given) if given > -math.inf else -math.inf


class MaskDist(Distribution):  # type: ignore[misc]
    """Whether the next token of a context is in a mask; the outcome stays pending."""

    def __init__(self, ctx: Context, mask: AbstractSet[int]) -> None:
        self.ctx = ctx
        self.mask = ctx.coerce(mask)

    async def sample(self) -> tuple[bool, float]:
        """Draw the outcome; its log-probability is given what was pending."""
        ctx = self.ctx
        # A context by itself has no masks in force: `given` and `pending` are the same.
        within, u = ctx.drawable, ctx.random.random()
        request = Branch(ctx.prefix, None, self.mask, within, within, u, ctx.temp, ctx.role)
        branched = await ctx.follower.ask(request)
        ctx.narrow(self.mask if branched.value else ~self.mask, branched.log_p)
        return branched.value, branched.log_q

    async def log_prob(self, v: bool) -> float:
        """Log-probability of the outcome; the context is narrowed to it."""
        ctx = self.ctx
        mask = self.mask if v else ~self.mask
        within = ctx.drawable
        both = mask if within is None else intersect(within, mask)
        log_mass = float(await ctx.follower.ask(Mass(ctx.prefix, both, ctx.temp, ctx.role)))
        given = await ctx.log_given()
        ctx.narrow(mask, log_mass)
        return log_mass - given if given > -math.inf else -math.inf


def renormalise(logs: NDArray[np.float32], within: TokenMask | None) -> NDArray[np.float32]:
    """The distribution given ``within``: others are -inf, and the rest sums to 1.

    Args:
        logs: natural log-probabilities, shape (vocabulary,), normalised or not.
        within: what remains, or None for ``logs`` as they are.

    Returns:
        Natural logs, shape (vocabulary,); all -inf where nothing remains.
    """
    if within is None:
        return logs
    kept = np.where(within.array, logs, np.float32(-math.inf))
    highest = kept.max(initial=-math.inf)
    if highest == -math.inf:
        return kept
    total = highest + math.log(np.exp(kept - highest, dtype=np.float64).sum())
    return np.asarray(kept - total, dtype=np.float32)


def token_id(ctx: Context, x: object) -> int:
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
