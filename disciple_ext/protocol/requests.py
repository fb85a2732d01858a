"""The follower protocol: what a program may ask of a language model, and what comes back.

Requests are small frozen records of contexts, floats and masks. They are stateless: each names
its whole context, by one prefix node, and the host finds what it has computed before. A node is
its parent and one token, so a request costs the same however long the text is. Requests that wait
at the same time are evaluated as one batch. All log-probabilities are natural logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .measure import BaseMeasure, Role, RowMeasure
from .prefix import Prefix
from .vocabulary import TokenMask, Vocabulary, intersect

__all__ = [
    "Branch",
    "Branched",
    "Call",
    "Draw",
    "Drawn",
    "LogProbs",
    "Mass",
    "NextBytes",
    "Reply",
    "Request",
    "RowKey",
    "Score",
    "Tokens",
]

Tokens = tuple[int, ...]
"""Token ids that are no context: of a prompt, or of a text to score."""

RowKey = tuple[Prefix, float | RowMeasure]
"""A next-token distribution: its context, and the temperature or more that it is made with."""


class Request:
    """What may be asked; each request says of itself what it names, needs and costs.

    Those that answer need no more than these properties, whatever the kind of the request.
    """

    # Or each request would have a `__dict__` beside its own slots.
    __slots__ = ()

    @property
    def temperature(self) -> float:
        """What divides the logits."""
        return 1.0

    @property
    def role(self) -> Role:
        """What the distribution is asked for."""
        return Role.PRIOR

    @property
    def measure(self) -> BaseMeasure | None:
        """The base measure, or None for the model as it is."""
        return None

    @property
    def contexts(self) -> Iterable[Prefix]:
        """Every context that is named, the longest ones included."""
        return ()

    @property
    def needed(self) -> tuple[Prefix, ...]:
        """The contexts whose next-token distribution the answer is made of."""
        return ()

    @property
    def rows(self) -> tuple[RowKey, ...]:
        """The distributions that the answer is made of: a proposal's first, a prior's last.

        The masks that are measured are those of the first.
        """
        measure, how = self.measure, self.temperature
        row = how if measure is None else measure.row(self.role, how)
        return tuple((context, row) for context in self.needed)

    @property
    def powered(self) -> bool:
        """Whether its numbers are those of a prior with a power, which do not sum to 1."""
        measure = self.measure
        return measure is not None and measure.power != 1.0 and self.role == Role.PRIOR

    @property
    def masks(self) -> tuple[TokenMask | None, ...]:
        """Every mask that is named."""
        return ()

    @property
    def measured(self) -> tuple[TokenMask | None, ...]:
        """The masks whose mass the answer holds, under the first context that is needed."""
        return ()

    @property
    def tokens_asked(self) -> int:
        """Tokens of the follower's that it counts as, in what a run reports."""
        return 0

    @property
    def quota(self) -> int:
        """What it takes of the tokens that a run may ask for: each request takes something."""
        return 1

    def fault(self, vocabulary: Vocabulary, max_context: int | None) -> str | None:
        """Why it can be answered by no model of this vocabulary and length, or None."""
        for context in self.contexts:
            fault = _fault_of(context, vocabulary.size, max_context)
            if fault is not None:
                return fault
        # Not `<= 0`, which NaN would pass.
        if not self.temperature > 0:
            return f"the temperature must be above 0, not {self.temperature}"
        for mask in self.masks:
            if mask is not None and mask.size != vocabulary.size:
                return f"a mask has {mask.size} entries; the vocabulary has {vocabulary.size}"
        return None


def _fault_of(context: Prefix, size: int, longest: int | None) -> str | None:
    # A program may put anything here: its request has to fail alone, not the whole batch.
    if not isinstance(context, Prefix):
        return f"a context must be a Prefix, not {type(context).__name__}"
    # On CUDA an id out of range is a device-side assert: the process could compute no more.
    if context.length == 0 or context.highest >= size:
        return f"a context must be token ids from 0 to {size - 1}, and at least one"
    if longest is not None and context.length > longest:
        return f"the context has {context.length} tokens; the model takes {longest}"
    return None


