"""Formal constraints: exact targets on enumerable models, refusals, copies."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import lark
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from disciple_ext import ProgramCrashed, run_program
from disciple_ext.model.base import BaseModel
from disciple_ext.model.context import FollowerContext
from disciple_ext.model.masks.characters import ChoiceMask, MaxCharsMask
from disciple_ext.model.masks.counting import Counted, Counting, terminal
from disciple_ext.model.masks.formal import GrammarMask, JsonMask, RegexMask, WordsMask
from disciple_ext.model.masks.matching import grammars
from disciple_ext.model.masks.regex import Refused, translate
from disciple_ext.protocol.vocabulary import Vocabulary
from disciple_ext.testing import ExactPosterior, ToyFollower, exact_posterior, prior_masses

ARITHMETIC = """
start: sum
sum: product ("+" product)*
product: atom ("*" atom)*
atom: NUMBER | "(" sum ")"
NUMBER: /[12]+/
"""
LISTS = '?start: "[" [item ("," item)*] "]"\nitem: /[a-b]/ | start'


def fill(mask: str, max_tokens: int = 4, whole: bool = False) -> str:
    """A program that fills a whole text under a mask, at once or one token a step."""
    if not whole:
        return f"""
class InferenceModel(BaseModel):
    def __init__(self, context):
        super().__init__(context=context, max_tokens={max_tokens})

    async def step(self):
        async with {mask} as mask:
            await self.fill(mask)
        await self.end()
"""
    return f"""
class InferenceModel(BaseModel):
    def __init__(self, context):
        super().__init__(context=context, max_tokens={max_tokens})

    async def step(self):
        async with {mask[:-1]}, whole=True) as mask:
            if not await self.fill(mask, tokens=1):
                return
        await self.end()
"""


def expected(toy: ToyFollower, accepts: Callable[[str], bool], length: int = 4) -> dict[str, float]:
    """The prior restricted to the constraint, straight from the toy's table."""
    masses: dict[str, float] = {}
    for pieces, mass in prior_masses(toy, "toy", length).items():
        data = b"".join(p.encode() if isinstance(p, str) else p for p in pieces)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        if accepts(text):
            masses[text] = masses.get(text, 0.0) + mass
    return masses


def assert_exact(exact: ExactPosterior, masses: dict[str, float]) -> None:
    found = {text: mass for text, mass in exact.masses.items() if mass > 0}
    assert found.keys() == masses.keys()
    for text, mass in masses.items():
        assert found[text] == pytest.approx(mass, rel=1e-4), text
    assert exact.evidence == pytest.approx(math.fsum(masses.values()), rel=1e-4)


def parses(grammar: str) -> Callable[[str], bool]:
    parser = lark.Lark(grammar, parser="earley")

    def accepts(text: str) -> bool:
        try:
            parser.parse(text)
        except lark.exceptions.LarkError:
            return False
        return True

    return accepts


def valid(schema: Any) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            value = json.loads(text)
        except ValueError:
            return False
        # Numbers have many spellings, and the mask allows those without a sign or zeros before.
        plain = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return plain == text and jsonschema.Draft202012Validator(schema).is_valid(value)

    return accepts


PAIR = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"enum": ["a", None]}},
    "required": ["a"],
    "additionalProperties": False,
}
ARRAY = {"type": "array", "items": {"anyOf": [{"type": "boolean"}, {"const": 1}]}, "maxItems": 2}

