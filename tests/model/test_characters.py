"""Programs that write by the character: target, evidence and what may be lost, by enumeration."""

from __future__ import annotations

import asyncio
import copy
import math
import string
from collections import defaultdict
from collections.abc import Callable, Iterable

import pytest

from disciple_ext.model.base import BaseModel
from disciple_ext.model.context import FollowerContext
from disciple_ext.model.masks.base import Mask
from disciple_ext.model.masks.characters import (
    AvoidCharsMask,
    AvoidWordsMask,
    CharsMask,
    ChoiceMask,
    MaxCharsMask,
    PunctuationMask,
    WordLengthMask,
)
from disciple_ext.protocol.utf8 import valid_bytes
from disciple_ext.records.task import Task
from disciple_ext.run.particles import make_particle
from disciple_ext.testing import ScriptedFollower, ToyFollower, exact_posterior
from disciple_ext.testing.exact import prior_masses

TOKENS = ("a", "b", "ab", "ba")
TOY = ToyFollower.random(7, TOKENS)


class Chars(BaseModel):
    """Prior and proposal; two characters, then the end."""

    def __init__(self, context: FollowerContext) -> None:
        super().__init__(context=context)
        self.char_tolerance = 0.0

    @classmethod
    def prior_prompt(cls) -> str:
        return "prior"

    @classmethod
    def proposal_prompt(cls) -> str:
        return "proposal"

    async def step(self) -> None:
        await self.next_char()
        if len(self) == 2:
            await self.end()


class OnePrompt(Chars):
    @classmethod
    def proposal_prompt(cls) -> str:
        return "prior"


class Masked(Chars):
    async def step(self) -> None:
        async with AvoidCharsMask(self, "a" if self.text.endswith("a") else "b"):
            await self.next_char("ab")
        if len(self) == 3:
            await self.end()


class Forced(Chars):
    async def step(self) -> None:
        await self.next_char()
        await self.force_chars("ba")
        await self.next_char()
        await self.end()


class Free(Chars):
    """The follower says where the text ends, up to three characters."""

    async def step(self) -> None:
        if len(self) == 3 or (self.text and await self.wants_to_end()):
            await self.end()
            return
        await self.next_char()


class ThenTokens(Chars):
    """One of the ways to write two characters is chosen, and a token follows."""

    async def step(self) -> None:
        await self.next_char()
        await self.next_char()
        await self.next_token()
        await self.end()


class TokensFirst(Chars):
    """A draw that is pending rules on the first character, too."""

    async def step(self) -> None:
        await self.next_token()
        await self.wants("a")
        await self.next_char()
        await self.end()


class Spelt(Chars):
    async def step(self) -> None:
        await self.spell(["ab", "b", "ab"])
        await self.end()


class SpeltBlind(Chars):
    """A search that may ask about the beginning alone finds nothing."""

    async def step(self) -> None:
        await self.spell(["ab", "b", "ab"], look=1)
        await self.end()


def by_text(length: int, fits: Callable[[str], bool]) -> dict[str, float]:
    """The target: the prior's probability of each text, over all ways to write it."""
    masses: defaultdict[str, float] = defaultdict(float)
    for pieces, mass in prior_masses(TOY, "prior", length).items():
        text = "".join(map(str, pieces))
        if fits(text):
            masses[text] += mass
    return dict(masses)


def alternating(text: str) -> bool:
    return (
        len(text) == 3
        and all(x != "b" or i and text[i - 1] == "a" for i, x in enumerate(text))
        and "aa" not in text
    )


def token_after(pieces: tuple[object, ...]) -> bool:
    """Whether a token follows two characters."""
    return len(pieces) > 1 and len("".join(map(str, pieces[:-1]))) == 2


@pytest.mark.parametrize(
    ("program", "fits"),
    [
        (Chars, lambda t: len(t) == 2),
        (OnePrompt, lambda t: len(t) == 2),
        (Masked, alternating),
        (Forced, lambda t: len(t) == 4 and t[1:3] == "ba"),
        (Free, lambda t: 1 <= len(t) <= 3),
        (Spelt, lambda t: len(t) == 3 and t[1] == "b"),
        (SpeltBlind, lambda t: len(t) == 3 and t[1] == "b"),
    ],
)
def test_target_and_evidence_are_exact(
    program: type[BaseModel], fits: Callable[[str], bool]
) -> None:
    wanted = by_text(4, fits)
    found = exact_posterior(program, TOY)
    assert found.masses == pytest.approx(wanted, rel=1e-5)
    assert found.evidence == pytest.approx(sum(wanted.values()), rel=1e-5)
    assert all(e.particle.lost_mass == 0.0 for e in found.executions)


def test_tokens_may_follow_characters() -> None:
    wanted: defaultdict[str, float] = defaultdict(float)
    for pieces, mass in prior_masses(TOY, "prior", 3).items():
        if token_after(pieces):
            wanted["".join(map(str, pieces))] += mass
    found = exact_posterior(ThenTokens, TOY)
    assert found.masses == pytest.approx(dict(wanted), rel=1e-5)
    assert {e.particle.context.token_count for e in found.executions} == {2, 3}