class _Pair(Request):
    """A request that draws from a proposal and scores under a prior."""

    __slots__ = ()
    proposal: Prefix
    prior: Prefix | None

    @property
    def contexts(self) -> tuple[Prefix, ...]:
        """The proposal, and the prior where there is one."""
        return (self.proposal,) if self.prior is None else (self.proposal, self.prior)

    needed = contexts

    @property
    def drawn_as(self) -> Role:
        """The role of the distribution that is drawn from."""
        if self.role == Role.PLAIN:
            return Role.PLAIN
        alone = self.prior is None or self.prior is self.proposal
        return Role.SHARED if alone else Role.PROPOSAL

    @property
    def rows(self) -> tuple[RowKey, ...]:
        """The proposal's distribution, and the prior's where it may be another."""
        measure, how = self.measure, self.temperature
        if measure is None:
            of_proposal: RowKey = (self.proposal, how)
            return (of_proposal,) if self.prior is None else (of_proposal, (self.prior, how))
        of_proposal = (self.proposal, measure.row(self.drawn_as, how))
        return of_proposal, (self.prior or self.proposal, measure.row(self.role, how))

    def fault(self, vocabulary: Vocabulary, max_context: int | None) -> str | None:
        """Why it cannot be answered (see :meth:`Request.fault`)."""
        if self.role not in (Role.PRIOR, Role.PLAIN):
            return "a draw is scored as the prior, or plain"
        return Request.fault(self, vocabulary, max_context)


@dataclass(frozen=True, slots=True)
class Draw(_Pair):
    """Draw the next token of ``proposal`` under ``mask``, by inverse CDF at ``u``.

    Attributes:
        proposal: the context to draw from.
        prior: the context to score the drawn token in, or None for the same.
        mask: tokens that may be drawn, or None for all.
        u: uniform in [0, 1), from the particle's own counter-based stream.
        temperature: divides the logits of both contexts.
        role: ``PRIOR``, or ``PLAIN`` for a context that is no part of the text.
        measure: see :attr:`Request.measure`; whoever serves a run sets it.
    """

    proposal: Prefix
    prior: Prefix | None
    mask: TokenMask | None
    u: float
    temperature: float = 1.0
    role: Role = Role.PRIOR
    measure: BaseMeasure | None = None

    @property
    def masks(self) -> tuple[TokenMask | None, ...]:
        """The mask that is drawn under."""
        return (self.mask,)

    measured = masks

    @property
    def tokens_asked(self) -> int:
        """The token that is drawn."""
        return 1


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
class Branch(_Pair):
    """Is the next token in ``mask``? A draw from the proposal given ``given``.

    Attributes:
        proposal: the context to draw from.
        prior: the context to correct with, or None for the same.
        mask: the tokens asked about.
        given: tokens not ruled out under the proposal (masks in force and pending), or None.
        pending: tokens not ruled out by earlier branches, for the prior, or None.
        u: uniform in [0, 1).
        temperature: divides the logits of both contexts.
        role: ``PRIOR``, or ``PLAIN`` for a context that is no part of the text.
        measure: see :attr:`Request.measure`; whoever serves a run sets it.
    """

    proposal: Prefix
    prior: Prefix | None
    mask: TokenMask
    given: TokenMask | None
    pending: TokenMask | None
    u: float
    temperature: float = 1.0
    role: Role = Role.PRIOR
    measure: BaseMeasure | None = None

    @property
    def masks(self) -> tuple[TokenMask | None, ...]:
        """The mask asked about, and those in force."""
        return (self.mask, self.given, self.pending)

    @property
    def measured(self) -> tuple[TokenMask | None, ...]:
        """All that is not ruled out, and of it what is inside and outside the mask."""
        mask, given = self.mask, self.given
        if given is None:
            # `~mask` is summed by itself: 1 - mass(mask) loses its digits where that is near 1.
            return (None, mask, ~mask)
        return (given, intersect(mask, given), intersect(~mask, given))


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
class Mass(Request):
    """Log of the next-token mass of ``mask`` in ``context``; answered by a float."""

    context: Prefix
    mask: TokenMask
    temperature: float = 1.0
    role: Role = Role.PRIOR
    measure: BaseMeasure | None = None

    @property
    def contexts(self) -> tuple[Prefix, ...]:
        """Its one context."""
        return (self.context,)

    needed = contexts

    @property
    def masks(self) -> tuple[TokenMask | None, ...]:
        """The mask asked about."""
        return (self.mask,)

    measured = masks


