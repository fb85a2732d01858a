"""A particle: a text in progress under two contexts, its masks, its weight, and its death.

What programs call is made of these parts: :mod:`tokens`, :mod:`words`, :mod:`characters`,
:mod:`filling`, :mod:`services` and :mod:`verbs` inherit :class:`Particle`, and :mod:`base` puts
them together.

A token x is drawn from the proposal q under the masks A in force and what is pending B, and the
weight is multiplied by ``p(x | B) q(A and B) / q(x)``: the target is the prior p restricted to
the constraint, whatever the proposal. With one prompt for both this is the mass of A given B.

Prior and proposal are those of the run's base measure (:mod:`disciple_ext.protocol.measure`): with
a power, ``p(x)`` stands for ``p(x) ** power``, which sums to 1 over nothing, and whose sums over
masks are masses all the same.
"""

from __future__ import annotations

import copy
import math
from typing import Any, NoReturn, Self

from llamppl.modeling import Model

from ..protocol.measure import Role
from ..protocol.requests import Branch, Draw, Mass, Score, Tokens
from ..protocol.stream import Stream
from ..protocol.vocabulary import TokenMask, intersect, unfinished
from .context import FollowerContext
from .distributions import Token
from .masks.base import MaskStack
from .spelling.spelled import Spelled
from .stops import Stop, program_line

__all__ = ["Particle"]

_LONGEST = 200
"""Characters of what is said of one change of a weight."""


