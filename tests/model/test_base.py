"""The weights of programs, against the target computed by brute force from the toy's table."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from disciple_ext.errors import FollowerError
from disciple_ext.model.base import BaseModel
from disciple_ext.model.context import FollowerContext
from disciple_ext.protocol.stream import Stream
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.testing import ToyFollower, exact_posterior, prior_masses, run_sampler

Pieces = tuple[Any, ...]


def mass(toy: ToyFollower, prompt: str, pieces: Iterable[Any], end: bool = True) -> float:
    """Probability of a token string (and then of the end of text), from the table."""
    pieces, total = tuple(pieces), 1.0
    for i, piece in enumerate(pieces):
        total *= toy.probabilities(prompt, pieces[:i])[toy.pieces.index(piece)]
    row = toy.probabilities(prompt, pieces)
    return float(total * (row[sorted(toy.vocabulary.eos)].sum() if end else 1.0))


def by_text(masses: dict[Pieces, float], keep: Callable[[Pieces], bool]) -> dict[str, float]:
    out: dict[str, float] = {}
    for pieces, value in masses.items():
        if keep(pieces):
            text = "".join(pieces)
            out[text] = out.get(text, 0.0) + value
    return out


def close(expected: dict[str, float]) -> Any:
    return pytest.approx(expected, rel=1e-5, abs=1e-15)


def program(body: str, prompts: str = "", **init: Any) -> str:
    lines = "\n".join(f"        {line}" for line in body.strip("\n").splitlines())
    prior, _, proposal = prompts.partition("|")
    source = "class InferenceModel(BaseModel):\n"
    for name, value in (("prior_prompt", prior), ("proposal_prompt", proposal)):
        if value:
            source += f"    @classmethod\n    def {name}(cls):\n        return {value!r}\n"
    return f"{source}    async def step(self):\n{lines}\n"


# Masks --------------------------------------------------------------------------------------

LOOP = """
{masks}
    while not await self.wants_to_end():
        await self.next_token()
await self.end()
"""


@pytest.mark.parametrize("prompts", ["", "p", "p|q"])
def test_nested_and_multi_token_masks_leave_the_prior_restricted(prompts: str) -> None:
    toy = ToyFollower.random(3, ["a", "b", "ab", "c"], eos=3, special=2)
    masks = "async with MaxCharsMask(self, max_chars=3), AvoidCharsMask(self, 'c'):"
    exact = exact_posterior(program(LOOP.format(masks=masks), prompts), toy)
    prompt = "p" if prompts else "toy"
    expected = by_text(
        prior_masses(toy, prompt, 3), lambda t: len("".join(t)) <= 3 and "c" not in t
    )
    assert exact.masses == close(expected)
    assert exact.evidence == pytest.approx(sum(expected.values()), rel=1e-5)
    assert {e.finish_reason for e in exact.executions} == {"ended", "impossible_mask"}


def test_a_budget_of_an_outer_block_falls_with_tokens_of_inner_blocks() -> None:
    toy = ToyFollower.random(5, ["a", "bb", "ccc"])
    body = """
async with MaxCharsMask(self, max_chars=5):
    async with AvoidCharsMask(self, "c"):
        await self.next_token()
    await self.next_token()
    async with MaxCharsMask(self, max_chars=2):
        await self.next_token()
await self.end()
"""
    exact = exact_posterior(program(body, "p|q"), toy)

    def keep(t: Pieces) -> bool:
        return len(t) == 3 and t[0] != "ccc" and len(t[2]) <= 2 and len("".join(t)) <= 5

    assert exact.masses == close(by_text(prior_masses(toy, "p", 3), keep))


def test_choice_mask_crosses_tokens_and_then_rules_out_nothing() -> None:
    toy = ToyFollower.random(6, ["a", "b", "ab", "ba"])
    body = """
async with ChoiceMask(self, ["aba", "bb"]):
    while self.text not in ("aba", "bb"):
        await self.next_token()
    await self.next_token()
await self.end()
"""
    exact = exact_posterior(program(body, "p|q"), toy)

    def keep(t: Pieces) -> bool:
        return "".join(t[:-1]) in ("aba", "bb")

    expected = by_text(prior_masses(toy, "p", 4), keep)
    assert set(expected) >= {"abaa", "bbab"}
    assert exact.masses == close(expected)


def test_masks_of_words_and_word_lengths() -> None:
    toy = ToyFollower.random(7, ["a", "b", " a", "."])
    body = """