def test_characters_may_follow_tokens_and_what_is_pending() -> None:
    wanted: defaultdict[str, float] = defaultdict(float)
    for pieces, mass in prior_masses(TOY, "prior", 2).items():
        if len(pieces) == 2 and len(str(pieces[1])) == 1:
            wanted["".join(map(str, pieces))] += mass
    found = exact_posterior(TokensFirst, TOY)
    assert found.masses == pytest.approx(dict(wanted), rel=1e-5)


@pytest.mark.parametrize("tolerance", [0.3, 0.4])
def test_with_a_tolerance_every_text_is_within_what_it_says_may_be_lost(tolerance: float) -> None:
    class Loose(Free):
        def __init__(self, context: FollowerContext) -> None:
            super().__init__(context)
            self.char_tolerance = tolerance

        async def next_char(self, chars: Iterable[str] | None = "ab") -> str:
            return await super().next_char(chars)  # few characters, for fewer executions

    wanted = by_text(3, lambda t: 1 <= len(t) <= 3)
    found = exact_posterior(Loose, TOY)
    lost = {e.text: e.particle.lost_mass for e in found.executions}
    assert set(found.masses) == set(wanted), "whatever has some probability can be drawn"
    for text, mass in wanted.items():
        assert mass * (1.0 - lost[text]) * (1 - 1e-6) <= found.masses[text] <= mass * (1 + 1e-6)
    assert max(lost.values()) > 0.0, "nothing was left out: the test shows nothing"
    total = sum(wanted.values())
    assert total * (1.0 - max(lost.values())) <= found.evidence <= total * (1 + 1e-6)


def test_a_whole_word_is_observed_with_the_end_of_text_or_what_is_no_letter() -> None:
    toy = ToyFollower.random(9, ("a", "ab", " ", "b ", " a"))

    class Word(Chars):
        async def step(self) -> None:
            await self.next_char("ab")
            await self.end_word()
            self.finish()

    class Goes(Chars):
        """The word's end stays pending for a token, and for a character."""

        by_char = True

        async def step(self) -> None:
            await self.next_char("a")
            await self.end_word()
            if await self.wants_to_end():
                await self.end()
            elif self.by_char:
                await self.next_char()
                self.finish()
            else:
                await self.next_token()
                self.finish()

    def mass(first: str) -> float:
        """That the text begins with this letter, and no letter follows it."""
        row = toy.probabilities("prior", ())
        p = dict(zip(toy.pieces, row, strict=True))
        if first == "b":
            return float(p["b "])
        after = toy.probabilities("prior", ("a",))
        ids = [toy.pieces.index(piece) for piece in (" ", " a")] + sorted(toy.vocabulary.eos)
        return float(p["a"] * after[ids].sum())

    found = exact_posterior(Word, toy)
    assert found.masses == pytest.approx({c: mass(c) for c in "ab"}, rel=1e-5)
    after = dict(zip(toy.pieces, toy.probabilities("prior", ("a",)), strict=True))
    p = toy.probabilities("prior", ())[toy.pieces.index("a")]
    ends = sum(after[toy.pieces[i]] for i in toy.vocabulary.eos)
    wanted = {"a": p * ends, "a ": p * (after[" "] + after[" a"])}
    assert exact_posterior(Goes, toy).masses == pytest.approx(wanted, rel=1e-5)
    Goes.by_char = False
    wanted = {"a": p * ends, "a ": p * after[" "], "a a": p * after[" a"]}
    assert exact_posterior(Goes, toy).masses == pytest.approx(wanted, rel=1e-5)


def test_code_points_are_drawn_whole_and_a_blank_after_a_preface_joins_the_first_token() -> None:
    toy = ToyFollower.random(2, ("a", " a", " ", "é", b"\xc3", b"\xa9", b"\xa9a"))

    class Accent(Chars):
        async def step(self) -> None:
            await self.preface("a ")
            assert await self.next_char("aé") == self.text
            self.finish()

    found = exact_posterior(Accent, toy)
    assert set(found.masses) == {"a", "é"}

    def row(*pieces: str | bytes) -> dict[str | bytes, float]:
        return dict(zip(toy.pieces, toy.probabilities("prior", ("a", *pieces)), strict=True))

    blank = row()[" "]
    space = row()[" "] + row()[" a"]  # what the preface has fixed
    wanted = {
        "a": (blank * row(" ")["a"] + row()[" a"]) / space,
        "é": blank
        * (
            row(" ")["é"]
            + row(" ")[b"\xc3"] * (row(" ", b"\xc3")[b"\xa9"] + row(" ", b"\xc3")[b"\xa9a"])
        )
        / space,
    }
    # A token that joins the blank leaves no room for another one's first bytes.
    assert found.masses == pytest.approx(wanted, rel=1e-5)


def particle(program: type[BaseModel] = OnePrompt, toy: ToyFollower = TOY) -> BaseModel:
    return make_particle(program, Task("toy", n=1), toy, 0, 0)


