from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from disciple_ext.follower.engine import drawing
from disciple_ext.protocol.vocabulary import TokenMask, from_ids
from disciple_ext.testing import ToyFollower

NEAR_ONE = 1.0 - 2.0**-53


def draw(logits: list[float], mask: list[bool] | None, u: float) -> tuple[int, float, float]:
    """One draw through the whole follower, as a program's request would make it."""
    import asyncio

    from disciple_ext.protocol.prefix import Prefix
    from disciple_ext.protocol.requests import Draw, Drawn

    p = np.exp(np.array(logits, dtype=np.float64))
    toy = ToyFollower(
        lambda prompt, text: [*p, 0.0], [chr(0x4E00 + i) for i in range(len(p))], eos=1, special=0
    )
    given_mask = None if mask is None else TokenMask(np.array([*mask, False, False]))
    drawn = asyncio.run(toy.ask(Draw(Prefix.of(toy.prompt("p")), None, given_mask, u)))
    assert isinstance(drawn, Drawn)
    return drawn.token, drawn.log_q, drawn.log_mass


@pytest.mark.parametrize("u", [0.0, 0.5, NEAR_ONE])
def test_tokens_of_no_probability_are_never_drawn(u: float) -> None:
    nothing = -math.inf
    logits = [nothing, nothing, 0.0, nothing, 1.0, nothing, nothing]
    token, log_q, log_mass = draw(logits, None, u)
    assert token == {0.0: 2, 0.5: 4, NEAR_ONE: 4}[u]
    assert log_q == pytest.approx(logits[token] - math.log(1 + math.e), abs=1e-6)
    assert log_mass == 0.0


@pytest.mark.parametrize("u", [0.0, 0.3, NEAR_ONE])
def test_draws_stay_within_the_mask_across_blocks(u: float) -> None:
    size = 600  # more than two blocks of the inverse CDF
    allowed = [i in (3, 300, 599) for i in range(size)]
    token, _, log_mass = draw([0.0] * size, allowed, u)
    assert token == {0.0: 3, 0.3: 3, NEAR_ONE: 599}[u]
    assert log_mass == pytest.approx(math.log(3 / size), abs=1e-6)


def test_an_empty_mask_draws_nothing() -> None:
    token, _, log_mass = draw([0.0, 1.0], [False, False], 0.5)
    assert (token, log_mass) == (-1, -math.inf)
    # The same where the mask allows only what has no probability.
    token, _, log_mass = draw([0.0, -math.inf], [False, True], 0.5)
    assert (token, log_mass) == (-1, -math.inf)


@pytest.mark.parametrize("gap", [50.0, 90.0, 300.0])
def test_tiny_masses_keep_their_logs(gap: float) -> None:
    logits = [0.0, -gap, -gap - 1.0]
    for u, wanted in ((0.0, 1), (0.7, 1), (0.8, 2), (NEAR_ONE, 2)):
        token, log_q, log_mass = draw(logits, [False, True, True], u)
        assert token == wanted
        assert log_q == pytest.approx(logits[token], rel=1e-6)
        assert log_mass == pytest.approx(-gap + math.log1p(math.exp(-1.0)), rel=1e-6)


logit_lists = st.lists(
    st.floats(-30, 10, allow_nan=False, width=32) | st.just(-math.inf), min_size=2, max_size=9
).filter(lambda x: max(x) > -math.inf)


@given(logits=logit_lists, bits=st.integers(0, 511), u=st.floats(0.0, NEAR_ONE))
def test_draws_invert_the_masked_distribution(logits: list[float], bits: int, u: float) -> None:
    mask = [bool(bits >> i & 1) for i in range(len(logits))]
    token, log_q, log_mass = draw(logits, mask, u)
    p = np.exp(np.array(logits) - max(logits))
    p /= p.sum()
    kept = np.where(mask, p, 0.0)
    if kept.sum() == 0:
        assert token == -1 and log_mass == -math.inf
        return
    assert kept[token] > 0
    assert log_mass == pytest.approx(math.log(kept.sum()), abs=1e-5)
    assert log_q == pytest.approx(math.log(p[token]), abs=1e-5)
    cdf = np.concatenate([[0.0], np.cumsum(kept / kept.sum())])
    assert cdf[token] - 1e-6 <= u <= cdf[token + 1] + 1e-6


def test_masks_are_kept_as_tensors_and_the_oldest_dropped() -> None:
    cache = drawing.MaskCache(nbytes=3 * 2048)
    device = torch.device("cpu")
    dense = [TokenMask(np.arange(400) % 7 != k) for k in range(4)]
    for _ in range(2):
        for mask in dense:
            made = cache.get(mask, device)
            assert made.shape == (2, 256)
            assert made.view(-1)[:400].bool().tolist() == mask.array.tolist()
            assert not made.view(-1)[400:].any()
    assert len(cache._tensors) == 3
    assert cache.get(from_ids([9, 3], 400), device).tolist() == [3, 9]


@pytest.mark.parametrize("size", [40, 256, 700])
def test_every_token_gets_its_share_of_the_uniforms(size: int) -> None:
    """All draws at even steps of u, of masks of all kinds in one batch, against exact counts."""
    cache, steps = drawing.MaskCache(), 4000
    generator = torch.Generator().manual_seed(size)
    logits = torch.randn((3, size), generator=generator) * 2
    logits[:, ::5] = -math.inf
    first = drawing.Distributions(logits[:2], cache)
    second = drawing.Distributions(logits[2:], cache)
    bits = np.random.default_rng(size).random(size) < 0.5
    masks = [None, TokenMask(bits), ~TokenMask(bits), from_ids([1, size - 1], size)]
    rows = [drawing.Row(first, 0), drawing.Row(first, 1), drawing.Row(second, 0)]
    for row, values in zip(rows, logits.double().numpy(), strict=True):
        p = np.exp(values) / np.exp(values).sum()
        u = [(k + 0.5) / steps for k in range(steps)]
        for mask in masks:
            kept = p if mask is None else np.where(mask.array, p, 0.0)
            mass = kept.sum()
            tokens, log_q, log_mass = drawing.draw([drawing.Query(row, mask)] * steps, u, cache)
            assert tokens == sorted(tokens)
            counts = np.bincount(tokens, minlength=size)
            assert np.abs(counts / steps - kept / mass).max() <= 1.01 / steps
            assert log_mass == pytest.approx([math.log(mass)] * steps, abs=2e-6)
            assert log_q == pytest.approx(np.log(p[tokens]), abs=2e-6)
    # Queries of several batches and kinds at once are what they are alone.
    queries = [drawing.Query(row, mask) for mask in masks for row in rows]
    u = [0.37] * len(queries)
    alone = [drawing.draw([q], [0.37], cache) for q in queries]
    parts = zip(*alone, strict=True)
    assert drawing.draw(queries, u, cache) == tuple([x[0] for x in part] for part in parts)
    masses = drawing.log_mass(queries, cache)
    assert masses == [drawing.log_mass([q], cache)[0] for q in queries]


def test_a_remembered_distribution_is_summed_up_once() -> None:
    cache = drawing.MaskCache()
    mask = TokenMask(np.arange(600) % 2 == 0)
    batch = drawing.Distributions(torch.randn(4, 600), cache, [(1, mask)])
    (sums,) = batch.masked([(1, mask)])
    batch.logits = torch.full((4, 600), math.nan)
    (again,) = batch.masked([(1, mask)])
    assert again is sums