EXACT: dict[str, tuple[list[Any], str, Callable[[str], bool], int]] = {
    "alternatives that begin alike": (
        ["a", "b", "ab", "1", "12", "2"], "RegexMask(self, r'a(b|12)?2?')",
        lambda t: bool(re.fullmatch(r"a(b|12)?2?", t)), 4),
    "a regex without end": (
        ["a", "b", "ab", "ba"], "RegexMask(self, '(ab)+|b*')",
        lambda t: bool(re.fullmatch("(ab)+|b*", t)), 4),
    "a counted repeat": (
        ["a", "aab", "aaaa", "."], "RegexMask(self, r'[ab]{3,40}\\.')",
        lambda t: bool(re.fullmatch(r"[ab]{3,40}\.", t)), 4),
    "a count that its end may belong to": (
        ["a", "b", "ab"], "RegexMask(self, '[ab]{2,30}b')",
        lambda t: bool(re.fullmatch("[ab]{2,30}b", t)), 4),
    "a count that binds": (
        ["a" * 9, "a", "aa", "b"], "RegexMask(self, 'a{26,28}b?')",
        lambda t: bool(re.fullmatch("a{26,28}b?", t)), 5),
    "code points cut into tokens": (
        ["é", b"\xc3", b"\xa9", "a"], "RegexMask(self, '[aé]{1,30}')",
        lambda t: bool(re.fullmatch("[aé]{1,30}", t)), 3),
    "a grammar": (
        ["1", "+", "(", ")", "1+", "*2"], f"GrammarMask(self, {ARITHMETIC!r})",
        parses(ARITHMETIC), 3),
    "a grammar that nests": (
        ["[", "]", "a", ",", "[[", "a]"], f"GrammarMask(self, {LISTS!r})", parses(LISTS), 4),
    "an object": (
        ['{"a":', "1", "}", '{"', 'a":', ',"b":"a"', ',"b":null}'],
        f"JsonMask(self, {PAIR!r})", valid(PAIR), 4),
    "an array": (
        ["[", "]", "true", "false", "1", ",", "[true", "1]"],
        f"JsonMask(self, {ARRAY!r})", valid(ARRAY), 4),
    "choices": (
        ["a", "b", "ab"], "ChoiceMask(self, ['aab', 'bab'])", lambda t: t in ("aab", "bab"), 4),
}  # fmt: skip


LONG = ("a count that binds", "a count that its end may belong to")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in EXACT]
)
@pytest.mark.parametrize(
    "whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["at once", "by steps"]
)
def test_the_target_is_the_prior_restricted_to_the_constraint(name: str, whole: bool) -> None:
    tokens, mask, accepts, length = EXACT[name]
    if whole and name == "choices":
        return
    toy = ToyFollower.random(5, tokens, eos=2)
    masses = expected(toy, accepts, length)
    assert len(masses) > 1
    exact = exact_posterior(fill(mask, length, whole), toy, max_executions=60_000)
    assert_exact(exact, masses)
    assert {e.finish_reason for e in exact.executions} <= {"ended", "max_tokens"}


def words_of(text: str) -> list[str]:
    return [w.lower() for w in re.findall(r"[^\W_]+", text)]


@pytest.mark.parametrize(
    ("tokens", "avoid", "require"),
    [
        (["the", "re", " ", "The"], ["the"], []),
        (["the", "re", ".", "THE"], [], ["there"]),
        pytest.param(["a", "b", " ", "ab", " a"], ["b"], ["ab", "a"], marks=pytest.mark.slow),
    ],
)
def test_whole_words_in_any_case_across_tokens(
    tokens: list[str], avoid: list[str], require: list[str]
) -> None:
    def accepts(text: str) -> bool:
        said = words_of(text)
        return not set(avoid) & set(said) and set(require) <= set(said)

    toy = ToyFollower.random(8, tokens)
    mask = f"WordsMask(self, avoid={avoid}, require={require})"
    assert_exact(exact_posterior(fill(mask, 3), toy), expected(toy, accepts, 3))


def test_a_word_that_began_before_the_block_goes_on() -> None:
    toy = ToyFollower.random(2, ["is", "land", " land", "."])
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.force("is")
        async with WordsMask(self, avoid=["island"]) as mask:
            await self.next_token()
            self.condition(mask.complete)
        self.finish()
