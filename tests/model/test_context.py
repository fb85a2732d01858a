"""The context as LLaMPPL's own code uses it."""

from __future__ import annotations

import copy
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disciple_ext.model.context import FollowerContext
from disciple_ext.model.distributions import Token, token_id
from disciple_ext.protocol.prefix import Prefix
from disciple_ext.protocol.stream import Stream
from disciple_ext.testing import ToyFollower
from disciple_ext.testing.toy import Piece


def context(toy: ToyFollower, seed: int = 0) -> FollowerContext:
    return FollowerContext(toy, "p", random=Stream(seed))


def test_tokens_are_text_that_knows_its_id() -> None:
    token = Token(" the", 7)
    assert token == " the" and token == 7 and token != "the" and token != 8
    assert int(token) == token.token_id == 7 and {" the": 1}[token] == 1
    assert token.strip() == "the" and copy.deepcopy(token) is token


async def test_drawing_and_observing_agree_with_the_table() -> None:
    toy = ToyFollower.random(1, ["a", "b"])
    ctx = context(toy)
    token, log_q = await ctx.next_token().sample()
    assert log_q == pytest.approx(math.log(toy.probabilities("p")[int(token)]), abs=1e-6)
    row = toy.probabilities("p", [toy.pieces[int(token)]])
    assert await ctx.next_token().log_prob("b") == pytest.approx(math.log(row[1]), abs=1e-6)
    assert (str(ctx), ctx.token_count) == (toy.vocabulary.decode([int(token), 1]), 2)
    assert ctx.tokens == [*ctx.prompt, int(token), 1] == list(ctx.prefix.tokens)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 11), st.booleans()), max_size=24), st.booleans())
def test_the_text_is_decoded_piece_by_piece_as_it_is_as_a_whole(
    tokens: list[tuple[int, bool]], other_prompt: bool
) -> None:
    pieces: list[Piece] = ["a", "é", b"\xe2", b"\x82\xac", b"\xf0\x9d", b"\x84", b"\x9e", b"\xff"]
    toy = ToyFollower.random(7, [*pieces, b"\xc3", b"\xe0\x80"], eos=1)
    ctx = context(toy)
    for i, (token, read) in enumerate(tokens):
        ctx.append(token)
        if other_prompt and i == 5:
            ctx.prompt = toy.prompt("another")
        if read:
            assert str(ctx) == toy.vocabulary.decode([t for t, _ in tokens[: i + 1]])
    assert str(copy.deepcopy(ctx)) == str(ctx) == toy.vocabulary.decode(ctx.generated)
    assert ctx.generated == [t for t, _ in tokens]


def test_another_prompt_before_the_same_text() -> None:
    toy = ToyFollower.random(8, ["a", "b"])
    ctx = context(toy)
    ctx.append(0)
    ctx.append(1)
    twin = copy.copy(ctx)
    ctx.prompt = toy.prompt("p", "a hint")
    assert ctx.tokens == [*toy.prompt("p", "a hint"), 0, 1] and ctx.prompt != twin.prompt
    assert (str(ctx), ctx.generated, ctx.token_count) == ("ab", [0, 1], 2)
    assert twin.tokens == [*toy.prompt("p"), 0, 1]
    ctx.append(0)
    assert (str(ctx), str(twin)) == ("aba", "ab")
    assert ctx.prefix is Prefix.of([*toy.prompt("p", "a hint"), 0, 1, 0])


async def test_mask_draws_multiply_to_the_probability_of_the_token() -> None:
    toy = ToyFollower.random(2, ["a", "b", "c"])
    for seed in range(6):
        ctx = context(toy, seed)
        total = 0.0
        for mask in ({0, 1}, {1, 2}):
            inside, log_q = await ctx.mask_dist(mask).sample()
            total += log_q
        token, log_q = await ctx.next_token().sample()
        total += log_q
        assert total == pytest.approx(math.log(toy.probabilities("p")[int(token)]), abs=1e-6)
        assert ctx.pending is None and ctx.log_pending == 0.0
        assert (int(token) in {1, 2}) == inside


async def test_observed_masks_are_conditions_of_what_follows() -> None:
    toy = ToyFollower.random(3, ["a", "b", "c"])
    row = toy.probabilities("p")
    ctx = context(toy)
    assert await ctx.mask_dist({0, 1}).log_prob(False) == pytest.approx(
        math.log(1 - row[0] - row[1]), abs=1e-6
    )
    assert ctx.pending is not None and 2 in ctx.pending and 0 not in ctx.pending
    log_p = await ctx.next_token().log_prob("c")
    assert log_p == pytest.approx(math.log(row[2] / (1 - row[0] - row[1])), abs=1e-6)
    await ctx.mask_dist({0}).log_prob(True)
    assert await ctx.next_token().log_prob("b") == -math.inf


async def test_copies_share_the_follower_and_nothing_else() -> None:
    toy = ToyFollower.random(4, ["a", "b", "c"])
    ctx = context(toy)
    await ctx.mask_dist({0, 1}).sample()
    twin = copy.deepcopy(ctx)
    assert twin.follower is toy and twin.pending is ctx.pending
    await twin.next_token().sample()
    assert ctx.token_count == 0 and twin.token_count == 1 and ctx.pending is not None
    assert twin.random is not ctx.random


async def test_the_whole_distribution_is_there_for_those_who_ask() -> None:
    toy = ToyFollower.random(5, ["a", "b"])
    vector = await context(toy).logprobs()
    assert vector[:-1] == pytest.approx(
        [math.log(p) for p in toy.probabilities("p")[:-1]], abs=1e-5
    )


def test_a_text_of_several_tokens_is_no_token() -> None:
    ctx = context(ToyFollower.random(6, ["a", "b"]))
    assert token_id(ctx, "b") == token_id(ctx, 1) == token_id(ctx, Token("b", 1)) == 1
    with pytest.raises(ValueError, match="force"):
        token_id(ctx, "ab")
