"""BaseModel: a particle with all that programs call, put together.

How its draws and its weight go together is told in :mod:`disciple_ext.model.particle`.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar

from .characters import CharacterMethods
from .context import FollowerContext
from .filling import FillMethods
from .services import ServiceMethods
from .stops import stoppable
from .verbs import VerbMethods
from .words import WordMethods

__all__ = ["BaseModel"]


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

    def __init__(self, context: FollowerContext, max_tokens: int | None = None) -> None:
        # LLaMPPL's docstring shows `super().__init__(self)`, and planners copy it.
        if not isinstance(context, FollowerContext):
            raise TypeError(
                "BaseModel.__init__ needs the context that the program was given: "
                f"super().__init__(context=context, ...), not {type(context).__name__}"
            )
        super().__init__(context, max_tokens)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # An inherited one is wrapped already.
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

    # Text ----------------------------------------------------------------------------------

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

    async def new_context(self, prompt: str, temp: float = 1.0) -> FollowerContext:
        """A further context under ``prompt``: a judge, a second voice. It has no correction."""
        # A stream of its own: what is drawn there leaves this particle's draws as they were.
        return FollowerContext(self.context.follower, prompt, temp=temp, random=self.random.child())

    # Hints, conditions, weights --------------------------------------------------------------

    async def hint(self, text: str) -> None:
        """Put "Note to self: ``text``" into the proposal, directly before the text.

        A new hint replaces the old one, and an empty one removes it. The prior never sees it:
        it goes on under the prompt without hints. What is pending stays pending.
        """
        if self.prior is None:
            # Until the first hint one context was both; from here on they have two prompts.
            self.prior = copy.copy(self.context)
        if not isinstance(text, str):
            raise TypeError(f"hint() takes a string, not {type(text).__name__}; write str(...)")
        if self.spelled is not None:
            # Characters without tokens were spelled after the old prompt.
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
        # An infinite twist cannot be taken back: inf - inf is NaN, as it comes out in LLaMPPL.
        if not math.isfinite(amt):
            raise ValueError(f"twist() takes a finite log factor, not {amt}")
        self.twist_amount += amt
        self._charge("twist", amt)

    def untwist(self) -> None:
        """Take the twist back out."""
        if self.twist_amount:
            self._charge("twist", -self.twist_amount)
        self.twist_amount = 0.0


def _need_no_coroutine(verb: str, value: object) -> None:
    # A coroutine is true, so a `condition` on one would always hold.
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError(f"{verb}() got a coroutine; write 'await' before the call in it")
