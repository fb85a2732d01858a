"""The base measure: rows, targets and evidence by enumeration, and what is refused."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest

from disciple_ext import BaseMeasure, FollowerContext, Measure, UsageError, run_program
from disciple_ext.control.follower import FollowerPotential
from disciple_ext.protocol.adapters import measured
from disciple_ext.protocol.measure import PLAIN, SPARE, Role
from disciple_ext.protocol.prefix import Prefix
from disciple_ext.protocol.requests import LogProbs, Mass, NextBytes, Score
from disciple_ext.protocol.vocabulary import from_ids
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.samplers.rejection import RejectionSampler
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.samplers.smc_steer import SteerSampler
from disciple_ext.testing import ToyFollower, models
from disciple_ext.testing.exact import exact_posterior
from disciple_ext.testing.proper import check_unbiased
from disciple_ext.testing.subject import Report, Subject

from .measured import ALL, PRIORS, TARGETS, MeasuredExample, Told, kept, prior_row, toy_of

TOKENS = ("a", "b", "c", "ab", "ba")


def row(toy: ToyFollower, measure: BaseMeasure, role: Role, temperature: float = 1.0) -> Any:
    """A distribution as the follower gives it, in linear space."""
    context = Prefix.of(toy.prompt("p"))
    follower = measured(toy, measure)
    return np.exp(asyncio.run(follower.ask(LogProbs(context, temperature, role))))


@pytest.mark.parametrize("measure", ALL, ids=str)
def test_rows_are_those_of_the_definition(measure: BaseMeasure) -> None:
    toy = toy_of(TOKENS)
    p = toy.probabilities("p")
    wanted = prior_row(p, measure)
    assert row(toy, measure, Role.PRIOR) == pytest.approx(wanted, rel=1e-5, abs=1e-12)
    assert row(toy, measure, Role.PLAIN) == pytest.approx(kept(p, measure.prior), rel=1e-5)
    # A context's own temperature comes on top.
    with np.errstate(divide="ignore"):
        warm = np.exp(np.log(p) / 1.3)
    assert row(toy, measure, Role.PRIOR, 1.3) == pytest.approx(
        prior_row(warm / warm.sum(), measure), rel=1e-4, abs=1e-12
    )
    own = measure.proposal
    local = wanted / wanted.sum() if own is None else kept(p, own)
    cut = (own or measure.prior).truncates
    spare = p ** (measure.power / measure.prior.temperature)
    mixed = (1.0 - SPARE) * local + SPARE * spare / spare.sum() if cut else local
    assert row(toy, measure, Role.PROPOSAL) == pytest.approx(mixed, rel=1e-5, abs=1e-12)
    shared = local if own is None else mixed
    assert row(toy, measure, Role.SHARED) == pytest.approx(shared, rel=1e-5, abs=1e-12)
    if cut:  # nothing that the prior can write is out of the proposal's reach
        assert (row(toy, measure, Role.PROPOSAL)[p > 0.0] > 0.0).all()


# Each option at each power, with and without a proposal of its own.
@pytest.mark.parametrize("measure", ALL[::5], ids=str)
def test_every_request_reads_the_same_row(measure: BaseMeasure) -> None:
    toy = toy_of(TOKENS)
    follower = measured(toy, measure)
    context = Prefix.of(toy.prompt("p"))
    mask = from_ids([0, 2, 5], toy.vocabulary.size)

    async def ask() -> list[Any]:
        asked = [LogProbs(context), Mass(context, mask), NextBytes(context)]
        scores = [Score(context, (i,)) for i in range(4)] + [Score(context, (1, 2))]
        one, two = context, context.then(1)
        second = [Score(one, (1,)), Score(two, (2,))]
        requests: list[Any] = [*asked, *scores, *second]
        return list(await asyncio.gather(*(follower.ask(r) for r in requests)))

    logs, mass, segments, *scores = asyncio.run(ask())
    p = np.exp(np.asarray(logs, np.float64))
    assert math.exp(mass) == pytest.approx(p[[0, 2, 5]].sum(), rel=1e-5)
    assert [math.exp(s[0]) for s in scores[:4]] == pytest.approx(p[:4], rel=1e-5, abs=1e-12)
    pair, first, second = scores[4:]
    assert pair == pytest.approx((first[0], second[0]), rel=1e-5)
    node = toy.vocabulary.trie.node(b"")
    assert np.exp(segments).sum() == pytest.approx(p[node.ids].sum(), rel=1e-5)


# 36 of 108 for the quick program, fewer for those that take seconds; strides that meet every
# option, with and without the others.
@pytest.mark.parametrize(
    ("program", "measure"),
    [
        pytest.param(k, m, id=f"{TARGETS[k][0].__name__}-{m}")
        for k, stride in enumerate((3, 25, 17, 11))
        for m in ALL[k % 3 :: stride]
    ],
)
def test_target_and_evidence_are_the_priors(program: int, measure: BaseMeasure) -> None:
    """The masses of all texts, by enumeration, are those of the definition."""
    model, tokens, target = TARGETS[program]
    wanted = target(Told(toy_of(tokens), measure))
    exact = exact_posterior(model, measured(toy_of(tokens), measure))
    # What is next to impossible is no execution to the enumeration.
    left = {text: mass for text, mass in wanted.items() if mass > 1e-10}
    found = {text: mass for text, mass in exact.masses.items() if mass > 1e-10}
    assert found == pytest.approx(left, rel=1e-5)
    assert exact.evidence == pytest.approx(sum(wanted.values()), rel=1e-5)


def test_lost_mass_is_a_bound_where_the_power_is_below_one() -> None:
    """What is not asked about may add more than its own probability."""

    class Coarse(TARGETS[2][0]):  # type: ignore[misc]
        async def step(self) -> None:
            self.char_tolerance = 0.3
            await super().step()

    measure = BaseMeasure(power=0.5)
    tokens, target = TARGETS[2][1:]
    wanted = target(Told(toy_of(tokens), measure))
    exact = exact_posterior(Coarse, measured(toy_of(tokens), measure))
    lost = {e.text: 0.0 for e in exact.executions}
    for e in exact.executions:
        lost[e.text] = max(lost[e.text], e.particle.lost_mass)
    for text, mass in exact.masses.items():
        assert mass <= wanted[text] * (1 + 1e-6)
        assert mass >= wanted[text] * (1.0 - lost[text]) - 1e-9


MEASURES = (
    BaseMeasure(Measure(0.7, top_p=0.85)),
    BaseMeasure(Measure(top_k=4), Measure(0.8, top_k=2)),
    BaseMeasure(Measure(min_p=0.2), None, 1.5),
    BaseMeasure(Measure(), Measure(1.4, top_p=0.7), 0.7),
    BaseMeasure(Measure(0.8, top_p=0.9), Measure(0.7, min_p=0.4), 1.5),
)
PROGRAMS = (
    (models.MaskedProposal, 23),
    (models.Forced, 22),
    (models.MaskDraws, 13),
    (models.PendingDraws, 3),
    (models.Everything, 3),
    (models.Judged, 19),
    (models.Checked, 23),
)


@pytest.mark.parametrize("measure", MEASURES, ids=str)
@pytest.mark.parametrize(
    "sampler",
    [ImportanceSampler(), RejectionSampler(), SMCSampler(), SteerSampler()],
    ids=lambda s: s.name,
)
def test_samplers_are_properly_weighted(sampler: Any, measure: BaseMeasure) -> None:
    rejects = isinstance(sampler, RejectionSampler)
    subject = Subject(lambda: sampler, sampler.name, sampler.kind, 3, 0, rejects, 1.0)
    # Steering clones each particle many times, which takes ten times as long.
    chosen = PROGRAMS[1:4] if isinstance(sampler, SteerSampler) else PROGRAMS
    examples = [MeasuredExample(model, seed, measure=measure) for model, seed in chosen]
    report = Report(sampler.name, sampler.kind)
    check_unbiased(subject, examples, report, runs=100, level=1e-6, tolerance=0.2)


def test_a_wrong_weight_is_found() -> None:
    """The test above can fail: a target of another measure is none of these samplers'."""

    class Wrong(MeasuredExample):
        def exact(self, condition: bool = False) -> Any:
            return models.Example(self.model, self.seed).exact(condition)

    subject = Subject(ImportanceSampler, "is", "weighted", 3, 0, False, 1.0)
    example = Wrong(models.Forced, 22, measure=MEASURES[3])
    with pytest.raises(AssertionError, match="unbiased"):
        check_unbiased(
            subject, [example], Report("is", "weighted"), runs=400, level=1e-6, tolerance=0.1
        )


