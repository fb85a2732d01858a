"""Masks that differ at every step: through the pipe, and forgotten on both sides."""

from __future__ import annotations

import numpy as np
import pytest

from disciple_ext import Limits, Task, run_program
from disciple_ext.protocol.token_mask import TokenMask, from_ids
from disciple_ext.sandbox.wire.frames import LONGEST, Frames, Malformed
from disciple_ext.sandbox.wire.masks import SentMasks, read_mask
from disciple_ext.testing import ToyFollower

FRESH = """
class InferenceModel(BaseModel):
    async def step(self):
        for i in range({count}):
            ids = [j for j in range(16) if (i + 1) >> j & 1]
            await self.observe(self.context.mask_dist(set(ids) | {{16}}), True)
            await self.observe(self.context.next_token(), 16)
        self.finish()
"""


def test_two_thousand_fresh_masks_do_not_fill_either_side() -> None:
    size, rng = 128_000, np.random.default_rng(0)
    sent, frames, table, held = SentMasks(), Frames(LONGEST), {}, 0
    for i in range(2000):
        few = i % 2 == 0
        mask = (
            from_ids(rng.integers(size, size=9), size) if few else TokenMask(rng.random(size) < 0.5)
        )
        out: list[bytes] = []
        number = sent.number(mask, out)
        assert sent.number(mask, out) == number and len(out) == 1
        for _, payload in frames.feed(out[0]):
            got, made = read_mask(payload, size)
            table[got] = made
            assert got == number and made == mask
        sent.forget()
        held = max(held, sum(m.nbytes for m in sent._numbers))
    assert held <= 2**25 and len(sent._numbers) <= 1024
    assert sum(m.nbytes for m in table.values()) <= 2**25 + size and len(table) <= 1025


def test_what_a_batch_names_is_kept_until_it_is_sent() -> None:
    sent, out = SentMasks(entries=2), []
    masks = [from_ids([i], 100) for i in range(5)]
    numbers = [sent.number(mask, out) for mask in masks]
    assert len(set(numbers)) == 5
    sent.forget()
    assert sent.number(masks[4], out) == numbers[4] and len(out) == 5
    assert sent.number(masks[0], out) in numbers[:3] and len(out) == 6


@pytest.mark.parametrize("few", [True, False])
def test_a_mask_comes_out_as_it_went_in(few: bool) -> None:
    mask = from_ids([0, 63, 98] if few else range(0, 99, 2), 99)
    ((_, payload),) = Frames(LONGEST).feed(_sent(mask))
    assert read_mask(payload, 99)[1] == mask
    with pytest.raises(Malformed):
        read_mask(payload[:-1], 99)


def _sent(mask: TokenMask) -> bytes:
    out: list[bytes] = []
    SentMasks().number(mask, out)
    return out[0]


def test_a_run_may_use_two_thousand_masks() -> None:
    toy = ToyFollower.random(1, [chr(97 + i) for i in range(17)], eos=1)
    source = FRESH.format(count=2000)
    limits = Limits(timeout=300, memory=64)
    task = Task("toy", n=1, limits=limits)
    inside = run_program(source, task, follower=toy, sampler="is")
    outside = run_program(source, task, follower=toy, sampler="is", sandbox="none")
    assert inside.log_evidence == pytest.approx(outside.log_evidence)
