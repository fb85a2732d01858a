"""Stochastic beam search draws without replacement."""

from __future__ import annotations

import asyncio
import itertools
import math
from pathlib import Path

import numpy as np

from disciple_ext.evaluation.methods.beam import stochastic_beams
from disciple_ext.evaluation.run import evaluate
from disciple_ext.evaluation.suites.base import Budget, Instance, Suite
from disciple_ext.testing import ToyFollower

MOST = 2


def enumerated(toy: ToyFollower) -> dict[tuple[str, bool], float]:
    """Probability of each text of at most ``MOST`` tokens, and whether it ended by itself."""
    letters = [p for p in toy.pieces if isinstance(p, str) and len(p) == 1]
    ends = sorted(toy.vocabulary.eos)

    def step(text: tuple[str, ...]) -> tuple[dict[str, float], float]:
        row = toy.probabilities("go", text)
        free = {letter: float(row[toy.pieces.index(letter)]) for letter in letters}
        end = float(row[ends].sum())
        total = sum(free.values()) + end  # special tokens are no text
        return {letter: p / total for letter, p in free.items()}, end / total

    found: dict[tuple[str, bool], float] = {}

    def walk(text: tuple[str, ...], p: float) -> None:
        if len(text) == MOST:
            found["".join(text), False] = p
            return
        following, end = step(text)
        found["".join(text), True] = p * end
        for letter, q in following.items():
            walk((*text, letter), p * q)

    walk((), 1.0)
    return found


def test_inclusion_frequencies_are_those_of_sampling_without_replacement() -> None:
    toy = ToyFollower.random(3, ["a", "b", "c"])
    exact = enumerated(toy)
    assert len(exact) == 13 and math.isclose(sum(exact.values()), 1.0)
    inclusion = dict.fromkeys(exact, 0.0)
    first = dict.fromkeys(exact, 0)
    for x, y in itertools.permutations(exact, 2):  # drawn in this order
        p = exact[x] * exact[y] / (1 - exact[x])
        inclusion[x] += p
        inclusion[y] += p
    runs, rng, prompt = 2000, np.random.default_rng(1), toy.prompt("go")
    seen = dict.fromkeys(exact, 0)

    async def draw() -> None:
        for _ in range(runs):
            beams = await stochastic_beams(toy, prompt, 2, MOST, rng)
            names = [(toy.vocabulary.decode(b.tokens), b.ended) for b in beams]
            assert len(set(names)) == 2
            first[names[0]] += 1
            for beam, name in zip(beams, names, strict=True):
                seen[name] += 1
                assert math.isclose(beam.log_prob, math.log(exact[name]), abs_tol=1e-5)

    asyncio.run(draw())
    for counts, expected in ((seen, inclusion), (first, exact)):
        for name, p in expected.items():
            error = abs(counts[name] / runs - p) / math.sqrt(p * (1 - p) / runs)
            assert error < 4.5, (name, counts[name] / runs, p)


async def test_a_wide_beam_finds_every_text_once() -> None:
    toy = ToyFollower.random(3, ["a", "b", "c"])
    beams = await stochastic_beams(toy, toy.prompt("go"), 50, MOST, np.random.default_rng(0))
    assert {(toy.vocabulary.decode(b.tokens), b.ended) for b in beams} == set(enumerated(toy))
    assert len(beams) == 13
    assert [b.score for b in beams] == sorted((b.score for b in beams), reverse=True)


async def test_what_the_model_rules_out_is_never_drawn() -> None:
    toy = ToyFollower(lambda prompt, text: {"a": 1.0} if not text else {"": 1.0}, ["a", "b"])
    beams = await stochastic_beams(toy, toy.prompt("go"), 4, 5, np.random.default_rng(0))
    (beam,) = beams
    assert (toy.vocabulary.decode(beam.tokens), beam.ended) == ("a", True)
    assert math.isclose(beam.log_prob, 0.0, abs_tol=1e-6)


def test_the_method_takes_the_suites_width_and_length(tmp_path: Path) -> None:
    suite = Suite(
        name="toy",
        budgets={"any": Budget("any", 4, 10.0, 3, "go")},
        instances=lambda path: [Instance("any/0", "any", "Write.")],
        verify=lambda instance, text: "a" in text,
    )
    toy = ToyFollower.random(3, ["a", "b", "c"])
    (row,) = evaluate(["beam"], out=tmp_path, suite=suite, follower=toy)
    assert row.error is None and len(row.samples) == row.n == 4
    assert len({(s.text, s.finish_reason) for s in row.samples}) == 4
    assert all(s.tokens <= 3 and s.log_weight is None for s in row.samples)
    assert {s.finish_reason for s in row.samples} <= {"ended", "max_tokens"}
    assert row.pass_at_1 == sum("a" in s.text for s in row.samples) / 4
    assert row.usage["follower_tokens"] >= sum(s.tokens for s in row.samples)
    assert row.usage["forwards"] > 0 and row.cost == 0.0
    assert all(s.log_prob is not None for s in row.samples)
