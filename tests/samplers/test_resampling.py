from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disciple_ext.samplers.resampling import SCHEMES, multinomial

scheme = pytest.mark.parametrize("name", sorted(SCHEMES))
some_weights = st.lists(
    st.floats(0.0, 1.0).map(lambda x: 0.0 if x < 0.2 else x), min_size=1, max_size=9
).filter(lambda w: sum(w) > 0)


@scheme
@given(weights=some_weights, n=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_n_ancestors_in_order_and_none_of_zero_weight(
    name: str, weights: list[float], n: int, seed: int
) -> None:
    p = np.array(weights) / sum(weights)
    ancestors = SCHEMES[name](np.random.default_rng(seed), p, n)
    assert len(ancestors) == n and list(ancestors) == sorted(ancestors)
    assert all(p[a] > 0 for a in ancestors)
    counts = Counter(ancestors.tolist())
    for i, share in enumerate(n * p):
        if name == "systematic":
            assert math.floor(share - 1e-9) <= counts[i] <= math.ceil(share + 1e-9)
        if name == "stratified":
            assert abs(counts[i] - share) < 2
        if name == "residual":
            assert counts[i] >= math.floor(share - 1e-9)


@scheme
def test_offspring_are_right_in_expectation(name: str) -> None:
    p, n, runs = np.array([0.05, 0.0, 0.4, 0.3, 0.25]), 4, 4000
    rng = np.random.default_rng(1)
    counts = np.array(
        [np.bincount(SCHEMES[name](rng, p, n), minlength=len(p)) for _ in range(runs)]
    )
    error = counts.std(0) / math.sqrt(runs)
    # Six standard errors: a right scheme fails once in 10^8 seeds.
    assert (np.abs(counts.mean(0) - n * p) <= 6 * error + 1e-12).all()


def test_equal_weights_give_every_particle_one_offspring() -> None:
    p = np.full(8, 1 / 8)
    for name in ("stratified", "systematic", "residual"):
        assert SCHEMES[name](np.random.default_rng(0), p, 8).tolist() == list(range(8))


def test_rounding_at_the_top_does_not_pick_a_particle_of_zero_weight() -> None:
    class Top(np.random.Generator):
        def random(self, size=None):  # type: ignore[no-untyped-def]
            return np.full(size, np.nextafter(1.0, 0.0))

    p = np.array([0.1] * 10 + [0.0])  # the cumulative sum ends just below 1
    assert multinomial(Top(np.random.PCG64(0)), p, 3).tolist() == [9, 9, 9]
