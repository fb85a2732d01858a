"""Programs as samplers of genlm-control's, against exact enumeration and its own SMC."""

from __future__ import annotations

import asyncio
import math
from typing import Any
from zlib import crc32

import numpy as np
import pytest

pytest.importorskip("genlm.control")

from genlm.control import EOS, SMC, BoolFSA, direct_token_sampler
from genlm.control.util import flatten_units

from disciple_ext.control import (
    FollowerPotential,
    PotentialService,
    ProgramSampler,
    ProgramSequences,
)
from disciple_ext.errors import UsageError
from disciple_ext.model.base import BaseModel
from disciple_ext.testing import ToyFollower, exact_posterior, prior_masses

TOY = ToyFollower.random(4, ["a", "b", "ab"])
REGEX = BoolFSA.from_regex("a(a|b)*b")
MOST = 3


class Free(BaseModel):
    """Up to three tokens, ended where the follower wants to."""

    @classmethod
    def prior_prompt(cls) -> str:
        return "p"

    @classmethod
    def proposal_prompt(cls) -> str:
        return "q"

    async def step(self) -> None:
        if self.context.token_count == MOST or await self.wants_to_end():
            await self.end()
        else:
            await self.next_token()


class Stateful(Free):
    """Scores by what it remembers of its own steps, twists, dies, and writes two tokens at once."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.seen: list[str] = []

    async def step(self) -> None:
        token = await self.next_token()
        if token == "a":
            token = await self.next_token()
        self.seen.append(str(token))
        self.twist(0.4 * len(self.seen))
        self.condition(self.text != "bb")
        if self.context.token_count >= MOST:
            self.score(0.7 * self.seen.count("b"))
            await self.end()


def texts(sequences: Any) -> list[tuple[str, float]]:
    return [
        (b"".join(flatten_units(context)[:-1]).decode(), float(w))
        for context, w in sequences
        if w > -math.inf
    ]


def held(run: Any, exact: dict[str, float], runs: int) -> None:
    """The mean of evidence x weighted average is the target's integral, within 6 errors."""

    async def all_runs() -> list[Any]:
        return [await run(seed) for seed in range(runs)]

    found = asyncio.run(all_runs())
    assert {t for s in found for t, _ in texts(s)} <= set(exact)
    for i in range(6):  # all texts, then each text with one of two signs
        sign = {text: -1.0 if i and crc32(f"{i}{text}".encode()) & 1 else 1.0 for text in exact}
        wanted = math.fsum(mass * sign[text] for text, mass in exact.items())
        estimates = [math.fsum(math.exp(w) * sign[t] for t, w in texts(s)) / s.size for s in found]
        mean, error = np.mean(estimates), np.std(estimates, ddof=1) / math.sqrt(runs)
        assert abs(mean - wanted) <= 6 * error, (i, mean, wanted, error)


def sampler_of(program: type[BaseModel], critic: Any = None, ess: float = 0.8) -> Any:
    import torch

    unit_sampler = ProgramSampler(program, TOY, seed=1)

    async def run(seed: int) -> Any:
        torch.manual_seed(seed)
        np.random.seed(seed)
        return await SMC(unit_sampler, critic)(4, ess, 10)

    return run


def constrained() -> dict[str, float]:
    masses: dict[str, float] = {}
    for pieces, mass in prior_masses(TOY, "p", MOST).items():
        text = "".join(map(str, pieces))
        log_weight = asyncio.run(REGEX.complete(text.encode()))
        if log_weight > -math.inf:
            masses[text] = masses.get(text, 0.0) + mass
    return masses


def critic() -> Any:
    return REGEX.coerce(FollowerPotential(TOY, "p"), f=lambda c: b"".join(flatten_units(c)))


def test_a_program_is_a_properly_weighted_token_sampler() -> None:
    held(sampler_of(Stateful), exact_posterior(Stateful, TOY).masses, 50)


@pytest.mark.slow
def test_a_program_under_a_critic_has_the_target_of_genlms_own_smc() -> None:
    import torch

    exact = constrained()
    held(sampler_of(Free, critic()), exact, 400)

    async def their_own(seed: int) -> Any:
        torch.manual_seed(seed)
        np.random.seed(seed)
        llm = FollowerPotential(TOY, "p")
        return await SMC(direct_token_sampler(llm), critic())(4, 0.8, MOST + 1)

    held(their_own, exact, 400)


WEIGHED = """
class InferenceModel(BaseModel):
    @classmethod
    def prior_prompt(cls):
        return "p"

    async def step(self):
        await self.weigh("regex")
        if self.context.token_count == 3 or await self.wants_to_end():
            await self.end()
        else:
            await self.next_token()
"""


@pytest.mark.slow
def test_a_program_as_a_sequence_sampler_has_the_target_of_genlms_own_smc() -> None:
    services = {"regex": PotentialService(REGEX)}
    sample = ProgramSequences(WEIGHED, follower=TOY, services=services)
    held(lambda seed: sample(4, 0.8, seed=seed), constrained(), 150)


def test_sequences_are_genlms() -> None:
    services = {"regex": PotentialService(REGEX)}
    sample = ProgramSequences(WEIGHED, follower=TOY, services=services, sandbox="none")
    sequences = asyncio.run(sample(200, seed=1))
    exact = constrained()
    assert sequences.contexts[0][-1] is EOS and len(sequences) == 200
    assert sequences.log_ml == pytest.approx(math.log(math.fsum(exact.values())), abs=0.3)
    assert {text for text in sequences.decoded_posterior} <= set(exact)


def test_a_follower_is_a_potential() -> None:
    """genlm-control's own checks of the contract, and the end that a token budget forces."""
    llm = FollowerPotential(TOY, "p")
    context = [llm.vocab[0], llm.vocab[2]]

    async def everything() -> None:
        await llm.assert_logw_next_consistency(context, rtol=1e-4, atol=1e-5, verbosity=0)
        await llm.assert_autoreg_fact(context, rtol=1e-4, atol=1e-5, verbosity=0)
        sampler = ProgramSampler(Free, TOY)
        unit, weight, _ = await sampler.sample([])
        while unit == [EOS]:  # a text may end at once
            unit, weight, _ = await sampler.sample([])
        assert weight > -math.inf
        assert await sampler.logw_eos([unit]) == pytest.approx(await llm.logw_eos(unit), abs=1e-5)

    asyncio.run(everything())


def test_untrusted_sources_and_foreign_units_are_refused() -> None:
    with pytest.raises(UsageError, match="with all its rights.*sandbox='none'"):
        ProgramSampler(WEIGHED, TOY)
    sampler = ProgramSampler(WEIGHED, TOY, sandbox="none")
    with pytest.raises(ValueError, match="units that this sampler has sampled"):
        asyncio.run(sampler.sample([[b"a"]]))
    with pytest.raises(ValueError, match="no draw that could be replaced"):
        asyncio.run(sampler.sample([], draw=max))
