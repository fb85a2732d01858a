"""The drop-in lm: what LLaMPPL's code reads, and the wrong numbers that cannot come from it."""

from __future__ import annotations

import asyncio
import copy
import math
from typing import Any

import numpy as np
import pytest
from llamppl import CachedCausalLM, LMContext, Masks, Transformer
from llamppl import Token as LLaMPPLToken

from disciple_ext import FollowerContext, FollowerError, FollowerLM, TokenSequence, self_steer
from disciple_ext.follower import from_loaded
from disciple_ext.follower.hf import from_model
from disciple_ext.follower.llamppl.token_sets import TokenSet
from disciple_ext.model.distributions import Token
from disciple_ext.testing import ScriptedFollower, ToyFollower

from .test_host import llama, tokenizer


def toy_lm(seed: int = 1, tokens: Any = ("a", "bc", " d")) -> FollowerLM:
    return FollowerLM(ToyFollower.random(seed, tokens, eos=1))


@pytest.fixture(scope="module")
def lm() -> FollowerLM:
    tok = tokenizer()
    return FollowerLM(from_model(llama(len(tok)), tok, name="tiny"))


# Its members ----------------------------------------------------------------------------------


def test_it_stands_where_a_cached_causal_lm_stood(lm: FollowerLM) -> None:
    stock = CachedCausalLM.__new__(CachedCausalLM)
    stock.tokenizer, stock.str_vocab = lm.tokenizer, lm.str_vocab
    assert isinstance(lm, CachedCausalLM) and copy.deepcopy([lm])[0] is lm
    assert len(lm.str_vocab) == len(lm.byte_vocab) == lm.follower.vocabulary.size
    assert b"".join(lm.byte_vocab[5:7]) == lm.byte_vocab[5].byte_string + lm.byte_vocab[6]
    for name, value in vars(Masks(stock)).items():
        if isinstance(value, set):
            assert getattr(lm.masks, name) == value, name
    lengths = Masks(stock).token_length_mask(min=1, max=2)
    assert lm.masks.token_length_mask(min=1, max=2) == lengths
    assert copy.deepcopy(lm.masks) is lm.masks
    with pytest.warns(DeprecationWarning):
        assert lm.vocab == lm.str_vocab
    lm.cache_kv([1, 2])
    lm.reset_async_queries()
    lm.clear_kv_cache()
    lm.clear_cache()
    lm.batch_size = 40


def test_special_tokens_keep_length_zero_in_the_stock_masks_and_not_in_ours(lm: FollowerLM) -> None:
    eos = lm.tokenizer.eos_token_id
    assert eos in lm.masks.token_length_mask(max=3)
    assert eos not in lm.follower.vocabulary.max_chars(3)


def test_a_toy_has_a_plain_tokenizer() -> None:
    lm = toy_lm()
    toy = lm.follower
    assert lm.str_vocab == ["a", "bc", " d", "<eos3>", "<special4>", "<special5>"]
    assert lm.tokenizer.encode("p") == list(toy.prompt("p"))
    assert lm.tokenizer.encode("a d", add_special_tokens=False) == [0, 2]
    assert lm.tokenizer.decode([0, 2, 3]) == "a d<eos3>" and lm.masks.EOS == {3}


def test_the_outer_loop_takes_it_for_its_follower() -> None:
    lm = FollowerLM(ScriptedFollower("One two three four five."))
    assert from_loaded(lm) is lm.follower and FollowerLM(lm).follower is lm.follower
    result = self_steer("Please generate a sentence with exactly 5 words.", follower=lm, n=2)
    assert result.text == "One two three four five."


# Numbers --------------------------------------------------------------------------------------


async def test_queries_that_wait_together_are_one_batch() -> None:
    lm = toy_lm()
    start = lm.tokenizer.encode("p")
    contexts = [start, [*start, 0], [*start, 1, 2], [*start, 0]]
    rows = await asyncio.gather(*(lm.next_token_logprobs(c) for c in contexts))
    assert lm.follower.forwards == 1  # type: ignore[attr-defined]
    assert np.array_equal(rows[1], rows[3]) and not np.array_equal(rows[0], rows[1])


async def test_a_ragged_batch_has_the_numbers_of_each_alone(lm: FollowerLM) -> None:
    contexts = [[10, 11, 12], [10, 11], [13], [10, 11, 12]]
    rows = await asyncio.gather(*(lm.next_token_logprobs(c) for c in contexts))
    for context, row in zip(contexts, rows, strict=True):
        assert row.dtype == np.float32 and row.shape == (len(lm.str_vocab),)
        assert np.exp(row).sum() == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(row, lm.next_token_logprobs_unbatched(context), atol=1e-5)


