"""What base measures are held to: rows and targets computed anew, by sorting and summing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disciple_ext import BaseMeasure, BaseModel, Measure
from disciple_ext.model.context import FollowerContext
from disciple_ext.model.masks.characters import AvoidCharsMask
from disciple_ext.protocol.adapters import measured
from disciple_ext.testing.models import Example
from disciple_ext.testing.toy import Pieces, ToyFollower

Floats = NDArray[np.float64]

PRIORS = (
    Measure(0.7),
    Measure(top_p=0.8),
    Measure(top_k=4),
    Measure(min_p=0.25),
    Measure(1.4, top_p=0.9, top_k=5, min_p=0.1),
)
PROPOSALS = (
    None,
    Measure(0.6),
    Measure(top_p=0.6),
    Measure(top_k=2),
    Measure(min_p=0.6),
    Measure(1.5, top_p=0.8, top_k=4, min_p=0.2),
)
POWERS = (1.0, 1.5, 0.7)
ALL = tuple(
    BaseMeasure(prior, proposal, power)
    for prior, proposal, power in itertools.product((Measure(), *PRIORS), PROPOSALS, POWERS)
)
"""Each option of the prior alone, of the proposal alone, and of both, at each power."""


@dataclass(frozen=True)
class MeasuredExample(Example):
    """A program over a toy follower under a base measure."""

    measure: BaseMeasure = BaseMeasure()

    @property
    def name(self) -> str:
        """Name for reports."""
        return f"{self.model.__name__} under {self.measure}"

    @property
    def follower(self) -> Any:
        """The follower under the measure."""
        return measured(super().follower, self.measure)


def kept(p: Floats, measure: Measure) -> Floats:
    """A distribution under a measure, one token after the other."""
    with np.errstate(divide="ignore"):
        p = np.exp(np.log(p) / measure.temperature)
    p = p / p.sum()
    order = sorted(range(len(p)), key=lambda i: -p[i])
    if measure.top_k is not None:
        p[order[measure.top_k :]] = 0.0
        p = p / p.sum()
    if measure.top_p < 1.0:
        total = 0.0
        for i in order:
            if total >= measure.top_p:
                p[i] = 0.0
            total += p[i]
        p = p / p.sum()
    p[p < measure.min_p * p.max()] = 0.0
    return np.asarray(p / p.sum())


def prior_row(p: Floats, measure: BaseMeasure) -> Floats:
    """The target's factor of each token."""
    row = kept(p, measure.prior)
    return np.asarray(np.where(row > 0.0, row**measure.power, 0.0))


class Told:
    """A toy's rows under a measure, by prompt and text."""

    def __init__(self, toy: ToyFollower, measure: BaseMeasure) -> None:
        self.toy, self.measure = toy, measure
        self.vocabulary = toy.vocabulary
        self.texts = [i for i in range(len(toy.pieces)) if i in toy.vocabulary.text_mask]
        self.eos = sorted(toy.vocabulary.eos)

    def row(self, prompt: str, text: Pieces) -> Floats:
        return prior_row(self.toy.probabilities(prompt, text), self.measure)

    def of(self, prompt: str, text: Pieces, piece: str) -> float:
        return float(self.row(prompt, text)[self.toy.pieces.index(piece)])

    def end(self, prompt: str, text: Pieces) -> float:
        return float(self.row(prompt, text)[self.eos].sum())


Target = Callable[[Told], dict[str, float]]


class TokensAndEnd(BaseModel):
    """Two prompts, a mask on each token, a forced text, and the end."""

    @classmethod
    def prior_prompt(cls) -> str:
        return "p"

    @classmethod
    def proposal_prompt(cls) -> str:
        return "q"

    async def step(self) -> None:
        async with AvoidCharsMask(self, "c" if self.text.endswith("b") else ""):
            token = await self.next_token()
        await self.hint(f"after {token}")
        if token == "a":
            await self.force("bc")
        if self.context.token_count >= 3:
            await self.end()


