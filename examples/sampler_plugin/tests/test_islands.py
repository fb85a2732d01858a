from __future__ import annotations

import pytest
from disciple_islands import IslandsSampler

from disciple_ext import UsageError
from disciple_ext.testing import check_sampler


@pytest.mark.parametrize("islands", [1, 2])
def test_the_sampler_keeps_its_word(islands: int) -> None:
    check_sampler(IslandsSampler(islands), quick=True)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(UsageError, match="from 1 on"):
        IslandsSampler(islands=0)
    with pytest.raises(UsageError, match="from 0 to 1"):
        IslandsSampler(ess_threshold=2)