"""
    assert exact_posterior(source, toy).masses.keys() == {"isis", "is land", "is."}


def test_a_prior_that_is_not_the_proposal() -> None:
    tokens, mask, accepts, length = EXACT["alternatives that begin alike"]
    toy = ToyFollower.random(7, tokens)
    prompts = """
    @classmethod
    def prior_prompt(cls):
        return "toy"

    @classmethod
    def proposal_prompt(cls):
        return "another"
"""
    source = fill(mask, length).replace("    async def step", prompts + "\n    async def step")
    assert_exact(exact_posterior(source, toy), expected(toy, accepts, length))


def test_masks_nest() -> None:
    toy = ToyFollower.random(3, ["a", "b", "ab", "1"])
    source = fill("RegexMask(self, '[ab]+1?')").replace(
        " as mask:", " as mask, MaxCharsMask(self, 3), RegexMask(self, '.*b.*'):"
    )

    def accepts(text: str) -> bool:
        return bool(re.fullmatch("[ab]+1?", text)) and len(text) <= 3 and "b" in text

    assert_exact(exact_posterior(source, toy), expected(toy, accepts))


def test_a_span_ends_where_the_next_token_does_not_go_on_with_it() -> None:
    """Texts of the form span, then one more token: each token sequence is read in one way."""
    toy = ToyFollower.random(4, ["a", "b", "ab", "1"])
    source = """
class InferenceModel(BaseModel):
    def __init__(self, context):
        super().__init__(context=context, max_tokens=4)

    async def step(self):
        async with RegexMask(self, "a[ab]?") as mask:
            span = await self.fill_span(mask)
        self.condition(span == self.text)
        await self.next_token()
        await self.end()
"""
    masses: dict[str, float] = {}
    # By hand: which tokens may follow a span in it.
    spans = {("a",): {"a", "b"}, ("ab",): set(), ("a", "a"): set(), ("a", "b"): set()}
    for pieces, mass in prior_masses(toy, "toy", 4).items():
        if pieces[:-1] in spans and pieces[-1] not in spans[pieces[:-1]]:
            text = "".join(map(str, pieces))
            masses[text] = masses.get(text, 0.0) + mass
    assert_exact(exact_posterior(source, toy), masses)


def test_llamppls_own_draws_end_where_the_mask_lets_them() -> None:
    toy = ToyFollower.random(9, ["a", "b", "ab"])
    source = """
class InferenceModel(BaseModel):
    def __init__(self, context):
        super().__init__(context=context, max_tokens=4)

    async def step(self):
        async with RegexMask(self, "a*b", whole=True):
            token = await self.sample(self.context.next_token())
        if token.token_id in self.context.lm.vocabulary.eos:
            await self.end()
"""
    masses = expected(toy, lambda t: bool(re.fullmatch("a*b", t)), 3)
    assert_exact(exact_posterior(source, toy), masses)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("await self.next_token()\n            await self.end()", "the end of the text is ruled"),
        ("await self.next_token()\n        await self.end()", "left before its text was complete"),
        ("await self.force('b')\n        await self.end()", "the forced token 'b' is ruled out"),
    ],
)
def test_an_unfinished_text_does_not_count(body: str, what: str) -> None:
    toy = ToyFollower.random(1, ["a", "b"])
    source = f"""
class InferenceModel(BaseModel):
    async def step(self):
        async with RegexMask(self, "aab"):
            {body}
