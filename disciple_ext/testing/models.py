"""Small models whose targets and evidence are enumerated exactly: what samplers are held to.

In each, the weights vary from the first step on, so that a sampler that handles them wrongly
shows. Every class is an ordinary program over a toy follower; its docstring says what it covers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ..model.base import BaseModel
from ..model.context import FollowerContext
from ..model.masks.characters import AvoidCharsMask, CharsMask, ChoiceMask, MaxCharsMask
from .exact import ExactPosterior, exact_posterior
from .toy import ToyFollower

__all__ = ["EXAMPLES", "Example"]


@dataclass(frozen=True)
class Example:
    """A program over a toy follower.

    Attributes:
        model: the program.
        seed: seed of the follower's random distributions.
        tokens: the follower's text tokens.
    """

    model: type[BaseModel]
    seed: int = 0
    tokens: str = "abc"

    @property
    def name(self) -> str:
        """Name for reports."""
        return self.model.__name__

    @property
    def follower(self) -> ToyFollower:
        """The follower, the same one each time."""
        return _follower(self.seed, self.tokens)

    def exact(self, condition: bool = False) -> ExactPosterior:
        """The enumerated posterior, conditioned on ``check`` or not."""
        return _exact(self, condition)


@functools.cache
def _follower(seed: int, tokens: str) -> ToyFollower:
    return ToyFollower.random(seed, tokens)


@functools.cache
def _exact(example: Example, condition: bool) -> ExactPosterior:
    return exact_posterior(example.model, example.follower, condition=condition)


class _Toy(BaseModel):
    def favour(self, token: str, by: float = 1.2) -> None:
        """Weights that differ between tokens: e^by for a, e^-by for b, 1 for the others."""
        self.score({"a": by, "b": -by}.get(token, 0.0))


class Scores(_Toy):
    """``score()`` at every step."""

    async def step(self) -> None:
        self.favour(await self.next_token())
        if self.context.token_count == 3:
            self.finish()


class Masks(_Toy):
    """A mask whose mass depends on the text, and the end observed."""

    async def step(self) -> None:
        async with AvoidCharsMask(self, "ac" if self.text.endswith("b") else "b"):
            await self.next_token()
        async with AvoidCharsMask(self, "c"):
            await self.next_token()
        if self.context.token_count == 4:
            await self.end()


class NestedMasks(_Toy):
    """Masks inside a mask whose budget falls."""

    async def step(self) -> None:
        async with MaxCharsMask(self, max_chars=3):
            async with CharsMask(self, "ab"):
                self.favour(await self.next_token())
            async with AvoidCharsMask(self, "a"):
                await self.next_token()
        if self.context.token_count == 4:
            await self.end()


class Choices(_Toy):
    """One of some texts, token by token, over two steps."""

    async def step(self) -> None:
        async with ChoiceMask(self, ["a", "c"]):
            self.favour(await self.next_token())
        if self.context.token_count == 3:
            await self.end()


class ImpossibleMasks(_Toy):
    """Masks that leave nothing, after some texts."""

    async def step(self) -> None:
        async with CharsMask(self, "b" if self.text == "b" else "abc"):
            async with AvoidCharsMask(self, "b" if self.text[:1] == "b" else "c"):
                self.favour(await self.next_token())
        if self.context.token_count == 3:
            self.finish()


class PriorAndProposal(_Toy):
    """A proposal that is not the prior."""

    @classmethod
    def prior_prompt(cls) -> str:
        return "p"

    @classmethod
    def proposal_prompt(cls) -> str:
        return "q"

    async def step(self) -> None:
        await self.next_token()
        if self.context.token_count == 3:
            await self.end()


class MaskedProposal(PriorAndProposal):
    """Prior, proposal and mask at once."""

    async def step(self) -> None:
        async with AvoidCharsMask(self, "a" if self.text.endswith("a") else "b"):
            await self.next_token()
        if self.context.token_count == 3:
            await self.end()


class Forced(PriorAndProposal):
    """Forced text between draws, scored under the prior."""

    async def step(self) -> None:
        token = await self.next_token()
        await self.force("ba" if token == "a" else "c")
        if self.context.token_count > 3:
            await self.end()


class Hints(PriorAndProposal):
    """A hint that follows the text: it changes the proposal only."""

    async def step(self) -> None:
        token = await self.next_token()
        await self.hint(f"after {token}")
        if self.context.token_count == 3:
            self.finish()


class Twists(_Toy):
    """A twist that helps, and one that misleads."""

    async def step(self) -> None:
        token = await self.next_token()
        self.twist({"a": 0.5, "b": -0.8, "c": 0.2}[token])
        if self.context.token_count == 3:
            self.score(1.0 if self.text.count("a") > 1 else -0.8)
            self.finish()


class Foresight(_Toy):
    """A twist for a condition that comes later."""

    async def step(self) -> None:
        token = await self.next_token()
        count = self.context.token_count
        if count == 1:
            self.twist(1.0 if token == "b" else -2.0)
        elif count == 3:
            self.condition(self.text[0] == "b" or token == "a")
            self.finish()


class MostDie(_Toy):
    """Conditions that kill most particles, at each step."""

    async def step(self) -> None:
        token = await self.next_token()
        self.favour(token, 0.7)
        self.condition(token == "a" or self.text == "b")
        if self.context.token_count == 2:
            self.finish()


class AllDie(_Toy):
    """No particle survives: the evidence is zero."""

    async def step(self) -> None:
        self.favour(await self.next_token())
        self.condition(self.context.token_count < 2)


class EarlyAndLate(_Toy):
    """Some end at once with little weight, others late with much."""

    async def step(self) -> None:
        token = await self.next_token()
        if token == "a" or self.context.token_count == 4:
            self.score(-1.5 if self.context.token_count == 1 else 0.0)
            self.finish()
        else:
            self.score(0.0 if token == "b" else -0.6)


class LateAndLight(_Toy):
    """Some end at once with much weight, others late with little."""

    async def step(self) -> None:
        token = await self.next_token()
        if token == "a" or self.context.token_count == 3:
            self.score(1.5 if self.context.token_count == 1 else 0.0)
            self.finish()
        else:
            self.score(-0.8 if token == "b" else 0.2)


class VariableLength(PriorAndProposal):
    """Texts that end where the follower wants to, or die of ``max_tokens``."""

    def __init__(self, context: FollowerContext) -> None:
        super().__init__(context, max_tokens=3)

    async def step(self) -> None:
        if self.context.token_count and await self.wants_to_end():
            await self.end()
            return
        self.favour(await self.next_token(), 0.4)


class PendingDraws(PriorAndProposal):
    """The outcome of ``wants`` stays pending over the end of a step, and over a hint."""

    async def step(self) -> None:
        if self.context.pending is not None:
            await self.next_token()
        if self.context.token_count == 2:
            self.finish()
            return
        self.favour("a" if await self.wants("ab") else "b", 0.6)
        await self.hint(self.text)


class MaskDraws(_Toy):
    """LLaMPPL's ``mask_dist``, drawn and observed."""

    async def step(self) -> None:
        inside = await self.sample(self.context.mask_dist({0, 3}))
        token = await self.sample(self.context.next_token())
        self.favour(str(token))
        if token.token_id in self.context.lm.vocabulary.eos:
            self.score(1.0 if inside else 0.0)
            self.finish()
            return
        await self.observe(self.context.mask_dist({1, 2, 4}), True)
        if self.context.token_count == 2:
            self.finish()