def test_a_judge_is_read_without_power_and_proposal() -> None:
    """What a second context says is a factor of its own, not a part of the text."""
    toy = toy_of(TOKENS)
    measure = BaseMeasure(Measure(0.7, top_k=5), Measure(0.3), 2.0)

    async def ask() -> tuple[float, float, Any]:
        context = FollowerContext(measured(toy, measure), "p")
        log_p = await context.next_token().log_prob(0)
        context = FollowerContext(measured(toy, measure), "p")
        drawn, log_q = await context.next_token().sample()
        potential = FollowerPotential(measured(toy, measure), "p")
        return log_p, log_q - math.log(plain[drawn.token_id]), await potential.logw_next([])

    plain = kept(toy.probabilities("p"), measure.prior)
    log_p, gap, weights = asyncio.run(ask())
    assert math.exp(log_p) == pytest.approx(plain[0], rel=1e-5)
    assert gap == pytest.approx(0.0, abs=1e-5)
    assert np.exp(weights.weights[:-1]) == pytest.approx(plain[: len(TOKENS)], rel=1e-5)


PROGRAM = """
class InferenceModel(BaseModel):
    @classmethod
    def prior_prompt(cls):
        return "p"

    @classmethod
    def proposal_prompt(cls):
        return "q"

    async def step(self):
        await self.next_char("ab")
        if len(self.text) == 2:
            await self.next_token()
            await self.end()
"""