"""
    (execution,) = exact_posterior(source, toy).executions
    particle = execution.particle
    assert execution.log_weight == -math.inf and execution.finish_reason == "impossible_mask"
    assert what in particle.reason and "RegexMask('aab')" in particle.reason
    assert particle.line is not None and f"line {particle.line}" in particle.reason


# Copies and shared states ------------------------------------------------------------------------


class Silent(BaseModel):
    async def step(self) -> None: ...


def particle(tokens: list[Any], toy: ToyFollower | None = None) -> Any:
    return Silent(FollowerContext(toy or ToyFollower.random(0, tokens), "p"))


async def test_copies_stand_apart_and_share_what_they_can() -> None:
    model = particle(["a", "b", "c"])
    async with RegexMask(model, "a[bc]+"), WordsMask(model, avoid=["abb"]):
        model._append(0)
        twin = copy.deepcopy(model)
        mine, others = model.masks.masks[0], twin.masks.masks[0]
        assert mine.allowed(model.masks.vocabulary) is others.allowed(twin.masks.vocabulary)
        twin._append(1)
        assert (mine.complete, others.complete) == (False, True)
        assert {m._stack for m in twin.masks.masks} == {twin.masks}
        clone = others.clone()
        clone.follow(0, b"a")
        assert others.complete and not clone.complete and not len(clone._place.allowed)
        model._append(2)
    assert others.over is False


async def test_a_mask_says_when_nothing_can_follow() -> None:
    model = particle(["a", "b"])
    for mask in (RegexMask(model, "ab?"), ChoiceMask(model, ["a", "ab"])):
        async with mask:
            assert not mask.complete
            model._append(0)
            assert mask.complete and not getattr(mask, "over", False)
            model._append(1)
            assert mask.complete and getattr(mask, "over", True)


async def test_states_and_masks_that_are_no_longer_used_are_forgotten() -> None:
    toy = ToyFollower.random(0, [chr(97 + i) for i in range(16)])
    model, home = particle([], toy), grammars(toy.vocabulary)
    rng = np.random.default_rng(0)
    async with RegexMask(model, "(" + "|".join(f"{a}[^{a}]*" for a in "abcd") + ")"):
        for _ in range(2000):
            allowed = sorted(model.masks.current(toy.vocabulary.text_mask))
            model._append(int(rng.choice(allowed)))
    assert len(home._states) <= 513 and len(home._masks._known) < 100


# Refusals ----------------------------------------------------------------------------------------

REFUSED = {
    "RegexMask(self, r'a(?=b)')": "lookahead",
    "RegexMask(self, r'(?<!a)b')": "lookbehind",
    "RegexMask(self, r'(a)\\1')": "back reference",
    "RegexMask(self, r'\\bthe\\b')": "word boundary",
    "RegexMask(self, r'a$b')": "anchor",
    "RegexMask(self, r'a++')": "possessive",
    "RegexMask(self, '(?>a)b')": "atomic",
    "RegexMask(self, '[')": "unterminated character set",
    "GrammarMask(self, 'start: x')": "unknown name",
    "GrammarMask(self, 'start: /a(?=b)/')": "lookahead",
    "GrammarMask(self, 'begin: /a/')": "start",
    "GrammarMask(self, 'start: (')": "this grammar",
    "JsonMask(self, {'type': 'object', 'not': {}})": "`not`",
    "JsonMask(self, {'type': 'array', 'uniqueItems': True})": "`uniqueItems`",
    "JsonMask(self, {'if': {}, 'then': {}})": "`if`",
    "JsonMask(self, {'oneOf': [{'type': 'integer'}, {'minimum': 2, 'type': 'integer'}]})": "oneOf",
    "JsonMask(self, {'type': 'string', 'format': 'colour'})": "the format colour",
    "JsonMask(self, {'$ref': '#/x'})": "the reference /x",
    "JsonMask(self, {'type': 'integer', 'minimum': 3, 'maximum': 2})": "no text satisfies",
    "JsonMask(self, {'type': 'string', 'pattern': '(?=a)'})": "`pattern`",
    "JsonMask(self, ['object'])": "no JSON Schema",
    "JsonMask(self, '{')": "no JSON Schema",
    "WordsMask(self, avoid=[''])": "takes words",
}


@pytest.mark.parametrize("mask", REFUSED)
def test_what_cannot_be_kept_to_is_refused_by_name(mask: str) -> None:
    toy = ToyFollower.random(1, ["a", "b"])
    with pytest.raises(ProgramCrashed) as caught:
        run_program(fill(mask), follower=toy, sandbox="none", n=1)
    message = str(caught.value)
    assert REFUSED[mask] in message and caught.value.line == 7
    assert "cannot keep to" in message or "takes words" in message
    assert len(message) < 500


async def test_only_masks_that_know_an_end_can_be_filled() -> None:
    model = particle(["a"])
    for method in (model.fill, model.fill_span):
        with pytest.raises(TypeError, match="RegexMask or JsonMask, not MaxCharsMask"):
            await method(MaxCharsMask(model, 3))
    with pytest.raises(TypeError, match="pattern as a string"):
        RegexMask(model, ["a"])  # type: ignore[arg-type]
    assert repr(GrammarMask(model, "start: /a/")) == "GrammarMask('start: /a/')"
    assert repr(JsonMask(model, {"type": "null"})) == "JsonMask({'type': 'null'})"


# Regular expressions -----------------------------------------------------------------------------

ATOMS = [
    "a",
    "b",
    "é",
    ".",
    "[ab]",
    "[^a]",
    r"\d",
    r"\D",
    r"\w",
    r"\W",
    r"\s",
    r"\S",
    "[^\\w]",
    "[^\\s]",
    "[^\\S]",
    "1",
]
CHARS = "ab1é ²\x1c\n_"


@st.composite
def patterns(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=4))
    ends = ["", "*", "+?", "?", "{1,2}", "{2}", "{0,30}"]
    pattern = "".join(part + draw(st.sampled_from(ends)) for part in parts)
    flags = draw(st.sampled_from(["", "(?s)", "(?i)"]))
    return flags + draw(st.sampled_from(["{}", "({}|b)", "(?:{})?"])).format(pattern)


BYTES = Vocabulary(
    [*(c.encode() for c in CHARS if c.isascii()), *(bytes([b]) for b in range(128, 256)),
     b"aa1", "é".encode(), b""],
    eos=[len([c for c in CHARS if c.isascii()]) + 130], encode=lambda text: [],
)  # fmt: skip


def tokens_of(text: str) -> list[int]:
    return [BYTES.tokens.index(bytes([byte])) for byte in text.encode()]


@settings(max_examples=50, deadline=None)
@example("..\\s", ["11\x1c"])
@given(patterns(), st.lists(st.text(CHARS, max_size=5), min_size=1, max_size=4))
def test_what_a_pattern_allows_python_accepts(pattern: str, texts: list[str]) -> None:
    """And the other way round, where no class of Unicode's is in it."""
    home, regex = grammars(BYTES), translate(pattern)
    plain = not re.search(r"\\[dDwWsS]", pattern)
    starts: list[Any] = [home.start(terminal(regex.source))]
    if regex.pieces:
        starts.append(Counting(Counted(home, regex)))
    for text in texts:
        for place in starts:
            for token in tokens_of(text):
                before, place = place, place.then(token)
                assert (token in before.allowed) or (not place.complete and not place.allowed)
            matched = bool(re.fullmatch(pattern, text))
            assert not place.complete or matched, (pattern, text)
            assert place.complete == matched or not plain, (pattern, text)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(
        ["[ab]{2,30}", "[ab]{3,40}b", "a?[^b]{1,25}1{0,2}", ".{0,26}é[ab]{25}", "b{30}1+"]
    ),
    st.randoms(use_true_random=False),
)
def test_a_count_kept_apart_gives_the_librarys_own_masks(pattern: str, random: Any) -> None:
    home, regex = grammars(BYTES), translate(pattern)
    assert Counted.suits(regex)
    counting: Any = Counting(Counted(home, regex))
    plain: Any = home.start(terminal(regex.source))
    for _ in range(45):
        assert counting.allowed == plain.allowed and counting.complete == plain.complete
        text = [t for t in plain.allowed if t not in BYTES.eos]
        if not text:
            break
        token = random.choice(text)
        counting, plain = counting.then(token), plain.then(token)


def test_half_a_pair_is_no_character() -> None:
    with pytest.raises(Refused, match="surrogate"):
        translate("[\ud800a]")
