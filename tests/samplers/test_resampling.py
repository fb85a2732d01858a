from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disciple_ext.samplers.resampling import SCHEMES, fearnhead_clifford, inclusion, multinomial

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


# Without replacement -------------------------------------------------------------------------

some_logs = st.lists(st.floats(-900, 900) | st.just(-math.inf), min_size=1, max_size=12)


def test_the_threshold_of_a_worked_example() -> None:
    # Two of 1, 2, 3 and 10 stay: 10 exceeds c = (1 + 2 + 3) / 1, the others share one place.
    log_c, shares = inclusion(np.log([1.0, 2.0, 3.0, 10.0]), 2)
    assert math.exp(log_c) == pytest.approx(6.0)
    assert shares == pytest.approx([1 / 6, 2 / 6, 3 / 6, 1.0])


@given(logs=some_logs, n=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_exactly_n_survive_or_all_that_live(logs: list[float], n: int, seed: int) -> None:
    alive = sum(w > -math.inf for w in logs)
    log_c, shares = inclusion(logs, n)
    assert shares.sum() == pytest.approx(min(n, alive))
    kept, weights = fearnhead_clifford(np.random.default_rng(seed), logs, n)
    assert len(kept) == min(n, alive) and (np.diff(kept) > 0).all()
    assert (weights > -np.inf).all()
    for i, weight in zip(kept, weights, strict=True):
        assert weight == max(logs[i], log_c) and logs[i] > -math.inf
    if alive:
        assert np.logaddexp.reduce(weights) == pytest.approx(np.logaddexp.reduce(logs), abs=1e-9)


@pytest.mark.parametrize("shift", [0.0, -5000.0])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_inclusion_probabilities_and_weights_by_monte_carlo(n: int, shift: float) -> None:
    w, runs = np.array([0.05, 0.0, 4.0, 0.3, 0.25, 0.9, 0.0, 0.3]), 4000
    with np.errstate(divide="ignore"):
        logs = np.log(w) + shift
    log_c, _ = inclusion(logs, n)
    wanted = np.minimum(1.0, w / math.exp(log_c - shift))
    rng = np.random.default_rng(2)
    chosen, weight = np.zeros((runs, len(w))), np.zeros((runs, len(w)))
    for i in range(runs):
        kept, new = fearnhead_clifford(rng, logs, n)
        chosen[i, kept], weight[i, kept] = 1.0, np.exp(new - shift)
    for values, expected in ((chosen, wanted), (weight, w)):
        error = values.std(0) / math.sqrt(runs)
        # Six standard errors: a right resampler fails once in 10^7 seeds.
        assert (np.abs(values.mean(0) - expected) <= 6 * error + 1e-9).all()


def test_weights_far_apart_still_share_the_places_that_are_left() -> None:
    logs = [0.0, -1000.0, -1000.0, -1000.0]
    kept = [fearnhead_clifford(np.random.default_rng(i), logs, 2)[0].tolist() for i in range(60)]
    assert {tuple(k) for k in kept} == {(0, 1), (0, 2), (0, 3)}


def test_nothing_alive_is_nothing_kept_and_nonsense_raises() -> None:
    rng = np.random.default_rng(0)
    assert [len(x) for x in fearnhead_clifford(rng, [-math.inf] * 3, 2)] == [0, 0]
    for logs, n in (([0.0, math.nan], 1), ([math.inf], 1), ([0.0], 0)):
        with pytest.raises(ValueError):
            fearnhead_clifford(rng, logs, n)