@pytest.mark.parametrize("measure", [PLAIN, *MEASURES], ids=str)
def test_a_worker_gives_what_this_process_gives(measure: BaseMeasure) -> None:
    found = []
    for sandbox in ("process", "none"):
        # A follower of its own: what another run has made known decides how batches are rounded.
        follower = ToyFollower.random(1, ("a", "b", "ab"))
        found.append(
            run_program(PROGRAM, follower=follower, n=24, seed=2, sandbox=sandbox, measure=measure)
        )
    for one, other in zip(found[0].particles, found[1].particles, strict=True):
        assert one.text == other.text
        assert one.log_weight == pytest.approx(other.log_weight, abs=1e-5)
    assert [r.measure for r in found] == [measure.to_dict()] * 2


@pytest.mark.parametrize("method", ["force", "force_chars"])
def test_a_forced_text_that_is_cut_off_names_the_measure(method: str) -> None:
    source = f"""
class InferenceModel(BaseModel):
    async def step(self):
        await self.{method}("c")
        self.finish()
"""
    toy = ToyFollower(lambda prompt, text: {"a": 0.6, "b": 0.3, "c": 0.05, "": 0.05})
    with pytest.raises(Exception, match=r"no probability.*under the base measure \(top_k=2\)"):
        run_program(source, follower=toy, n=2, sandbox="none", measure={"top_k": 2})


def test_equal_logits_are_never_told_apart() -> None:
    toy = ToyFollower(lambda prompt, text: {"a": 0.25, "b": 0.25, "c": 0.25, "": 0.25})
    for measure in (Measure(top_k=1), Measure(top_p=0.2), Measure(top_k=2, top_p=0.1)):
        found = row(toy, BaseMeasure(measure), Role.PRIOR)
        # The end of text has two ids, each of half the probability.
        assert found[:3] == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("spread", [0.01, 1.0, 4.0])