async with WordLengthMask(self, max_chars=2), AvoidWordsMask(self, ["AB"]):
    for _ in range(3):
        await self.next_token()
await self.end()
"""
    exact = exact_posterior(program(body, "p|q"), toy)

    def keep(t: Pieces) -> bool:
        text = "".join(t)
        words = text.replace(".", " ").split()
        # A token that completes "ab" is ruled out even where the word might still go on.
        return len(t) == 3 and all(len(w) <= 2 and w != "ab" for w in words)

    assert exact.masses == close(by_text(prior_masses(toy, "p", 3), keep))


# Drawn ends, plain LLaMPPL ------------------------------------------------------------------

PLAIN = """
token = await self.sample(self.context.next_token())
if int(token) in self.context.lm.vocabulary.eos:
    await self.end()
    return
self.condition(self.context.token_count < 4)
"""


@pytest.mark.parametrize("prompts", ["p", "p|q"])
def test_plain_llamppl_style_keeps_the_end_of_text_in_its_support(prompts: str) -> None:
    toy = ToyFollower.random(8, ["a", "b"], eos=2, special=0)
    exact = exact_posterior(program(PLAIN, prompts), toy)
    # Each of the two end-of-text ids is an outcome of its own; the text's mass is their sum.
    assert exact.masses == close(by_text(prior_masses(toy, "p", 3), lambda t: True))


def test_plain_llamppl_style_is_masked_and_corrected() -> None:
    toy = ToyFollower.random(9, ["a", "b", "c"], eos=2, special=1)
    body = """
async with AvoidCharsMask(self, "b"):
    await self.sample(self.context.next_token())
if self.finish_reason is None:
    await self.sample(self.context.next_token())
await self.end()
"""
    # A mask allows text only, so no end of text and no special token can be drawn under it.
    exact = exact_posterior(program(body, "p|q"), toy)
    wanted: dict[str, float] = {}
    for first in ("a", "c"):
        row = toy.probabilities("p", (first,))
        # second draw: a text token, an end of text, or the special token, whose text is empty
        wanted[first] = mass(toy, "p", (first,)) + mass(toy, "p", (first, "<special0>"))
        for second in ("a", "b", "c"):
            wanted[first + second] = mass(toy, "p", (first, second))
        assert row.sum() == pytest.approx(1.0)
    assert exact.masses == close(wanted)


def test_wants_to_end_counts_every_end_of_text_id_and_no_special_token() -> None:
    toy = ToyFollower.random(10, ["a"], eos=3, special=2)
    body = """
await self.next_token()
if await self.wants_to_end():
    await self.end()
    return
self.finish()
"""
    exact = exact_posterior(program(body, "p|q"), toy)
    assert len(exact.executions) == 2
    assert exact.evidence == pytest.approx(mass(toy, "p", ("a",), end=False), rel=1e-5)


def test_end_charges_the_end_of_text_set_once() -> None:
    toy = ToyFollower.random(11, ["a", "b"], eos=2)
    plain = exact_posterior(program("await self.next_token()\nawait self.end()", "p|q"), toy)
    twice = exact_posterior(
        program("await self.next_token()\nawait self.end()\nawait self.end()", "p|q"), toy
    )
    assert plain.masses == close({t: mass(toy, "p", (t,)) for t in ("a", "b")})
    assert twice.masses == close(plain.masses)


# Forced text, observations ------------------------------------------------------------------


def test_forced_text_gets_the_priors_probability() -> None:
    toy = ToyFollower.random(12, ["a", "b", "c"])
    body = """
await self.next_token()
await self.force("ab")
await self.next_token()
await self.force("c")
await self.end()
"""
    exact = exact_posterior(program(body, "p|q"), toy)
    strings = [(x, "a", "b", y, "c") for x in "abc" for y in "abc"]
    assert exact.masses == close({"".join(s): mass(toy, "p", s) for s in strings})


def test_text_that_is_forced_against_a_mask_ends_the_particle() -> None:
    toy = ToyFollower.random(12, ["a", "b"])
    body = "async with AvoidCharsMask(self, 'b'):\n    await self.force('ab')\nawait self.end()"
    exact = exact_posterior(program(body), toy)
    assert exact.masses == {}
    (execution,) = exact.executions
    assert execution.finish_reason == "impossible_mask" and execution.text == "a"
    assert "'b'" in execution.particle.reason and "AvoidCharsMask" in execution.particle.reason
    assert execution.particle.line == 4


def test_observed_tokens_masks_and_interventions() -> None:
    toy = ToyFollower.random(13, ["a", "b", "c"])
    body = """