class Plain(_Toy):
    """Written as for LLaMPPL: draws with the end of text in their support."""

    async def step(self) -> None:
        token = await self.sample(self.context.next_token())
        self.condition(token.token_id != 1)
        if token.token_id in self.context.lm.vocabulary.eos:
            self.finish()
            return
        self.score(0.7 if token == "a" else -0.7)
        self.condition(self.context.token_count < 4)


class Observed(_Toy):
    """Tokens observed and intervened upon between draws."""

    async def step(self) -> None:
        token = await self.next_token()
        await self.observe(self.context.next_token(), "b" if token == "a" else "c")
        await self.intervene(self.context.next_token(), "a")
        if self.context.token_count == 6:
            self.finish()


class Judged(_Toy):
    """A second context judges each token."""

    async def step(self) -> None:
        token = await self.next_token()
        judge = await self.new_context(f"judge {self.text}")
        await self.observe(judge.next_token(), "a" if token == "b" else "b")
        if self.context.token_count == 3:
            self.finish()


class ManyPerStep(_Toy):
    """As many tokens in a step as the follower wants."""

    async def step(self) -> None:
        for _ in range(2):
            token = await self.next_token()
            self.favour(token, 0.9)
            if token == "c":
                break
        if self.context.token_count > 2:
            self.finish()


class Checked(_Toy):
    """A check on unequal weights."""

    async def step(self) -> None:
        token = await self.next_token()
        self.favour(token)
        if token == "c" or self.context.token_count == 3:
            self.finish()

    def check(self, text: str) -> bool:
        """Whether the text is accepted."""
        return len(text) != 2


class AllAtTheEnd(_Toy):
    """Nothing to go by until the last step, which decides everything."""

    async def step(self) -> None:
        await self.next_token()
        if self.context.token_count == 3:
            self.score(2.0 * self.text.count("a") - 2.0)
            self.finish()


class StartingWeights(_Toy):
    """Particles begin with a weight, drawn before the first step."""

    async def start(self) -> None:
        await super().start()
        self.favour(await self.next_token(), 1.0)

    async def step(self) -> None:
        self.favour(await self.next_token(), 1.0)
        if self.context.token_count == 3:
            self.finish()


class Everything(PriorAndProposal):
    """Mask, prior, hint, twist, pending draw, deaths and lengths in one."""

    def __init__(self, context: FollowerContext) -> None:
        super().__init__(context, max_tokens=3)

    async def step(self) -> None:
        async with AvoidCharsMask(self, "c"):
            token = await self.next_token()
        self.twist(1.0 if token == "a" else -1.0)
        self.condition(not (token == "b" and self.context.token_count == 2))
        if await self.wants_to_end():
            await self.end()
            return
        await self.hint(f"after {token}")


EXAMPLES: tuple[Example, ...] = (
    Example(Scores, 6),
    Example(EarlyAndLate, 17),
    Example(MaskedProposal, 23),
    Example(MostDie, 4),
    Example(Everything, 3),
    Example(Twists, 1),
    Example(Masks, 0),
    Example(NestedMasks, 23),
    Example(Choices, 21),
    Example(ImpossibleMasks, 3),
    Example(PriorAndProposal, 9),
    Example(Forced, 22),
    Example(Hints, 1),
    Example(Foresight, 12),
    Example(AllDie, 14),
    Example(LateAndLight, 2),
    Example(VariableLength, 3),
    Example(PendingDraws, 3),
    Example(MaskDraws, 13),
    Example(Plain, 20),
    Example(Observed, 21),
    Example(Judged, 19),
    Example(ManyPerStep, 14),
    Example(Checked, 23),
    Example(AllAtTheEnd, 23),
    Example(StartingWeights, 10),
)
"""The models, those first that find most wrong samplers."""