async def test_a_cached_prompt_changes_no_number(lm: FollowerLM) -> None:
    # Pitfalls 1 and 2: in the stock, these two are confused, and the second query is off.
    prompts, suffix = ([20, 21, 22, 23], [30, 31]), [40, 41]
    fresh = FollowerLM(from_model(lm.follower.backend.model, lm.tokenizer, name="again"))  # type: ignore[attr-defined]
    for prompt in prompts:
        lm.cache_kv(prompt)
    for _ in range(2):
        rows = await asyncio.gather(*(lm.next_token_logprobs(p + suffix) for p in prompts))
        for prompt, row in zip(prompts, rows, strict=True):
            alone = fresh.next_token_logprobs_unbatched(prompt + suffix)
            np.testing.assert_allclose(row, alone, atol=1e-5)
            np.testing.assert_allclose(
                lm.next_token_logprobs_unbatched(prompt + suffix), alone, atol=1e-5
            )


async def test_ids_beyond_the_tokenizer_have_no_mass() -> None:
    tok = tokenizer()
    size = len(tok) + 40
    lm = FollowerLM(from_model(llama(size), tok, name="padded"))
    assert len(lm.str_vocab) == len(tok) and lm.masks.ALL_TOKENS == set(range(len(tok)))
    row = await lm.next_token_logprobs([10, 11])
    assert row.shape == (size,) and np.all(row[len(tok) :] == -np.inf)
    assert np.exp(row).sum() == pytest.approx(1, abs=1e-5)
    mask = lm.masks.token_length_mask(max=1)
    text = tok.decode([10, 11])
    stock, ours = LMContext(lm, text), FollowerContext(lm, text)
    assert ours.tokens == stock.tokens
    for value in (True, False):
        a, b = copy.deepcopy(stock), copy.deepcopy(ours)
        log_mass = await a.mask_dist(mask).log_prob(value)
        assert await b.mask_dist(mask).log_prob(value) == pytest.approx(log_mass, abs=1e-4)
        np.testing.assert_allclose(b.next_token_logprobs, a.next_token_logprobs, atol=1e-4)
    expected = stock.next_token_logprobs[50]
    assert await copy.deepcopy(ours).next_token().log_prob(50) == pytest.approx(expected, abs=1e-4)
    assert await copy.deepcopy(ours).next_token().log_prob(size - 1) == -math.inf
    np.testing.assert_allclose(await ours.logprobs(), row := stock.next_token_logprobs, atol=1e-4)
    for _ in range(50):
        twin = copy.deepcopy(ours)
        token, log_q = await twin.next_token().sample()
        assert int(token) < len(tok) and log_q == pytest.approx(row[int(token)], abs=1e-4)
    for _ in range(50):  # the outcome, and the token given it, are as likely as the token
        twin = copy.deepcopy(ours)
        _, log_q = await twin.mask_dist(mask).sample()
        token, log_more = await twin.next_token().sample()
        assert log_q + log_more == pytest.approx(row[int(token)], abs=1e-4)


async def test_arrays_are_the_callers_own(lm: FollowerLM) -> None:
    kept = (row := await lm.next_token_logprobs([10, 12])).copy()
    row[:] = 0
    assert np.array_equal(await lm.next_token_logprobs([10, 12]), kept)
    lm.next_token_logprobs_unbatched([10, 12])[:] = 0
    np.testing.assert_allclose(lm.next_token_logprobs_unbatched([10, 12]), kept, atol=1e-5)


async def test_a_context_opened_while_others_wait_disturbs_none() -> None:
    lm = toy_lm()
    others = [asyncio.ensure_future(lm.next_token_logprobs([5, i])) for i in range(3)]
    await asyncio.sleep(0)
    lm.tokenizer.encode("p")
    alone = LMContext(lm, "p").next_token_logprobs
    rows = await asyncio.wait_for(asyncio.gather(*others), 10)
    assert len(rows) == 3
    np.testing.assert_allclose(alone, await lm.next_token_logprobs([5]), atol=1e-6)


async def test_bad_and_cancelled_queries_leave_it_usable(lm: FollowerLM) -> None:
    good = asyncio.ensure_future(lm.next_token_logprobs([10, 14]))
    cancelled = asyncio.ensure_future(lm.next_token_logprobs([10, 15]))
    await asyncio.sleep(0)
    cancelled.cancel()
    for bad in ([], [10**6]):
        with pytest.raises(FollowerError):
            await lm.next_token_logprobs(bad)
        with pytest.raises(FollowerError):
            lm.next_token_logprobs_unbatched(bad)
    assert np.isfinite(await good).all()


async def test_the_transformer_distribution_takes_it() -> None:
    lm = toy_lm()
    token, log_p = await Transformer(lm, "p").sample()
    assert isinstance(token, LLaMPPLToken)
    assert await Transformer(lm, "p").log_prob(token) == log_p


