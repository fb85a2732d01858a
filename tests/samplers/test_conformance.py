"""The conformance suite passes right samplers, and finds the wrong ones by what they get wrong."""

from __future__ import annotations

import asyncio
import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from disciple_ext.errors import SamplerError, UsageError
from disciple_ext.records.task import Limits, Task
from disciple_ext.run.particles import make_particle
from disciple_ext.samplers.base import Population, Run
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.samplers.rejection import RejectionSampler
from disciple_ext.samplers.resampling import SCHEMES
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.samplers.smc_steer import SteerSampler
from disciple_ext.testing import ConformanceError, check_sampler, contract, run_sampler
from disciple_ext.testing.betting import Bet, MeanTest
from disciple_ext.testing.models import EXAMPLES

# The tests are no package: wrong.py is found beside this file.
spec = importlib.util.spec_from_file_location("wrong", Path(__file__).with_name("wrong.py"))
assert spec is not None and spec.loader is not None
wrong = importlib.util.module_from_spec(spec)
spec.loader.exec_module(wrong)

SHIPPED: dict[str, tuple[Any, dict[str, Any]]] = {
    "is": (ImportanceSampler, {}),
    "smc": (SMCSampler, {}),
    "smc-steer": (SteerSampler, {}),
    "rs": (RejectionSampler, {"condition": True}),
}
VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{f"smc {s}": (lambda s=s: SMCSampler(1.0, s), {}) for s in sorted(SCHEMES)},
    "smc-steer 2": (lambda: SteerSampler(2), {"n": 2}),
    "smc-steer 1": (lambda: SteerSampler(1), {}),
    # N is only a limit, so the error does not fall as it grows.
    "rs 2": (
        lambda: RejectionSampler(2, batch=3),
        {"condition": True, "convergence": False, "n": 5},
    ),
}
TOOK_SECONDS = {
    "AcceptedOverDrawn",
    "BestOfTwo",
    "FavoursTheFirst",
    "LooksAtTheResult",
    "OneForAll",
    "TemperedWeights",
}


