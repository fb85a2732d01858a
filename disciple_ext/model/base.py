"""BaseModel: a particle that owns a proposal, a prior, and the correction between them.

A token x is drawn from the proposal q under the masks A in force and what is pending B, and the
weight is multiplied by ``p(x | B) q(A and B) / q(x)``: the target is the prior p restricted to
the constraint, whatever the proposal. With one prompt for both this is the mass of A given B.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NoReturn

from ..protocol.requests import Branch, Draw, Mass, Score, Tokens
from ..protocol.stream import Stream
from ..protocol.vocabulary import TokenMask, intersect, unfinished
from ..text import units
from .characters import CharacterMethods, Spelled
from .context import FollowerContext, Token
from .filling import FillMethods
from .masks.base import MaskStack
from .masks.characters import marks
from .services import ServiceMethods
from .stops import Stop, program_line, stoppable
from .verbs import VerbMethods
from .words import WordMethods

__all__ = ["BaseModel"]

_LONGEST = 200
"""Characters of what is said of one change of a weight."""


class BaseModel(
    WordMethods,
    CharacterMethods,
    FillMethods,
    ServiceMethods,
    VerbMethods,
):
    """A LLaMPPL model over a follower, with masks, prior and proposal, hints and checks.

    Subclasses define ``async def step(self)``, and may define ``check(self, text) -> bool``,
    ``prior_prompt(cls)`` and ``proposal_prompt(cls)``.

    Attributes:
        context: the proposal's context.
        max_tokens: tokens of text after which the particle ends with weight zero.
        weight: natural log of the particle's weight.
        masks: the masks in force.
        finish_reason: why the particle ended, or None while it has not.
        reason: the same for a person.
        line: program line at which it ended (1-based), or None.
        char_tolerance: share of the probability that text drawn by the character may lose (see
            :mod:`disciple_ext.model.spelling.spelling`); 0 for none.
        weighed: natural log of what each potential, by name and matter, was charged so far.
    """

    check: ClassVar[Callable[..., Any] | None] = None
    weight: float
    finished: bool
    twist_amount: float

    def __init__(self, context: FollowerContext, max_tokens: int | None = None) -> None:
        super().__init__()
        if not isinstance(context, FollowerContext):
            raise TypeError(
                "BaseModel.__init__ needs the context that the program was given: "
                f"super().__init__(context=context, ...), not {type(context).__name__}"
            )
        self.context = context
        self.max_tokens = max_tokens
        self.prior: FollowerContext | None = None
        self.masks = MaskStack(context.follower.vocabulary)
        self.finish_reason: str | None = None
        self.reason = ""
        self.line: int | None = None
        self.hint_text = ""
        self.preface_text = ""
        self.preface_rest = ""
        self.healed = 0
        self.spelled: Spelled | None = None
        self.char_tolerance = 1e-3
        self.lost_before = 0.0
        self.log_prior = 0.0
        self.log_proposal = 0.0
        self.weighed: dict[tuple[str, str], float] = {}
        self._explained = False  # whether changes say where they come from: it takes time
        self.changes: list[tuple[Any, ...]] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = stoppable(cls.__dict__["step"])

    @classmethod
    def prior_prompt(cls) -> str | None:
        """The message under which the text should be fluent; None for the proposal's."""
        return None

    @classmethod
    def proposal_prompt(cls) -> str | None:
        """The message that also knows the constraints; None for the prior's, or the task."""
        return None

    # The text -----------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The text so far (without an unfinished code point at its end)."""
        if self.spelled is None:
            return str(self.context)[self.healed :]
        data = self.masks.text
        return data[: len(data) - len(unfinished(data))].decode("utf-8", errors="replace")

    @property
    def words(self) -> list[str]:
        """The words of the text so far, as every mask and check counts them."""
        return list(_words(self.text))

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

    # Drawing ------------------------------------------------------------------------------

    async def next_token(self) -> Token:
        """Draw the next token of the text: never an end of text or a special token."""
        return await self._draw(self.context.follower.vocabulary.text_mask)

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
        log_pending = (prior or ctx).log_pending
        what = support.name if support is not None else ""
        self._charge("draw", drawn.log_p - log_pending + drawn.log_mass - drawn.log_q, what)
        self.log_prior += drawn.log_p
        self.log_proposal += drawn.log_q
        self._append(drawn.token)
        return ctx.token(drawn.token)

    async def wants(self, chars: str | Iterable[str]) -> bool:
        """Is the next token one of these marks? A draw, weight corrected, pending.

        Args:
            chars: marks of one character each as a string, or the texts of whole tokens.
        """
        await self._settle()
        vocabulary = self.context.follower.vocabulary
        return await self._branch(marks(vocabulary, chars), self._allowed(vocabulary.text_mask))

    async def wants_to_end(self) -> bool:
        """Does the text want to end here? A draw from the proposal, weight corrected.

        The outcome stays pending: the :meth:`end` or token that follows is scored given it.
        """
        if self.spelled is not None:
            return await self._wants_to_end_chars(self.spelled)
        vocabulary = self.context.follower.vocabulary
        within, may_end = self.context.drawable, self.masks.may_end
        if may_end is not None:  # other masks rule on text, and do not bear on whether it ends
            over = vocabulary.eos_mask
            over = over if within is None else intersect(within, over)
            text = self._allowed(vocabulary.text_mask)
            assert text is not None
            within = text | over if may_end else text
        return await self._branch(vocabulary.eos_mask, within)

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
        log_pending = (prior or ctx).log_pending
        what = f"{mask.name}: {'yes' if branched.value else 'no'}" if self._explained else ""
        self._charge("branch", branched.log_p - log_pending - branched.log_q, what)
        self._narrow(mask if branched.value else ~mask, branched.log_p)
        return bool(branched.value)

    async def force(self, text: str) -> None:
        """Observe exactly ``text``: the weight is multiplied by the prior's probability of it.

        Raises:
            TypeError: ``text`` is not a string.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"force() takes a string, not {type(text).__name__}; write an f-string or str(...)"
            )
        tokens = self.context.follower.vocabulary.encode(text)
        if tokens:
            await self._observe_tokens(tokens, "force", text)

    async def _observe_tokens(self, tokens: Tokens, cause: str, text: str = "") -> None:
        await self._settle()
        self._room_for(len(tokens))
        scored = self.prior or self.context
        logs = await scored.follower.ask(Score(scored.prefix, tokens, scored.temp))
        for token, log_p in zip(tokens, logs, strict=True):
            allowed = self._allowed(None)
            if allowed is not None and token not in allowed:
                self._die_of_mask(None, f"the forced token {self.context.token(token)!r}")
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

    async def new_context(self, prompt: str, temp: float = 1.0) -> FollowerContext:
        """A further context under ``prompt``: a judge, a second voice. It has no correction."""
        return FollowerContext(self.context.follower, prompt, temp=temp, random=self.random.child())

    # Hints, ends, conditions --------------------------------------------------------------

    async def hint(self, text: str) -> None:
        """Put "Note to self: ``text``" into the proposal, directly before the text.

        A new hint replaces the old one, and an empty one removes it. The prior never sees it:
        it goes on under the prompt without hints. What is pending stays pending.
        """
        if self.prior is None:
            self.prior = copy.copy(self.context)
        if not isinstance(text, str):
            raise TypeError(f"hint() takes a string, not {type(text).__name__}; write str(...)")
        if self.spelled is not None:
            await self._settle()
        self.hint_text = text
        follower = self.context.follower
        self.context.prompt = (
            *follower.prompt(self.context.user, f"Note to self: {text}" if text else ""),
            *follower.vocabulary.encode(self.preface_text),
        )

    async def preface(self, text: str) -> None:
        """Put ``text`` before the text, as if the Follower had written it already.

        It is no part of the answer and costs no weight: for a word or a phrase as it stands after
        other words. It comes before anything is written. A blank at its end joins the first
        token of a text that is drawn by the character.

        Raises:
            RuntimeError: there is text already.
        """
        if self.masks.text or self.spelled is not None:
            raise RuntimeError("preface() comes first in a text, before anything is written")
        text = self.preface_rest + text
        self.preface_rest = text[len(text.rstrip(" ")) :]
        self._put_preface(text.rstrip(" "))

    def _put_preface(self, text: str) -> None:
        self.preface_text += text
        tokens = self.context.follower.vocabulary.encode(text)
        for context in (self.context, self.prior):
            if context is not None and tokens:
                context.prompt = (*context.prompt, *tokens)

    async def end(self) -> None:
        """Close the text: the weight is multiplied by the prior's mass of the end of text.

        It has no proposal term. On a finished particle it does nothing; after a drawn end of
        text it only finishes.
        """
        if self.finished:
            return
        if self.spelled is not None and self.finish_reason != "ended":
            await self._end_chars()
            self.finish_reason = "ended"
        if self.finish_reason != "ended":
            if self.masks.may_end is False:
                self._die_of_mask(None, "the end of the text")
            await self._observe_mask(self.context.follower.vocabulary.eos_mask, "end")
            self.finish_reason = "ended"
        if self.weighed:
            await self._weigh_whole()
        self.finish()

    def finish(self) -> None:
        """Finish the particle as it is (LLaMPPL's ``finish``)."""
        self._write_tokens()
        super().finish()
        if self.finish_reason is None:
            self.finish_reason = "ended"

    def condition(self, b: bool) -> None:
        """Constrain ``b`` to be true: if it is not, the particle ends here with weight zero.

        Raises:
            TypeError: ``b`` is a coroutine that nobody awaited.
        """
        _need_no_coroutine("condition", b)
        if not b:
            self._die("condition_false", "condition(False)")

    def score(self, score: float) -> None:
        """Multiply the weight by ``exp(score)``.

        Raises:
            ValueError: ``score`` is not a number; a weight of NaN would poison the run.
            TypeError: ``score`` is a coroutine that nobody awaited.
        """
        _need_no_coroutine("score", score)
        self._charge("score", float(score))

    def twist(self, amt: float) -> None:
        """Multiply the weight by ``exp(amt)`` until the next step (LLaMPPL's ``twist``)."""
        amt = float(amt)
        if not math.isfinite(amt):
            raise ValueError(f"twist() takes a finite log factor, not {amt}")
        self.twist_amount += amt
        self._charge("twist", amt)

    def untwist(self) -> None:
        """Take the twist back out."""
        if self.twist_amount:
            self._charge("twist", -self.twist_amount)
        self.twist_amount = 0.0

    def die(self, finish_reason: str, reason: str) -> None:
        """End the particle with weight zero, keeping its text (used by samplers for limits)."""
        self.twist_amount = 0.0
        self.weight = -math.inf
        self.finished = True
        self.finish_reason, self.reason = finish_reason, reason

    # Inside -------------------------------------------------------------------------------

    def bind(self, prior: FollowerContext | None, stream: Stream) -> None:
        """Give the particle its prior context and its randomness (done by the run)."""
        self.prior = prior
        self.context.random = stream

    def _allowed(self, support: TokenMask | None) -> TokenMask | None:
        within = self.context.drawable
        if support is not None:
            within = support if within is None else intersect(within, support)
        return self.masks.current(within)

    def _append(self, token: int) -> None:
        self.context.append(token)
        if self.prior is not None:
            self.prior.append(token)
        self.masks.consume(token)

    def _narrow(self, mask: TokenMask, log_mass: float) -> None:
        self.context.narrow(mask, log_mass)
        if self.prior is not None:
            self.prior.narrow(mask, log_mass)

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

    def _room_for(self, tokens: int) -> None:
        if self.finished:
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

    def _die_of_mask(self, support: TokenMask | None, what: str = "") -> NoReturn:
        asked = f" within {support.name}" if support is not None else ""
        pending = self.context.pending
        after = f", after a draw that left {pending.name}" if pending is not None else ""
        self._die(
            "impossible_mask",
            f"{what or 'every next token'} is ruled out{asked} by {self.masks.describe()}{after}",
        )

    def _die(self, finish_reason: str, what: str) -> NoReturn:
        self.line = program_line()
        self._end_here(finish_reason, what)
        raise Stop

    def _end_here(self, finish_reason: str, what: str) -> None:
        where = f" (program line {self.line})" if self.line is not None else ""
        self._note_change(finish_reason, -math.inf, what)
        self.die(finish_reason, f"{what}{where}; the text so far is {self.text!r}")

    def __deepcopy__(self, memo: dict[int, Any]) -> BaseModel:
        # Registered before the attributes are copied: one that refers back to the particle must
        # find the clone, not a phantom.
        clone: BaseModel = type(self).__new__(type(self))
        memo[id(self)] = clone
        immutable = self.immutable_properties()
        for name, value in self.__dict__.items():
            setattr(clone, name, value if name in immutable else copy.deepcopy(value, memo))
        return clone


@functools.lru_cache(maxsize=256)
def _words(text: str) -> tuple[str, ...]:
    return tuple(units.words(text))


def _need_no_coroutine(verb: str, value: object) -> None:
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError(f"{verb}() got a coroutine; write 'await' before the call in it")