# Sequences, tokens, sets ----------------------------------------------------------------------


def test_adding_to_a_sequence_leaves_it_alone() -> None:
    lm = toy_lm()
    ids = [0, 1]
    sequence = TokenSequence(lm, ids)
    longer = sequence + 2 + Token("a", 0, lm)
    assert (sequence.seq, longer.seq, ids) == ([0, 1], [0, 1, 2, 0], [0, 1])
    longer += "bc"
    assert longer.seq == [0, 1, 2, 0, 1] and isinstance(longer, TokenSequence)


async def test_our_tokens_do_what_llamppls_do() -> None:
    lm = toy_lm()
    token, _ = await FollowerContext(lm, "p").next_token().sample()
    assert isinstance(token, LLaMPPLToken) and token.lm is lm
    assert token == token.token_id and token.token_str == str(token) == token
    assert "x" + token == "x" + str(token) and token + "x" == str(token) + "x"
    with pytest.raises(TypeError):
        1 + token
    stock = LMContext(lm, "p")
    assert await stock.next_token().log_prob(token) <= 0 and stock.tokens[-1] == token.token_id


def test_a_set_remembers_its_mask_until_it_changes() -> None:
    tokens = TokenSet({0, 2})
    mask = tokens.as_mask(4)
    assert mask == {0, 2} and tokens.as_mask(4) is mask and tokens.copy().as_mask(4) is mask
    twin = copy.deepcopy(tokens)
    twin |= {3}
    assert twin.as_mask(4) == {0, 2, 3} and tokens.as_mask(4) is mask
    twin.discard(0)
    assert twin.as_mask(4) == {2, 3}
    assert (twin - tokens) == {3} and (tokens & twin) == {2}
    assert (tokens | twin) == {0, 2, 3}


def test_equal_sets_are_one_mask() -> None:
    ctx = FollowerContext(toy_lm(), "p")
    mask = ctx.coerce({0, 2})
    assert mask == {0, 2} and ctx.coerce(frozenset([2, 0, 99, -1])) is mask
    assert ctx.coerce({Token("2", 0), 2}) is mask and ctx.coerce(set()) == set()


def test_a_length_mask_is_the_callers_own() -> None:
    masks = toy_lm().masks
    mine = masks.token_length_mask(max=1)
    mine |= {1}
    assert 1 not in masks.token_length_mask(max=1)
    assert masks.token_length_mask(max=1).as_mask(6) is masks.token_length_mask(max=1).as_mask(6)


# The changed import ---------------------------------------------------------------------------


@pytest.mark.parametrize("show_prompt", [False, True])
@pytest.mark.parametrize("show_eos", [False, True])
async def test_our_context_shows_what_theirs_shows(show_prompt: bool, show_eos: bool) -> None:
    lm = toy_lm()
    theirs = await LMContext.create(lm, "p", 0.7, show_prompt, show_eos)
    ours = await FollowerContext.create(
        lm=lm, prompt="p", temp=0.7, show_prompt=show_prompt, show_eos=show_eos
    )
    for token in (0, 2, 3):
        a = await theirs.next_token().log_prob(token)
        assert await ours.next_token().log_prob(token) == pytest.approx(a, abs=1e-5)
        assert str(ours) == str(theirs) and ours.tokens == theirs.tokens
        np.testing.assert_allclose(ours.next_token_logprobs, theirs.next_token_logprobs, atol=1e-5)
    assert ours.token_count == theirs.token_count == 3 and ours.lm is theirs.lm is lm
    assert ours.prompt_token_count == theirs.prompt_token_count
    assert ours.prompt_string_length == theirs.prompt_string_length
    assert ours.model_mask == theirs.model_mask
    await theirs.mask_dist({0, 1}).log_prob(False)
    await ours.mask_dist({0, 1}).log_prob(False)
    assert ours.model_mask == theirs.model_mask


def test_contexts_draw_apart_and_repeat_by_numpys_seed() -> None:
    lm = toy_lm()

    def draws() -> list[float]:
        np.random.seed(3)
        return [FollowerContext(lm, "p").random.random() for _ in range(2)]

    assert draws() == draws() and len(set(draws())) == 2


async def test_what_has_no_mass_has_log_probability_minus_infinity() -> None:
    toy = ToyFollower({"p": lambda _: {"a": 1.0}}, ["a", "b"])
    ctx = FollowerContext(FollowerLM(toy), "p")
    assert await ctx.mask_dist({1}).log_prob(True) == -math.inf
    assert await ctx.mask_dist({1}).log_prob(True) == -math.inf
    assert await ctx.next_token().log_prob(1) == -math.inf