def tokens_and_end(told: Told) -> dict[str, float]:
    """Its target: the prior's factors under its own prompt alone."""

    def walk(text: Pieces, mass: float) -> Iterator[tuple[str, float]]:
        if len(text) >= 3:
            yield "".join(map(str, text)), mass * told.end("p", text)
            return
        for piece in "abc":
            if piece == "c" and text[-1:] == ("b",):
                continue
            now, m = (*text, piece), mass * told.of("p", text, piece)
            for forced in "bc" if piece == "a" else "":
                m *= told.of("p", now, forced)
                now = (*now, forced)
            yield from walk(now, m)

    return dict(walk((), 1.0))


class OnePromptPending(BaseModel):
    """One prompt, whose branches stay pending over a hint; texts end where they want to."""

    def __init__(self, context: FollowerContext) -> None:
        super().__init__(context, max_tokens=3)

    async def step(self) -> None:
        if self.context.token_count and await self.wants_to_end():
            await self.end()
            return
        await self.wants("ab")
        if self.context.token_count == 1:
            await self.hint("now")
        await self.next_token()


def one_prompt_pending(told: Told) -> dict[str, float]:
    """Every text of one to three tokens that ends: branches are draws, and change no target."""
    found = {}
    for length in (1, 2, 3):
        for text in itertools.product("abc", repeat=length):
            mass = np.prod([told.of("toy", text[:i], text[i]) for i in range(length)])
            found["".join(text)] = float(mass) * told.end("toy", text)
    return found


class ByCharacter(BaseModel):
    """Characters, however they are cut into tokens; the text ends where it wants to."""

    def __init__(self, context: FollowerContext) -> None:
        super().__init__(context)
        self.char_tolerance = 0.0

    async def step(self) -> None:
        char = await self.next_char("ab")
        if char == "a":
            await self.force_chars("b")
        if len(self.text) >= 3 or await self.wants_to_end():
            await self.end()


def by_character(told: Told) -> dict[str, float]:
    """The sum over all token sequences that spell a text and then end."""

    def spelled(rest: str, text: Pieces) -> float:
        if not rest:
            return told.end("toy", text)
        return sum(
            told.of("toy", text, piece) * spelled(rest[len(piece) :], (*text, piece))
            for piece in ("a", "b", "ab", "ba")
            if rest.startswith(piece)
        )

    texts = {""}
    done = set()
    for _ in range(3):
        texts = {t + ("ab" if c == "a" else "b") for t in texts if len(t) < 3 for c in "ab"}
        done |= texts
    return {text: spelled(text, ()) for text in done}


class CharactersThenTokens(ByCharacter):
    """Characters under two prompts, and a token after them."""

    @classmethod
    def prior_prompt(cls) -> str:
        return "p"

    @classmethod
    def proposal_prompt(cls) -> str:
        return "q"

    async def step(self) -> None:
        await self.spell(["ab", "b"])
        await self.next_token()
        await self.end()


def characters_then_tokens(told: Told) -> dict[str, float]:
    """All ways to cut the two characters, then one token, then the end."""
    found: dict[str, float] = {}
    cuts: list[Pieces] = [("a", "b"), ("ab",), ("b", "b")]
    for cut in cuts:
        mass = np.prod([told.of("p", cut[:i], str(cut[i])) for i in range(len(cut))])
        for piece in ("a", "b", "ab", "ba"):
            text = (*cut, piece)
            last = told.of("p", cut, piece) * told.end("p", text)
            whole = "".join(map(str, text))
            found[whole] = found.get(whole, 0.0) + float(mass) * last
    return found


TARGETS: tuple[tuple[type[BaseModel], tuple[str, ...], Target], ...] = (
    (TokensAndEnd, ("a", "b", "c"), tokens_and_end),
    (OnePromptPending, ("a", "b", "c"), one_prompt_pending),
    (ByCharacter, ("a", "b", "ab", "ba"), by_character),
    (CharactersThenTokens, ("a", "b", "ab", "ba"), characters_then_tokens),
)


def toy_of(tokens: tuple[str, ...], seed: int = 5) -> ToyFollower:
    """A model with random distributions."""
    return ToyFollower.random(seed, tokens)