def test_a_nucleus_of_a_large_vocabulary(spread: float) -> None:
    """Small ones are found among the likeliest tokens, large ones by sorting all of them."""
    import torch

    from disciple_ext.follower.engine.warping import warped

    rng = np.random.default_rng(1)
    logits = rng.normal(size=(3, 5000)) * spread * np.array([[1.0], [2.0], [0.5]])
    for measure in (*PRIORS, Measure(top_p=0.999), Measure(top_k=300, top_p=0.99)):
        how = BaseMeasure(measure, None, 1.5).row(Role.PRIOR)
        made, log_z = warped(torch.from_numpy(logits).float(), range(3), [how] * 3)
        assert log_z is not None
        for line, out, z in zip(logits, made.double(), log_z, strict=True):
            p = np.exp(line - line.max())
            wanted = prior_row(p / p.sum(), BaseMeasure(measure, None, 1.5))
            found = torch.softmax(out, -1).numpy() * math.exp(z)
            # float32 may tell the last token of a nucleus from the next otherwise than float64.
            assert abs(int((found > 0).sum()) - int((wanted > 0).sum())) <= 1
            assert found.sum() == pytest.approx(wanted.sum(), rel=1e-3)


def test_the_logits_of_a_backend_are_left_as_they_are() -> None:
    import torch

    from disciple_ext.follower.engine.warping import warped

    logits = torch.randn(2, 50)
    before = logits.clone()
    how = BaseMeasure(Measure(top_p=0.5), Measure(top_k=3), 2.0).row(Role.PROPOSAL)
    warped(logits, [0, 1], [how, how])
    assert torch.equal(logits, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "temperature must be a number above 0"),
        ({"temperature": math.nan}, "temperature must be"),
        ({"top_p": 1.2}, "top_p must be"),
        ({"top_k": 0}, "top_k must be a whole number from 1 on"),
        ({"top_k": 2.5}, "top_k must be"),
        ({"min_p": -0.1}, "min_p must be"),
        ({"alpha": 0}, "alpha must be"),
        ({"alpha": 0, "proposal_top_k": 3}, "alpha must be"),
        ({"proposal_top_p": "all"}, "top_p must be"),
        ({"heat": 1}, "no option 'heat'"),
    ],
)
def test_what_is_out_of_range_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PLAIN.but(options)
    with pytest.raises(UsageError, match=message):
        run_program(PROGRAM, follower="no such follower", measure=options)


def test_what_is_not_said_is_kept() -> None:
    base = BaseMeasure(Measure(0.7))
    assert base.but({}) == base
    assert base.but({"top_p": 0.9}) == BaseMeasure(Measure(0.7, 0.9))
    power = base.but({"alpha": 2, "proposal_top_k": 9})
    # The proposal of a power is that of its temperature over alpha.
    assert power == BaseMeasure(Measure(0.7), Measure(0.35, top_k=9), 2.0)
    assert BaseMeasure.from_dict(power.to_dict()) == power
    assert str(PLAIN) == "temperature=1"


def test_a_follower_that_only_answers_is_refused() -> None:
    toy = toy_of(TOKENS)

    class Asked:
        name, vocabulary, prompt, ask = "asked", toy.vocabulary, toy.prompt, toy.ask

    plain = run_program(PROGRAM, follower=Asked(), n=2, sandbox="none")
    assert plain.measure == PLAIN.to_dict()
    with pytest.raises(UsageError, match="'asked' answers requests by itself"):
        run_program(PROGRAM, follower=Asked(), n=2, sandbox="none", measure={"temperature": 0.5})


def test_a_followers_own_measure_is_the_default() -> None:
    toy = toy_of(TOKENS)
    toy.base_measure = BaseMeasure(Measure(0.7))
    by_itself = run_program(PROGRAM, follower=toy, n=2, sandbox="none")
    other = run_program(PROGRAM, follower=toy, n=2, sandbox="none", measure={"temperature": 1})
    whole = run_program(PROGRAM, follower=toy, n=2, sandbox="none", measure=BaseMeasure(power=2))
    assert by_itself.measure["prior"]["temperature"] == 0.7
    assert other.measure == PLAIN.to_dict()
    assert whole.measure == BaseMeasure(power=2).to_dict()