ctx = self.context
await self.observe(ctx.next_token(), "b")
await self.observe(ctx.mask_dist({0, 1}), True)
await self.next_token()
await self.intervene(ctx.next_token(), 2)
await self.observe(ctx.next_token(), 3)
"""
    exact = exact_posterior(program(body, "p|q"), toy)
    expected = {}
    for x in "ab":
        row = toy.probabilities("p", ("b", x, "c"))
        ends = row[sorted(toy.vocabulary.eos)].sum()
        expected[f"b{x}c"] = mass(toy, "p", ("b", x), end=False) * ends
    assert exact.masses == close(expected)


def test_observing_the_end_of_text_on_a_finished_particle_is_free() -> None:
    toy = ToyFollower.random(13, ["a"], eos=1, special=0)
    body = """
await self.sample(self.context.next_token())
await self.end()
"""
    exact = exact_posterior(program(body), toy)
    # Drawn end: its own probability only. Drawn "a": then the observed end.
    assert exact.masses == close({"": mass(toy, "toy", ()), "a": mass(toy, "toy", ("a",))})


# Hints and pending draws --------------------------------------------------------------------


@pytest.mark.parametrize("prompts", ["", "p|q"])
def test_hints_change_the_proposal_only_even_with_something_pending(prompts: str) -> None:
    toy = ToyFollower.random(14, ["a", "b", "c"])
    body = """
await self.hint("first")
await self.next_token()
ending = await self.wants_to_end()
await self.hint("second")
if ending:
    await self.end()
    return
letter = await self.sample(self.context.mask_dist({0, 1}))
await self.hint("third")
await self.next_token()
await self.hint("")
await self.end()
"""
    exact = exact_posterior(program(body, prompts), toy)
    prompt = "p" if prompts else "toy"
    assert exact.masses == close(by_text(prior_masses(toy, prompt, 2), lambda t: 1 <= len(t) <= 2))
    assert "q\nNote to self: second" in toy._asked or not prompts


def test_two_nested_mask_draws_stay_pending_together() -> None:
    toy = ToyFollower.random(15, ["a", "b", "c", "d"])
    body = """
first = await self.sample(self.context.mask_dist({0, 1}))
second = await self.sample(self.context.mask_dist({1, 2}))
token = await self.next_token()
assert (str(token) in "ab", str(token) in "bc") == (first, second)
await self.end()
"""
    exact = exact_posterior(program(body, "p|q"), toy)
    assert exact.masses == close({t: mass(toy, "p", (t,)) for t in "abcd"})


def test_a_pending_draw_conditions_forced_text_and_an_impossible_one_ends_the_particle() -> None:
    toy = ToyFollower.random(16, ["a", "b"])
    body = """
await self.sample(self.context.mask_dist({0}))
await self.force("a")
await self.end()
"""
    exact = exact_posterior(program(body, "p|q"), toy)
    assert exact.masses == close({"a": mass(toy, "p", ("a",))})
    assert sorted(e.finish_reason for e in exact.executions) == ["ended", "impossible_mask"]


def test_a_draw_that_the_prior_gives_no_mass_leaves_no_nan() -> None:
    table = {"p": lambda t: {"a": 1.0, "": 1.0}, "q": lambda t: {"a": 1.0, "b": 2.0, "": 1.0}}
    toy = ToyFollower(table, ["a", "b"])
    body = """
await self.wants("b")
await self.next_token()
await self.wants_to_end()
await self.end()
"""
    exact = exact_posterior(program(body, "p|q"), toy)
    assert exact.masses == close({"a": 0.25})


# Words --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompts", ["", "p|q"])
def test_words_are_the_prior_restricted_to_words(prompts: str) -> None:
    toy = ToyFollower.random(17, ["a", "b", " a", " b", ",", "."])
    body = """
