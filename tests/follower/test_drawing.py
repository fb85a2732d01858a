from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from disciple_ext.follower import drawing
from disciple_ext.model.vocabulary import TokenMask, from_ids
from disciple_ext.testing import ToyFollower

NEAR_ONE = 1.0 - 2.0**-53


def draw(logits: list[float], mask: list[bool] | None, u: float) -> tuple[int, float, float]:
    """One draw through the whole follower, as a program's request would make it."""
    import asyncio

    from disciple_ext.model.prefix import Prefix
    from disciple_ext.model.requests import Draw, Drawn

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
    cache = drawing.MaskCache(size=2)
    like = torch.zeros(1, 4)
    masks = [from_ids([i], 4) for i in range(3)]
    assert cache.stack([None, None], like) is None
    for _ in range(2):
        for mask in masks:
            stacked = cache.stack([mask, None], like)
            assert stacked is not None
            assert stacked.tolist() == [mask.array.tolist(), [True] * 4]
    assert len(cache._tensors) == 2
