"""The probability of a string of bytes, against the sum over all its token sequences."""

from __future__ import annotations

import asyncio
import itertools
import math

import numpy as np
import pytest

from disciple_ext.model.context import FollowerContext
from disciple_ext.model.spelling.spelling import END, Spelling
from disciple_ext.protocol.vocabulary import from_ids
from disciple_ext.testing import ToyFollower
from disciple_ext.testing.toy import Piece

# Two tokens of the same bytes, and one that is cut within a code point.
TOKENS: tuple[Piece, ...] = ("a", "b", "ab", "ba", "aba", b"b", "é", b"\xc3", b"\xa9b")


def exact(
    toy: ToyFollower, data: bytes, *, end: bool = False, first: list[int] | None = None
) -> float:
    """Its probability, from the toy's own table: the sum over every way to write it."""
    texts = [t.encode() if isinstance(t, str) else t for t in TOKENS]
    ends = sorted(toy.vocabulary.eos)

    def walk(pieces: tuple[Piece, ...], done: int) -> float:
        rest = data[done:]
        row = toy.probabilities("toy", pieces)
        if not pieces and first is not None:
            row = np.where(np.isin(np.arange(len(row)), first), row, 0.0)
        if not rest:
            return float(row[ends].sum()) if end else 1.0
        total = 0.0
        for token, text in enumerate(texts):
            if rest.startswith(text):
                total += row[token] * walk((*pieces, TOKENS[token]), done + len(text))
            elif text.startswith(rest) and not end:
                total += row[token]
        return total

    return walk((), 0)


async def spelled(
    toy: ToyFollower, data: bytes, tolerance: float, **context: object
) -> tuple[float, float, float, float]:
    """The log-probability of the string and what may be lost of it; the same with the end."""
    ctx = FollowerContext(toy, "toy")
    vars(ctx).update(context)
    spelling = Spelling.after(ctx, tolerance)
    log, lost = 0.0, 0.0
    for byte in data:
        spelling, logs = await spelling.following(np.arange(END + 1) == byte)
        log, lost = float(logs[byte]), spelling.lost(float(logs[byte]))
        spelling = spelling.then(byte)
    spelling, logs = await spelling.following(np.arange(END + 1) == END)
    return log, lost, float(logs[END]), spelling.lost(float(logs[END]))


STRINGS = ["".join(s).encode() for n in range(5) for s in itertools.product("ab", repeat=n)]
STRINGS += ["é".encode(), "aéb".encode(), "ébé".encode()]


@pytest.mark.parametrize("tolerance", [0.0, 1e-3, 0.05, 0.3])
def test_it_is_exact_without_tolerance_and_within_what_is_lost_otherwise(tolerance: float) -> None:
    toy = ToyFollower.random(3, TOKENS)

    async def check() -> float:
        worst = 0.0
        for data in STRINGS:
            log, lost, log_end, lost_end = await spelled(toy, data, tolerance)
            for found, share, true in (
                (math.exp(log), lost, exact(toy, data)),
                (math.exp(log_end), lost_end, exact(toy, data, end=True)),
            ):
                assert true * (1.0 - share) * (1 - 1e-6) <= found <= true * (1 + 1e-6), data
                assert share <= tolerance + 1e-12
                if not tolerance:
                    assert found == pytest.approx(true, rel=1e-6) and share == 0.0
            worst = max(worst, lost_end)
        return worst

    worst = asyncio.run(check())
    assert tolerance < 0.05 or worst > 0.0, "nothing was left out: the test shows nothing"


def test_what_the_context_had_pending_rules_on_the_first_token() -> None:
    toy = ToyFollower.random(5, TOKENS)
    first = [1, 2, 4]  # b, ab, aba
    pending = from_ids(first, toy.vocabulary.size)

    async def check() -> None:
        for data in STRINGS:
            log, _, log_end, _ = await spelled(toy, data, 0.0, pending=pending)
            if data:
                assert math.exp(log) == pytest.approx(exact(toy, data, first=first), rel=1e-6)
            true = exact(toy, data, end=True, first=first)
            assert math.exp(log_end) == pytest.approx(true, rel=1e-6)

    asyncio.run(check())


def test_a_string_without_a_token_has_no_probability() -> None:
    toy = ToyFollower.random(3, ("a", "ab"))
    for tolerance in (0.0, 0.1):
        log, lost, log_end, _ = asyncio.run(spelled(toy, b"ba", tolerance))
        assert log == log_end == -math.inf and lost == 0.0