assert (await self.next_word(max_chars=2)) == self.words[-1]
assert (await self.next_word(max_chars=1)) == self.words[-1]
await self.end_sentence()
await self.end()
"""
    exact = exact_posterior(program(body, prompts), toy)
    prompt = "p" if prompts else "toy"
    first = [(x,) for x in "ab"] + [(x, y) for x in "ab" for y in "ab"]
    strings = [(*w, *comma, f" {x}", ".") for w in first for comma in ((), (",",)) for x in "ab"]
    assert exact.masses == close({"".join(s): mass(toy, prompt, s) for s in strings})


def test_words_to_avoid_and_shortest_words() -> None:
    toy = ToyFollower.random(18, ["a", "b", "."])
    body = """
await self.next_word(max_chars=3, min_chars=2, avoid=["BA", "aba"])
await self.end_sentence(".")
await self.end()
"""
    exact = exact_posterior(program(body, "p|q"), toy)
    words = [w for k in (2, 3) for w in itertools.product("ab", repeat=k)]
    # "ba" can only be ruled out as a whole word: longer words may begin with it.
    expected = {
        f"{''.join(w)}.": mass(toy, "p", (*w, "."))
        for w in words
        if "".join(w) not in ("ba", "aba")
    }
    got = {t: m for t, m in exact.masses.items()}
    assert not {"ba.", "aba."} & got.keys()
    for text, value in got.items():
        assert value == pytest.approx(expected[text], rel=1e-5)


def test_a_word_that_is_over_is_not_continued() -> None:
    toy = ToyFollower.random(19, ["a", " a", "."])
    body = "await self.next_word(max_chars=2)\nawait self.next_token()\nawait self.end()"
    exact = exact_posterior(program(body, "p|q"), toy)
    strings = [("a",) * k + (x,) for k in (1, 2) for x in (" a", ".")]
    assert exact.masses == close({"".join(s): mass(toy, "p", s) for s in strings})


def test_words_inside_a_mask_of_letters_can_end() -> None:
    toy = ToyFollower.random(20, ["a", "b", "."])
    body = """
async with CharsMask(self, "ab"):
    await self.next_word(max_chars=3)
await self.end_sentence(".")
await self.end()
"""
    exact = exact_posterior(program(body, "p|q"), toy)
    strings = [(*w, ".") for k in (1, 2, 3) for w in itertools.product("ab", repeat=k)]
    assert exact.masses == close({"".join(s): mass(toy, "p", s) for s in strings})


def test_sentences_lines_and_begun_sentences() -> None:
    toy = ToyFollower.random(21, ["Do", " go", ".", "!"])
    body = """
sentence = await self.next_sentence(min_words=1, max_words=2, max_word_chars=2, marks="!")
assert sentence == self.text
await self.end()
"""
    exact = exact_posterior(program(body, "p|q"), toy)
    strings = [("Do", "!"), ("Do", " go", "!")]
    assert exact.masses == close({"".join(s): mass(toy, "p", s) for s in strings})
    body = """
line = await self.next_line(min_words=1, max_words=2)
assert line == self.text
await self.force("\\n")
await self.end()
"""
    first, second = "A" * 20, " " + "a" * 20  # the longest words there are, so they must end
    toy = ToyFollower.random(22, [first, second, "\n"])
    exact = exact_posterior(program(body, "p|q"), toy)
    strings = [(first, "\n"), (first, second, "\n")]
    assert exact.masses == close({"".join(s): mass(toy, "p", s) for s in strings})


def test_wants_word_is_a_draw_of_the_words_first_token() -> None:
    toy = ToyFollower.random(23, ["a", " b", " c"])
    body = """
await self.next_token()
if await self.wants_word("b"):
    await self.force(" b")
else:
    await self.next_token()
await self.end()
"""
    exact = exact_posterior(program(body, "p|q"), toy)
    strings = [(x, y) for x in ("a", " b", " c") for y in ("a", " b", " c")]
    assert exact.masses == close({"".join(s): mass(toy, "p", s) for s in strings})


# Dead particles, scores, twists -------------------------------------------------------------


def test_condition_ends_the_particle_at_once() -> None:
    toy = ToyFollower.random(24, ["a", "b"])
    body = """
token = await self.next_token()
try:
    self.condition(token != "a")
except Exception:
    self.score(100.0)