def test_a_clone_goes_its_own_way() -> None:
    async def check() -> None:
        one = particle()
        await one.next_char()
        two = copy.deepcopy(one)
        begun = one.text
        await one.force_chars("a")
        await two.force_chars("b")
        assert (one.text, two.text) == (begun + "a", begun + "b")
        assert one.weight != two.weight and bytes(two.masks.text).decode() == two.text

    asyncio.run(check())


def test_the_log_probabilities_of_the_characters_add_up_to_the_texts() -> None:
    async def check() -> None:
        one = particle()
        text = await one.next_char() + await one.next_char()
        assert len(one.char_log_probs) == 2
        assert sum(one.char_log_probs) == pytest.approx(one.log_prior)
        mass = math.exp(one.log_prior)
        await one.end()
        assert one.char_log_probs == () and one.text == text
        assert one.context.token_count in (1, 2)
        assert mass > sum(by_text(2, lambda t: t == text).values())

    asyncio.run(check())


@pytest.mark.parametrize(
    ("mask", "allowed"),
    [
        (lambda p: CharsMask(p, "bé"), {"b", "é"}),
        (lambda p: AvoidCharsMask(p, "b"), {"a", "é", " "}),
        (lambda p: AvoidCharsMask(p, "é"), {"a", "b", " "}),
        (lambda p: PunctuationMask(p, "b "), {"b", " "}),
        (lambda p: ChoiceMask(p, ["ab", "éa"]), {"a", "é"}),
        (lambda p: MaxCharsMask(p, 1), {"a", "b", "é", " "}),
        (lambda p: MaxCharsMask(p, 0), set()),
        (lambda p: WordLengthMask(p, 2), {"a", "b", "é", " "}),
        (lambda p: WordLengthMask(p, 1), {" "}),
    ],
)
def test_masks_rule_on_characters(mask: Callable[[BaseModel], Mask], allowed: set[str]) -> None:
    toy = ToyFollower.random(4, ("a", "b", "é", " ", b"\xc3", b"\xa9"))

    class One(Chars):
        async def step(self) -> None:
            await self.force_chars("a")
            async with mask(self):
                await self.next_char()
            self.finish()

    found = exact_posterior(One, toy)
    assert {text[1:] for text in found.masses} == allowed


def test_what_cannot_be_written_ends_the_particle_with_a_reason() -> None:
    class Nothing(Chars):
        async def step(self) -> None:
            async with CharsMask(self, "z"):
                await self.next_char()

    class Ruled(Chars):
        async def step(self) -> None:
            async with AvoidCharsMask(self, "a"):
                await self.force_chars("a")

    class Unknown(Chars):
        async def step(self) -> None:
            await self.force_chars("z")

    class Long(Chars):
        async def step(self) -> None:
            self.max_tokens = 3
            while True:
                await self.next_char()

    for program, reason, what in (
        (Nothing, "impossible_mask", "ruled out by CharsMask"),
        (Ruled, "impossible_mask", "the forced 'a' is ruled out by AvoidCharsMask"),
        (Unknown, "impossible_mask", "gives 'z' no probability"),
        (Long, "max_tokens", "max_tokens=3"),
    ):
        one = particle(program)
        asyncio.run(one.step())
        assert one.finish_reason == reason and what in one.reason, one.reason
        assert one.weight == -math.inf


def test_wrong_use_says_what_to_write() -> None:
    async def check() -> None:
        one = particle()
        async with AvoidWordsMask(one, ["ab"]):
            with pytest.raises(
                TypeError, match="AvoidWordsMask rules on tokens, not on characters"
            ):
                await one.next_char()
        with pytest.raises(TypeError, match="takes a string, not int"):
            await one.force_chars(3)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="single ASCII characters"):
            await one.spell(["é"])
        await one.next_char()
        with pytest.raises(RuntimeError, match="before anything is written"):
            await one.preface("Now ")

    asyncio.run(check())


def test_a_long_word_is_found_by_looking_ahead() -> None:
    script = "the quixotic fox"
    toy = ScriptedFollower(script, other=1e-3)

    class Word(Chars):
        async def step(self) -> None:
            self.char_tolerance = 1e-3
            await self.force_chars("the ")
            letters = string.ascii_lowercase
            await self.spell([letters] * 7 + ["c"], after=letters)
            await self.end_word()
            self.finish()

    one = particle(Word, toy)
    asyncio.run(one.step())
    assert one.text == "the quixotic" and one.lost_mass < 1e-3


def test_bytes_that_go_on_with_a_code_point() -> None:
    for begun in (b"", b"\xc3", b"\xe0", b"\xe2", b"\xed", b"\xf0", b"\xf0\x90", b"\xf4"):
        valid = valid_bytes(begun)
        for byte in range(256):
            data = begun + bytes([byte])
            ok = False
            for rest in (b"", b"\x80", b"\xa0\x80", b"\x80\x80", b"\x90\x80\x80", b"\x80\x80\x80"):
                try:
                    ok |= len((data + rest).decode()) == 1
                except UnicodeDecodeError:
                    continue
            assert valid[byte] == ok, data
