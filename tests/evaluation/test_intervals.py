"""Bootstrap intervals: by hand, against the exact distribution, and their coverage."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from disciple_ext.evaluation.scores.intervals import Interval, intervals


def test_two_instances_by_hand() -> None:
    # Draws of {0, 1} with replacement: means 0, 1/2, 1 with probability 1/4, 1/2, 1/4.
    pairs = [("sent_01", 0.0), ("sent_01", 1.0)]
    assert intervals(pairs)["sent_01"] == Interval(0.5, 0.0, 1.0)
    half = intervals(pairs, level=0.4)["sent_01"]  # the 30 % and 70 % quantiles
    assert half == Interval(0.5, 0.5, 0.5)


def test_a_level_is_resampled_within_its_types() -> None:
    # The types differ by 10, and each has no spread: instances never cross to another type.
    pairs = [("sent_01", 0.0)] * 9 + [("sent_02", 10.0)] * 2
    found = intervals(pairs)
    assert found["sentences"] == Interval(5.0, 5.0, 5.0)
    assert found["all"] == found["sentences"]


def test_the_quantiles_are_those_of_the_exact_distribution() -> None:
    first, second = [0.0, 0.3, 0.5, 1.0], [0.1, 0.2, 0.9, 0.4]
    drawn = [np.mean(list(product(values, repeat=4)), axis=1) for values in (first, second)]
    means = np.add.outer(*drawn) / 2
    found = intervals([("sent_01", v) for v in first] + [("sent_04", v) for v in second])
    low, high = np.quantile(means, [0.025, 0.975])
    assert found["sentences"].low == pytest.approx(low, abs=0.02)
    assert found["sentences"].high == pytest.approx(high, abs=0.02)


def test_one_instance_has_no_interval() -> None:
    found = intervals([("sent_01", 0.25), ("sent_02", 0.5), ("sent_02", 1.0)])
    assert found["sent_01"] == Interval(0.25)
    assert found["sent_02"].low is not None
    assert found["sentences"] == Interval(0.5), "one of its types says nothing of its spread"


def test_a_type_has_its_own_stream_and_the_seed_decides() -> None:
    pairs = [("para_02", value) for value in (0.1, 0.5, 0.4, 0.9, 0.2)]
    alone = intervals(pairs)["para_02"]
    assert intervals([*pairs, ("sent_01", 1.0), ("sent_01", 0.0)])["para_02"] == alone
    assert intervals(pairs, draws=100, seed=1)["para_02"] != intervals(pairs, draws=100)["para_02"]
    assert intervals([]) == {}


def test_coverage() -> None:
    """95 % intervals of means of 40 instances in two types hold the truth about 19 times in 20."""
    rng = np.random.default_rng(0)
    truth = (0.3 + 0.7) / 2
    held, trials = 0, 400
    for _ in range(trials):
        pairs = [("sent_01", v) for v in rng.beta(3, 7, 40)]
        pairs += [("sent_02", v) for v in rng.beta(7, 3, 40)]
        found = intervals(pairs, draws=1000)["sentences"]
        assert found.low is not None and found.high is not None
        held += found.low <= truth <= found.high
    assert 0.91 <= held / trials <= 0.98