# Right ones ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_samplers_pass(name: str) -> None:
    make, options = SHIPPED[name]
    report = check_sampler(make(), quick=True, **options)
    assert {row[0] for row in report.rows} >= {"unbiased", "convergence", "seeds", "cancellation"}
    assert sum(row[0] == "unbiased" for row in report.rows) == len(EXAMPLES) >= 20
    assert "evidence" in str(report) and "Everything" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_samplers_pass_with_full_effort(name: str) -> None:
    make, options = SHIPPED[name]
    check_sampler(make(), **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_other_settings_pass(name: str) -> None:
    make, options = VARIANTS[name]
    check_sampler(make(), quick=True, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_samplers_pass_every_time(name: str) -> None:
    make, options = SHIPPED[name]
    # smc-steer makes three times the work: its 20 take longer than all the others'.
    for seed in range(1, 6 if name == "smc-steer" else 21):
        check_sampler(make(), quick=True, seed=1000 * seed, **options)


def test_search_samplers_are_held_to_the_contract_alone() -> None:
    report = check_sampler(RejectionSampler(1), quick=True, condition=True)
    assert report.kind == "search" and "unbiased" not in {row[0] for row in report.rows}


def test_a_sampler_without_a_kind_is_refused() -> None:
    class Nameless(ImportanceSampler):
        kind: Any = "best"

    with pytest.raises(SamplerError, match="'best'"):
        check_sampler(Nameless)


# Wrong ones ----------------------------------------------------------------------------------


def test_there_are_enough_wrong_samplers() -> None:
    assert sum(map(len, wrong.WRONG.values())) >= 15


@pytest.mark.parametrize(
    ("prop", "kind"),
    [
        pytest.param(p, k, id=k.__name__, marks=[pytest.mark.slow][: k.__name__ in TOOK_SECONDS])
        for p, kinds in wrong.WRONG.items()
        for k in kinds
    ],
)
def test_a_wrong_sampler_is_rejected(prop: str, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "_PATIENCE", 2.0)
    options = {"condition": True, "n": 12} if kind is wrong.AcceptedOverDrawn else {}
    with pytest.raises(ConformanceError) as caught:
        check_sampler(kind(), **options)
    assert caught.value.property == prop, str(caught.value)
    assert caught.value.model in str(caught.value)


def test_without_its_fault_the_wrong_samplers_skeleton_passes() -> None:
    check_sampler(wrong.Right(), quick=True)


# The models ----------------------------------------------------------------------------------


def test_the_models_cover_what_they_say() -> None:
    exact = {e.name: e.exact() for e in EXAMPLES}
    reasons = {e.finish_reason for x in exact.values() for e in x.executions}
    assert reasons == {"ended", "condition_false", "impossible_mask", "max_tokens"}
    assert exact["AllDie"].evidence == 0.0
    for name, x in exact.items():
        assert x.evidence <= x.bound
        if x.masses:  # discriminating: the weights of the living differ
            living = [e.log_weight for e in x.executions if e.log_weight > -math.inf]
            assert np.ptp(living) > 0.5, name
    assert len({len(text) for text in exact["VariableLength"].masses}) > 2
    lengths = {len(e.path) for e in exact["EarlyAndLate"].executions}
    assert len(lengths) == 4
    assert exact["Checked"].evidence > EXAMPLES[[*exact].index("Checked")].exact(True).evidence


# The test of a mean --------------------------------------------------------------------------


def test_a_bet_wins_no_oftener_than_it_may() -> None:
    rng = np.random.default_rng(1)
    won = 0
    for _ in range(1000):
        bet = Bet(0.1, 0.0)
        bet.add(rng.random(200) < 0.1)
        won += bet.log_wealth > math.log(20)
    assert won <= 50 + 6 * math.sqrt(50)  # at most 1 in 20, looking after each observation


@pytest.mark.parametrize(("mean", "found"), [(0.1, False), (0.16, True), (0.05, True)])
def test_a_mean_that_is_off_is_found_from_both_sides(mean: float, found: bool) -> None:
    test = MeanTest(0.1, 1.0, 0.03)
    test.add(np.random.default_rng(2).random(3000) < mean)
    assert (test.log_evidence > math.log(1e6)) == found
    assert test.close == (not found)


def test_no_rounding_looks_like_an_outcome() -> None:
    for mean in (0.0, 0.3, 1.0):
        test = MeanTest(mean, 1.0, 0.1)
        test.add(np.full(1000, mean) * (1 + 1e-7))
        assert test.log_evidence < 0.1 and test.close


# LLaMPPL's smc_steer, made correct -----------------------------------------------------------

DYING = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.next_token()
        self.condition(token == "a" or self.random.random() < {rate})
        if self.context.token_count == 4:
            self.finish()
"""


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_steering_ends_with_n_particles_however_many_die(rate: float) -> None:
    follower = EXAMPLES[0].follower
    for seed in range(8):
        population = run_sampler(SteerSampler(3), DYING.format(rate=rate), follower, 4, seed=seed)
        assert len(population.particles) == 4


def test_steering_with_nobody_alive_gives_evidence_zero() -> None:
    source = DYING.format(rate=0.0).replace('token == "a"', "False")
    population = run_sampler(SteerSampler(2), source, EXAMPLES[0].follower, 4)
    assert population.log_evidence == -math.inf and len(population.particles) == 4
    assert all(p.reason for p in population.particles)


def test_steering_keeps_every_weight_where_nothing_competes() -> None:
    # One particle, one expansion: importance sampling.
    example = EXAMPLES[0]

    def outcome(sampler: Any) -> Any:
        population: Population = run_sampler(sampler, example.model, example.follower, 1, seed=3)
        return str(population.particles[0]), population.log_evidence

    assert outcome(SteerSampler(1)) == outcome(ImportanceSampler())


def test_a_beam_of_no_expansions_is_the_users_error() -> None:
    with pytest.raises(UsageError):
        SteerSampler(0)


def test_finished_particles_are_not_expanded() -> None:
    sizes: list[tuple[int, int]] = []

    class Counting(Run):
        async def step(self, particles: Any) -> None:
            sizes.append((sum(p.done_stepping() for p in particles), len(particles)))
            await super().step(particles)

    example = next(e for e in EXAMPLES if e.name == "EarlyAndLate")
    for seed in range(5):
        run = Counting(
            lambda i, seed=seed: make_particle(  # type: ignore[misc]
                example.model, Task("t"), example.follower, seed, i
            ),
            seed=seed,
            limits=Limits(),
        )
        asyncio.run(SteerSampler(3)(run, 4))
    assert all(total == done + 3 * (4 - done) for done, total in sizes)
    assert any(done for done, _ in sizes)