await self.end()
self.score(0.5)
"""
    exact = exact_posterior(program(body), toy)
    # After its end, a particle may still be scored; a dead one never gets there.
    assert exact.masses == close({"b": mass(toy, "toy", ("b",)) * math.exp(0.5)})
    dead = next(e for e in exact.executions if e.text == "a")
    assert (dead.finish_reason, dead.log_weight) == ("condition_false", -math.inf)
    assert dead.particle.line == 5 and "'a'" in dead.particle.reason


def test_an_impossible_mask_ends_the_particle_and_names_the_masks() -> None:
    toy = ToyFollower.random(25, ["a", "b"])
    body = """
await self.next_token()
async with CharsMask(self, "a"), AvoidCharsMask(self, self.text):
    await self.next_token()
await self.end()
"""
    exact = exact_posterior(program(body), toy)
    assert exact.masses == close({"ba": mass(toy, "toy", ("b", "a"))})
    dead = next(e for e in exact.executions if e.text == "a")
    assert dead.finish_reason == "impossible_mask" and dead.particle.line == 5
    for part in ("CharsMask(a)", "AvoidCharsMask(a)", "'a'", "line 5"):
        assert part in dead.particle.reason
    assert not dead.particle.masks.masks  # the blocks were left as the step was unwound


def test_tokens_and_steps_beyond_the_limits_end_the_particle() -> None:
    toy = ToyFollower.random(26, ["a"], eos=1)
    source = """
class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=2):
        super().__init__(context=context, max_tokens=max_tokens)
    async def step(self):
        if await self.wants_to_end():
            await self.end()
            return
        await self.next_token()
"""
    exact = exact_posterior(source, toy)
    expected = by_text(prior_masses(toy, "toy", 2), lambda t: True)
    assert exact.masses == close(expected)
    assert [e.finish_reason for e in exact.executions].count("max_tokens") == 1
    short = exact_posterior(source, toy, max_steps=2)
    assert short.masses == close({k: v for k, v in expected.items() if len(k) < 2})
    assert "max_steps" in {e.finish_reason for e in short.executions}


def test_forced_text_beyond_the_token_limit_is_not_begun() -> None:
    toy = ToyFollower.random(26, ["a"], eos=1)
    exact = exact_posterior(program("self.max_tokens = 2\nawait self.force('aaa')"), toy)
    (execution,) = exact.executions
    assert (execution.finish_reason, execution.text) == ("max_tokens", "")


def test_twists_are_taken_out_again_and_scores_stay() -> None:
    toy = ToyFollower.random(27, ["a", "b"])
    twisted = """
token = await self.next_token()
self.twist(5.0 if token == "a" else -5.0)
if self.context.token_count == 2:
    self.score(0.25)
    await self.end()
"""
    exact = exact_posterior(program(twisted, "p|q"), toy)
    expected = by_text(prior_masses(toy, "p", 2), lambda t: len(t) == 2)
    assert exact.masses == close({t: m * math.exp(0.25) for t, m in expected.items()})


@pytest.mark.parametrize("call", ["self.score(float('nan'))", "self.twist(float('inf'))"])
def test_weights_of_nan_are_the_programs_error(call: str) -> None:
    toy = ToyFollower.random(28, ["a"])
    with pytest.raises(ValueError, match="NaN|finite"):
        exact_posterior(program(f"{call}\nawait self.end()"), toy)


def test_further_contexts_judge_without_a_correction() -> None:
    toy = ToyFollower.random(29, ["a", "b"])
    body = """
token = await self.next_token()
judge = await self.new_context("judge")
await self.observe(judge.next_token(), token)
voice = await self.sample(judge.next_token())
await self.end()
"""
    exact = exact_posterior(program(body, "p|q"), toy)
    expected = {t: mass(toy, "p", (t,)) * mass(toy, "judge", (t,), end=False) for t in ("a", "b")}
    assert exact.masses == close(expected)


def test_submodels_and_llamppl_distributions() -> None:
    toy = ToyFollower.random(30, ["a", "b"])
    source = """
@submodel
async def two(self, context):
    first = await self.sample(context.next_token())
    return first

class InferenceModel(BaseModel):
    async def step(self):
        async with CharsMask(self, "ab"):
            await self.call(two(self.context))
        await self.observe(Bernoulli(0.25), True)
        await self.end()
"""
    exact = exact_posterior(source, toy)
    assert exact.masses == close({t: 0.25 * mass(toy, "toy", (t,)) for t in "ab"})


def test_llamppl_draws_depend_on_the_seed_alone() -> None:
    toy = ToyFollower.random(31, ["a", "b"])
    body = """