class Particle(Model):  # type: ignore[misc]  # llamppl ships no types
    """What every part of :class:`~disciple_ext.BaseModel` is built on; its attributes are there.

    Attributes are set on the particle, without defaults on the class: what the class has is what
    programs are told to write as ``self.NAME``, and refused to their ``arguments``.
    """

    weight: float
    finished: bool
    twist_amount: float

    def __init__(self, context: FollowerContext, max_tokens: int | None = None) -> None:
        super().__init__()
        self.context = context
        context.role = Role.PRIOR
        self.max_tokens = max_tokens
        self.prior: FollowerContext | None = None
        self.masks = MaskStack(context.follower.vocabulary)
        self.finish_reason: str | None = None
        self.reason = ""
        self.line: int | None = None
        self.hint_text = ""
        self.preface_text = ""
        self.preface_rest = ""  # a blank at the preface's end, which may join the first token
        self.healed = 0  # characters of it that have: in the context's text, not in the answer
        self.spelled: Spelled | None = None  # characters at the text's end without tokens
        # 0 is exact, and took 120 to 240 calls of a model for each byte.
        self.char_tolerance = 1e-3
        self.lost_before = 0.0  # what earlier characters, now tokens, may have lost
        self.log_prior = 0.0
        self.log_proposal = 0.0
        self.weighed: dict[tuple[str, str], float] = {}
        # What ended it, as fields: private, for a program may call anything its ``cause``.
        self._cause = ""
        self._cause_line: int | None = None
        self._explained = False  # whether changes say where they come from: it takes time
        self.changes: list[tuple[Any, ...]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Registered before the attributes are copied: one that refers back to the particle must
        # find the clone, not a phantom.
        clone = type(self).__new__(type(self))
        memo[id(self)] = clone
        immutable = self.immutable_properties()
        for name, value in self.__dict__.items():
            setattr(clone, name, value if name in immutable else copy.deepcopy(value, memo))
        return clone

    def bind(self, prior: FollowerContext | None, stream: Stream) -> None:
        """Give the particle its prior context and its randomness (done by the run)."""
        self.prior = prior
        if prior is not None:
            prior.role = Role.PRIOR
        self.context.random = stream

    # The text -----------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The text so far (without an unfinished code point at its end)."""
        if self.spelled is None:
            return str(self.context)[self.healed :]
        data = self.masks.text
        return data[: len(data) - len(unfinished(data))].decode("utf-8", errors="replace")

    @property
    def random(self) -> Stream:
        """The particle's own random numbers: the only ones that a seed reproduces."""
        return self.context.random

    def __len__(self) -> int:
        return len(self.text)

    def __bool__(self) -> bool:
        return True  # a particle without text is still a particle

    def __str__(self) -> str:
        return self.text

    async def _settle(self) -> None:
        """Make tokens of all that has none yet, before a verb over tokens."""
        self._settle_preface()

    def _settle_preface(self) -> None:
        """The blank at a preface's end joins no token of the text: it becomes one itself."""
        if self.preface_rest:
            blank, self.preface_rest = self.preface_rest, ""
            self._put_preface(blank)

    def _put_preface(self, text: str) -> None:
        # Into the prompts: what is no part of the answer must not be in the text, nor be charged.
        self.preface_text += text
        tokens = self.context.follower.vocabulary.encode(text)
        for context in (self.context, self.prior):
            if context is not None and tokens:
                context.prompt = (*context.prompt, *tokens)

    def _append(self, token: int) -> None:
        self.context.append(token)
        if self.prior is not None:
            self.prior.append(token)
        self.masks.consume(token)

    def _narrow(self, mask: TokenMask, log_mass: float) -> None:
        self.context.narrow(mask, log_mass)
        if self.prior is not None:
            self.prior.narrow(mask, log_mass)

    # Drawing ------------------------------------------------------------------------------

    def _allowed(self, support: TokenMask | None) -> TokenMask | None:
        within = self.context.drawable
        if support is not None:
            within = support if within is None else intersect(within, support)
        return self.masks.current(within)

    async def _draw(self, support: TokenMask | None) -> Token:
        await self._settle()
        self._room_for(1)
        ctx, prior = self.context, self.prior
        mask = self._allowed(support)
        drawn = await ctx.follower.ask(
            Draw(
                ctx.prefix,
                prior.prefix if prior is not None else None,
                mask,
                self.random.random(),
                ctx.temp,
            )
        )
        if drawn.token < 0:
            self._die_of_mask(support)
        if drawn.log_p == -math.inf and self._under_measure:
            self._die_of_measure(drawn.token, "drawn")
        # p(x | B) q(A and B) / q(x); the mass of what is pending is the prior's own.
        log_pending = (prior or ctx).log_pending
        what = support.name if support is not None else ""
        self._charge("draw", drawn.log_p - log_pending + drawn.log_mass - drawn.log_q, what)
        self.log_prior += drawn.log_p
        self.log_proposal += drawn.log_q
        self._append(drawn.token)
        return ctx.token(drawn.token)

    async def _branch(self, mask: TokenMask, given: TokenMask | None) -> bool:
        ctx, prior = self.context, self.prior
        request = Branch(
            ctx.prefix,
            prior.prefix if prior is not None else None,
            mask,
            given,
            ctx.pending,
            self.random.random(),
            ctx.temp,
        )
        branched = await ctx.follower.ask(request)
        if branched.log_q == -math.inf:
            self._die_of_mask(None)
        # The outcome is a draw from q, and B becomes what it leaves: p(outcome | B) / q(outcome).
        log_pending = (prior or ctx).log_pending
        what = f"{mask.name}: {'yes' if branched.value else 'no'}" if self._explained else ""
        self._charge("branch", branched.log_p - log_pending - branched.log_q, what)
        self._narrow(mask if branched.value else ~mask, branched.log_p)
        return bool(branched.value)

    async def _observe_tokens(self, tokens: Tokens, cause: str, text: str = "") -> None:
        await self._settle()
        self._room_for(len(tokens))
        scored = self.prior or self.context
        # All in one request; the masks are asked one by one, since each token moves them on.
        logs = await scored.follower.ask(Score(scored.prefix, tokens, scored.temp))
        for token, log_p in zip(tokens, logs, strict=True):
            allowed = self._allowed(None)
            if allowed is not None and token not in allowed:
                self._die_of_mask(None, f"the forced token {self.context.token(token)!r}")
            if log_p == -math.inf and self._under_measure:
                self._die_of_measure(token, "forced")
            # Only the first token has something pending: `_append` consumes it.
            self._charge(cause, log_p - scored.log_pending, text)
            self.log_prior += log_p
            self._append(token)

    async def _observe_mask(self, mask: TokenMask, cause: str = "observe") -> None:
        scored = self.prior or self.context
        both = mask if scored.pending is None else intersect(scored.pending, mask)
        log_mass = await scored.follower.ask(Mass(scored.prefix, both, scored.temp))
        if log_mass == -math.inf:
            self._die_of_mask(mask)
        self._charge(cause, log_mass - scored.log_pending, mask.name)
        self._narrow(mask, log_mass)

    def _room_for(self, tokens: int) -> None:
        if self.finished:
            # `finish` does not leave the step: a program that draws on is left here.
            raise Stop
        if self.finish_reason == "ended":
            raise RuntimeError("the text has ended; call 'await self.end()' and return from step")
        written = 0 if self.spelled is None else self.spelled.length
        if (
            self.max_tokens is not None
            and self.context.token_count + written + tokens > self.max_tokens
        ):
            self._die("max_tokens", f"the text needs more than max_tokens={self.max_tokens} tokens")
        longest = self.context.follower.max_context
        if longest is not None:
            lengths = [len(c.prefix) for c in (self.context, self.prior) if c is not None]
            if max(lengths) + written + tokens > longest:
                hint = ", or a shorter hint" if self.hint_text else ""
                self._die(
                    "max_tokens",
                    f"prompt and text need more than the model's {longest} tokens; write a shorter "
                    f"prompt{hint}",
                )

    # Weight -------------------------------------------------------------------------------

    def _charge(self, cause: str, amount: float, what: str = "") -> None:
        if self.weight == -math.inf:
            amount = -math.inf  # a weight of zero stays zero, whatever is added
        if math.isnan(amount):
            raise ValueError(
                f"the {cause} would make the particle's log weight NaN: give a finite number, or "
                "self.condition(False) for what must not be"
            )
        self.weight += amount
        self._note_change(cause, amount, what)

    def _note_change(self, cause: str, amount: float, what: str) -> None:
        if not self._explained:
            self.changes.append((cause, amount))
            return
        masks = self.masks.describe() if self.masks.masks else ""
        self.changes.append((cause, amount, program_line(), masks[:_LONGEST], what[:_LONGEST]))

    async def _charge_whole(self) -> None:
        """Charge what is due when the text is a whole: nothing, but for services."""

    # Death --------------------------------------------------------------------------------

    def die(self, finish_reason: str, reason: str) -> None:
        """End the particle with weight zero, keeping its text (used by samplers for limits)."""
        # A weight of zero has no twist to take back.
        self.twist_amount = 0.0
        self.weight = -math.inf
        self.finished = True
        self.finish_reason, self.reason = finish_reason, reason
        self._cause, self._cause_line = "", None

    def _die_of_mask(self, support: TokenMask | None, what: str = "") -> NoReturn:
        asked = f" within {support.name}" if support is not None else ""
        pending = self.context.pending
        after = f", after a draw that left {pending.name}" if pending is not None else ""
        self._die(
            "impossible_mask",
            f"{what or 'every next token'} is ruled out{asked} by {self.masks.describe()}{after}"
            f"{self._under_measure}",
        )

    def _die_of_measure(self, token: int, how: str) -> NoReturn:
        text = self.context.token(token)
        what = f"the {how} token {text!r} has no probability{self._under_measure}"
        self._die("impossible_mask", what)

    @property
    def _under_measure(self) -> str:
        """What a message says of a prior that rules tokens out; nothing where it rules out none."""
        prior = self.context.follower.measure.prior
        return f", under the base measure ({prior})" if prior.truncates else ""

    def _die(self, finish_reason: str, what: str) -> NoReturn:
        self.line = program_line()
        self._end_here(finish_reason, what)
        raise Stop

    def _end_here(self, finish_reason: str, what: str) -> None:
        where = f" (program line {self.line})" if self.line is not None else ""
        self._note_change(finish_reason, -math.inf, what)
        self.die(finish_reason, f"{what}{where}; the text so far is {self.text!r}")
        self._cause, self._cause_line = what, self.line