@dataclass(frozen=True, slots=True)
class Score(Request):
    """Log-probabilities of ``tokens`` after ``context``; answered by a tuple of floats."""

    context: Prefix
    tokens: Tokens
    temperature: float = 1.0
    role: Role = Role.PRIOR
    measure: BaseMeasure | None = None

    @property
    def contexts(self) -> Iterable[Prefix]:
        """The context, and all of the text that is scored."""
        yield self.context
        yield self.context.extend(self.tokens)

    @property
    def needed(self) -> tuple[Prefix, ...]:
        """The context of a single token; more are scored in a forward pass of their own."""
        return (self.context,) if len(self.tokens) == 1 else ()

    @property
    def tokens_asked(self) -> int:
        """The tokens that are scored."""
        return len(self.tokens)

    @property
    def quota(self) -> int:
        """One as every request, and one for each token."""
        return 1 + len(self.tokens)

    def fault(self, vocabulary: Vocabulary, max_context: int | None) -> str | None:
        """Why it cannot be answered (see :meth:`Request.fault`)."""
        # First, because the contexts are made of these tokens.
        if not isinstance(self.tokens, tuple) or not self.tokens:
            return "the tokens to score must be a tuple of token ids, and at least one"
        return Request.fault(self, vocabulary, max_context)


@dataclass(frozen=True, slots=True)
class NextBytes(Request):
    """How a token that begins with ``begun`` goes on; what is drawn by the character asks it.

    Answered by natural logs, float64, shape (segments,): the mass of each segment of
    ``vocabulary.trie.node(begun)``, with respect to the whole next-token distribution.

    Attributes:
        context: the tokens before.
        begun: bytes with which some token begins; none for the whole distribution.
        mask: tokens that may come, or None for all.
        temperature: divides the logits.
        role: what it is asked for.
        measure: see :attr:`Request.measure`.
    """

    context: Prefix
    begun: bytes = b""
    mask: TokenMask | None = None
    temperature: float = 1.0
    role: Role = Role.PRIOR
    measure: BaseMeasure | None = None

    @property
    def contexts(self) -> tuple[Prefix, ...]:
        """Its one context."""
        return (self.context,)

    needed = contexts

    @property
    def masks(self) -> tuple[TokenMask | None, ...]:
        """The mask of the tokens that may come."""
        return (self.mask,)

    @property
    def tokens_asked(self) -> int:
        """One where nothing has begun: the model is asked for a distribution."""
        return int(not self.begun)

    def fault(self, vocabulary: Vocabulary, max_context: int | None) -> str | None:
        """Why it cannot be answered (see :meth:`Request.fault`)."""
        fault = Request.fault(self, vocabulary, max_context)
        if fault is None and len(self.begun) > vocabulary.trie.longest:
            return f"no token begins with the {len(self.begun)} bytes asked about"
        return fault


@dataclass(frozen=True, slots=True)
class LogProbs(Request):
    """The whole next-token distribution; answered by a float32 array of shape (vocabulary,)."""

    context: Prefix
    temperature: float = 1.0
    role: Role = Role.PRIOR
    measure: BaseMeasure | None = None

    @property
    def contexts(self) -> tuple[Prefix, ...]:
        """Its one context."""
        return (self.context,)

    needed = contexts


@dataclass(frozen=True, slots=True)
class Call(Request):
    """Call a named service of the host's (a potential, a judge) with JSON-like data."""

    name: str
    payload: Any = None

    def fault(self, vocabulary: Vocabulary, max_context: int | None) -> str | None:
        """No model answers it: the services of a run stand before its follower."""
        return f"no service {self.name!r} was given to this run"


Reply = Any  # the overloads of Follower.ask say which reply belongs to which request
