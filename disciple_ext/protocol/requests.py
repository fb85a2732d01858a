"""The follower protocol: what a program may ask of a language model, and what comes back.

Requests are small frozen records of contexts, floats and masks. They are stateless: each names
its whole context, by one prefix node, and the host finds what it has computed before. A node is
its parent and one token, so a request costs the same however long the text is. Requests that wait
at the same time are evaluated as one batch. All log-probabilities are natural logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from .prefix import Prefix
from .vocabulary import TokenMask, Vocabulary

__all__ = [
    "Branch",
    "Branched",
    "Call",
    "Draw",
    "Drawn",
    "Follower",
    "LogProbs",
    "Mass",
    "NextBytes",
    "Reply",
    "Request",
    "Score",
    "Tokens",
]

Tokens = tuple[int, ...]
"""Token ids that are no context: of a prompt, or of a text to score."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Draw the next token of ``proposal`` under ``mask``, by inverse CDF at ``u``.

    Attributes:
        proposal: the context to draw from.
        prior: the context to score the drawn token in, or None for the same.
        mask: tokens that may be drawn, or None for all.
        u: uniform in [0, 1), from the particle's own counter-based stream.
        temperature: divides the logits of both contexts.
    """

    proposal: Prefix
    prior: Prefix | None
    mask: TokenMask | None
    u: float
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class Drawn:
    """Answer to :class:`Draw`.

    Attributes:
        token: the token, or -1 where the mask leaves nothing (then ``log_mass`` is -inf).
        log_q: log-probability of the token under the proposal, mask not applied.
        log_mass: log of the proposal's mass of the mask, q(A).
        log_p: log-probability of the token under the prior, mask not applied.
    """

    token: int
    log_q: float
    log_mass: float
    log_p: float


@dataclass(frozen=True, slots=True)
class Branch:
    """Is the next token in ``mask``? A draw from the proposal given ``given``.

    Attributes:
        proposal: the context to draw from.
        prior: the context to correct with, or None for the same.
        mask: the tokens asked about.
        given: tokens not ruled out under the proposal (masks in force and pending), or None.
        pending: tokens not ruled out by earlier branches, for the prior, or None.
        u: uniform in [0, 1).
        temperature: divides the logits of both contexts.
    """

    proposal: Prefix
    prior: Prefix | None
    mask: TokenMask
    given: TokenMask | None
    pending: TokenMask | None
    u: float
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class Branched:
    """Answer to :class:`Branch`.

    Attributes:
        value: the outcome.
        log_q: log-probability of the outcome under the proposal given ``given``; -inf where
            ``given`` leaves nothing.
        log_p: log of the prior's mass of the outcome together with ``pending`` (not normalised
            by the mass of ``pending``).
    """

    value: bool
    log_q: float
    log_p: float


@dataclass(frozen=True, slots=True)
class Mass:
    """Log of the next-token mass of ``mask`` in ``context``; answered by a float."""

    context: Prefix
    mask: TokenMask
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class Score:
    """Log-probabilities of ``tokens`` after ``context``; answered by a tuple of floats."""

    context: Prefix
    tokens: Tokens
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class NextBytes:
    """How a token that begins with ``begun`` goes on; what is drawn by the character asks it.

    Answered by natural logs, float64, shape (segments,): the mass of each segment of
    ``vocabulary.trie.node(begun)``, with respect to the whole next-token distribution.

    Attributes:
        context: the tokens before.
        begun: bytes with which some token begins; none for the whole distribution.
        mask: tokens that may come, or None for all.
        temperature: divides the logits.
    """

    context: Prefix
    begun: bytes = b""
    mask: TokenMask | None = None
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class LogProbs:
    """The whole next-token distribution; answered by a float32 array of shape (vocabulary,)."""

    context: Prefix
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class Call:
    """Call a named service of the host's (a potential, a judge) with JSON-like data."""

    name: str
    payload: Any = None


Request = Draw | Branch | Mass | Score | NextBytes | LogProbs | Call
Reply = Any  # the overloads of Follower.ask say which reply belongs to which request


class Follower(Protocol):
    """A language model as programs and samplers see it.

    Attributes:
        name: such as ``"embedded"`` or ``"hf:gpt2"``.
        vocabulary: its tokens.
    """

    name: str
    vocabulary: Vocabulary

    @property
    def max_context(self) -> int | None:
        """Tokens that a context may have, prompt included, or None for no limit."""
        ...

    @overload
    async def ask(self, request: Draw) -> Drawn: ...
    @overload
    async def ask(self, request: Branch) -> Branched: ...
    @overload
    async def ask(self, request: Mass) -> float: ...
    @overload
    async def ask(self, request: Score) -> tuple[float, ...]: ...
    @overload
    async def ask(self, request: NextBytes) -> NDArray[np.float64]: ...
    @overload
    async def ask(self, request: LogProbs) -> NDArray[np.float32]: ...
    @overload
    async def ask(self, request: Call) -> Any: ...
    async def ask(self, request: Request) -> Reply:
        """Answer one request; requests that wait together are evaluated as one batch.

        Raises:
            FollowerError: the request names tokens or services that do not exist, or the model
                failed on it.
        """
        ...

    def prompt(self, user: str, hint: str = "") -> Tokens:
        """Token ids of a user message in the model's chat format, ready for the answer's text.

        Args:
            user: the message.
            hint: a note put last, directly before the text.
        """
        ...
