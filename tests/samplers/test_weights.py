from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disciple_ext.samplers import weights

logs = st.lists(st.floats(-800, 800) | st.just(-math.inf), min_size=1, max_size=12)


@given(logs, st.floats(-1e4, 1e4))
def test_shifting_all_logs_changes_the_sum_and_nothing_else(w: list[float], shift: float) -> None:
    moved = [x + shift for x in w]
    if max(w) == -math.inf:
        assert weights.log_sum(moved) == -math.inf
        assert weights.normalise(w).tolist() == [0.0] * len(w) and weights.ess(w) == 0.0
        return
    assert weights.log_sum(moved) == pytest.approx(weights.log_sum(w) + shift, abs=1e-6)
    assert weights.normalise(moved) == pytest.approx(weights.normalise(w), abs=1e-9)
    assert weights.normalise(w).sum() == pytest.approx(1.0)
    assert 1.0 - 1e-9 <= weights.ess(w) <= len(w) + 1e-9


def test_worked_examples() -> None:
    w = np.log([1.0, 3.0]).tolist()
    assert weights.log_sum(w) == pytest.approx(math.log(4))
    assert weights.log_mean([*w, -math.inf, -math.inf]) == pytest.approx(0.0)
    assert weights.normalise(w) == pytest.approx([0.25, 0.75])
    assert weights.ess(w) == pytest.approx(1 / (0.25**2 + 0.75**2))
    assert weights.log_mean([]) == -math.inf


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_weights_that_are_no_weights_raise(bad: float) -> None:
    with pytest.raises(ValueError, match="NaN"):
        weights.log_sum([0.0, bad])