self.coins = [await self.sample(Bernoulli(0.5)) for _ in range(16)] + [self.random.random()]
await self.end()
"""

    def coins(seed: int) -> list[Any]:
        population = run_sampler(ImportanceSampler(), program(body), toy, 3, seed=seed)
        return [p.coins for p in population.particles]

    first = coins(1)
    assert first == coins(1) and first != coins(2)
    assert first[0] != first[1]


# Clones -------------------------------------------------------------------------------------


class Referring(BaseModel):
    async def step(self) -> None:
        await self.next_token()


def particle(toy: ToyFollower, cls: type[BaseModel] = Referring) -> Any:
    stream = Stream(0, (0,))
    model = cls(FollowerContext(toy, "q", random=stream), max_tokens=50)
    model.bind(FollowerContext(toy, "p"), stream)
    return model


async def test_clones_are_independent() -> None:
    toy = ToyFollower.random(32, ["a", "b", "c"])
    original = particle(toy)
    original.me = original
    original.said = []
    original.helper = {"particle": original, "call": original.next_token}
    async with original_mask(original, 20) as mask:
        original.mask = mask
        await original.next_token()
        twin = copy.deepcopy(original)
        assert twin.me is twin and twin.helper["particle"] is twin
        assert twin.helper["call"].__self__ is twin
        assert twin.mask is twin.masks.masks[0] and twin.mask is not original.mask
        assert twin.mask._stack is twin.masks
        assert twin.context.follower is toy and twin.context is not original.context
        assert twin.prior is not original.prior
        assert twin.random is twin.context.random and twin.random is not original.random
        twin.said.append("x")
        before = (original.text, original.weight, original.mask.left)
        for _ in range(8):
            await twin.next_token()
        assert (original.text, original.weight, original.mask.left) == before
        assert original.said == [] and twin.mask.left == before[2] - 8
        for _ in range(8):
            await original.next_token()
    assert original.text[0] == twin.text[0] and original.text != twin.text
    assert len(twin.masks.masks) == 1  # leaving the block of the original leaves the twin's alone


def original_mask(model: BaseModel, k: int) -> Any:
    from disciple_ext.model.masks.characters import MaxCharsMask

    return MaxCharsMask(model, max_chars=k)


async def test_clones_of_one_particle_differ_from_each_other_and_repeat() -> None:
    toy = ToyFollower.random(33, ["a", "b", "c"])

    async def texts() -> list[str]:
        original = particle(toy)
        clones = [copy.deepcopy(original) for _ in range(3)]
        clones.append(copy.deepcopy(clones[0]))
        for clone in clones:
            for _ in range(12):
                await clone.next_token()
        return [c.text for c in clones]

    first = await texts()
    assert len(set(first)) == 4 and first == await texts()


def test_the_context_is_required() -> None:
    with pytest.raises(TypeError, match="context=context"):
        BaseModel("a string")  # type: ignore[arg-type]


def test_drawing_after_a_drawn_end_is_the_programs_error() -> None:
    toy = ToyFollower.random(34, ["a"])
    body = "self.max_tokens = 3\nwhile True:\n    await self.sample(self.context.next_token())"
    with pytest.raises(RuntimeError, match="text has ended"):
        exact_posterior(program(body), toy, max_executions=20)


async def test_marks_may_be_the_texts_of_whole_tokens() -> None:
    toy = ToyFollower.random(36, ["a", "b", " c"])
    for marks, allowed in ((["b", " c"], {1, 2}), ("ab", {0, 1}), (iter([" c"]), {2})):
        model = particle(toy)
        wanted = await model.wants(marks)
        assert (int(await model.next_token()) in allowed) == wanted


async def test_the_words_are_the_programs_own_list() -> None:
    model = particle(ToyFollower.random(37, ["a", " b"]))
    model._append(0)
    model.words.append("mine")
    assert model.words == ["a"]
    model._append(1)
    assert model.words == ["a", "b"] and len(model) == 3


async def test_a_follower_error_reaches_the_program() -> None:
    toy = ToyFollower.random(35, ["a"])
    model = particle(toy)
    model.context.temp = 0.0
    with pytest.raises(FollowerError, match="temperature"):
        await model.next_token()
