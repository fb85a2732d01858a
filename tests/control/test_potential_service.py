"""Potentials of genlm-control in programs: exact targets, whatever draws the tokens."""

from __future__ import annotations

import asyncio
import math
from functools import cache
from typing import Any

import pytest

pytest.importorskip("genlm.control")

from genlm.control import AWRS, WCFG, WFSA, BoolCFG, BoolFSA, JsonSchema, Potential

from disciple_ext import BaseMeasure, Measure, run_program
from disciple_ext.control import FollowerPotential, PotentialService, units_of
from disciple_ext.errors import ServiceError, UsageError
from disciple_ext.protocol.adapters import measured
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.services import Services
from disciple_ext.testing import (
    ExactPosterior,
    ToyFollower,
    check_properly_weighted,
    exact_posterior,
    prior_masses,
)

from ..model.measured import prior_row

TOKENS = ["a", "b", "ab", "é".encode()[:1], "é".encode()[1:]]
TOY = ToyFollower.random(1, TOKENS)
HEAD = """
class InferenceModel(BaseModel):
    @classmethod
    def prior_prompt(cls):
        return "p"

    @classmethod
    def proposal_prompt(cls):
        return "q"

    async def step(self):
"""
DRAWS = f"""{HEAD}
        if self.context.token_count == 3:
            await self.end()
        else:
            await self.draw_with("it")
"""
WEIGHS = f"""{HEAD}
        await self.weigh("it")
        if self.context.token_count == 3 or await self.wants_to_end():
            await self.end()
        else:
            await self.next_token()
"""


class Length(Potential):
    """A potential of a user's own, over characters."""

    def __init__(self) -> None:
        super().__init__(list("abé"))

    async def prefix(self, context: Any) -> float:
        return 0.3 * len(context)

    async def complete(self, context: Any) -> float:
        return 0.3 * len(context) - (1.0 if len(context) == 2 else 0.0)


@cache
def potential(name: str) -> Any:
    return {
        "regex": lambda: BoolFSA.from_regex("a(a|b)*b"),
        "weighted": lambda: WFSA.from_regex("(a|b)*b"),
        "product": lambda: BoolFSA.from_regex("a(a|b)*b") * WFSA.from_regex("(a|b)*b"),
        "accents": lambda: BoolFSA.from_regex("(a|é)+", charset=set("abé")),
        "grammar": lambda: BoolCFG.from_lark('start: "a" start "b" | "ab"'),
        "weighted grammar": lambda: WCFG.from_string(
            "1.0: S -> A B\n0.4: A -> a\n0.6: A -> a A\n1.0: B -> b"
        ),  # noqa: E501
        "characters": Length,
        "another follower": lambda: FollowerPotential(ToyFollower.random(8, TOKENS), "r"),
        "json": lambda: JsonSchema({"type": "object"}),
    }[name]()


class Under(ToyFollower):
    """The toy's own probabilities as the target has them."""

    def __init__(self, measure: BaseMeasure) -> None:
        self.vocabulary, self.pieces, self._measure = TOY.vocabulary, TOY.pieces, measure

    def probabilities(self, prompt: str, text: Any = (), hint: str = "") -> Any:
        return prior_row(TOY.probabilities(prompt, text), self._measure)


@cache
def exact(
    name: str,
    power: float = 1.0,
    measure: BaseMeasure = BaseMeasure(),  # noqa: B008
) -> ExactPosterior:
    """The prior's mass of each text of up to three tokens, times the potential's weight."""
    phi = potential(name)
    llm = FollowerPotential(TOY, "p")
    units = units_of(phi, llm.vocab)
    of = {bytes(token): token for token in llm.vocab}

    async def weights() -> dict[str, float]:
        masses: dict[str, float] = {}
        for pieces, mass in prior_masses(Under(measure), "p", 3).items():
            tokens = [of[p.encode() if isinstance(p, str) else p] for p in pieces]
            read = units(tokens)
            known = all(unit in phi.lookup for unit in read)
            log_weight = float(await phi.complete(read)) if known else -math.inf
            text = TOY.vocabulary.decode(t.token_id for t in tokens)
            masses[text] = masses.get(text, 0.0) + mass * math.exp(power * log_weight)
        return {text: mass for text, mass in masses.items() if mass > 0}

    return ExactPosterior(asyncio.run(weights()), ())


def serve(name: str, measure: BaseMeasure = BaseMeasure(), **options: Any) -> Any:  # noqa: B008
    services = Services({"it": PotentialService(potential(name), **options)})
    return services.serve(measured(TOY, measure))


@pytest.mark.parametrize("name", ["product"])
def test_weighing_gives_the_exact_target(name: str) -> None:
    enumerated = exact_posterior(WEIGHS, serve(name))
    assert enumerated.masses == pytest.approx(exact(name).masses, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "regex",
        "weighted",
        "characters",
        "another follower",
        "grammar",
        "weighted grammar",
        "accents",
        "json",
    ],
)
def test_weighing_by_slower_potentials_too(name: str) -> None:
    enumerated = exact_posterior(WEIGHS, serve(name))
    assert enumerated.masses == pytest.approx(exact(name).masses, rel=1e-4)
    assert bool(enumerated.masses) == (name != "json")


def test_a_temperature_divides_the_log_weights() -> None:
    enumerated = exact_posterior(WEIGHS, serve("weighted", temperature=2.0))
    assert enumerated.masses == pytest.approx(exact("weighted", 0.5).masses, rel=1e-4)


def held(name: str, sampler: Any, source: str = DRAWS, runs: int = 400, **options: Any) -> None:
    served = serve(name, sampler=sampler, **options)
    wanted = exact(name, 1.0 / options.get("temperature", 1.0))
    check_properly_weighted(SMCSampler(), source, served, n=4, runs=runs, exact=wanted)


def test_a_token_sampler_is_properly_weighted() -> None:
    held("regex", "awrs", runs=100)


@pytest.mark.parametrize("prompt", ["p", "q"])
@pytest.mark.parametrize(
    "measure",
    [
        BaseMeasure(Measure(0.8, top_k=6)),
        BaseMeasure(Measure(), None, 1.5),
        BaseMeasure(Measure(0.9), Measure(top_p=0.8), 0.8),
    ],
    ids=str,
)
def test_a_token_sampler_draws_under_the_base_measure(measure: BaseMeasure, prompt: str) -> None:
    source = DRAWS.replace('"q"', f'"{prompt}"')
    served = serve("weighted", measure, sampler="direct")
    wanted = exact("weighted", 1.0, measure)
    check_properly_weighted(SMCSampler(), source, served, n=4, runs=100, exact=wanted)


MORE: list[tuple[str, Any]] = [
    ("regex", "awrs"),
    ("regex", "direct"),
    ("regex", "eager"),
    ("regex", lambda llm, phi: AWRS(llm, phi, max_accepts=3, autobatch=False)),
    ("regex", lambda llm, phi: AWRS(llm, phi, max_rejects=2)),
    ("weighted", "direct"),
    ("weighted", "eager"),
    ("product", "eager"),
    ("product", "direct"),
    ("accents", "awrs"),
    ("grammar", None),
    ("weighted grammar", None),
    ("characters", None),
    ("another follower", None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sampler"), MORE, ids=lambda v: v if isinstance(v, str) else "")
def test_every_token_sampler_is_properly_weighted(name: str, sampler: Any) -> None:
    held(name, sampler)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["awrs", "eager", "direct"])
def test_hints_weighing_and_masks_beside_a_token_sampler(sampler: str) -> None:
    """Everything that moves a weight, in one program; the target is still prior x potential."""
    source = f"""{HEAD}
        if self.context.token_count == 3:
            await self.end()
            return
        await self.hint(str(len(self)))
        if self.context.token_count == 1:
            if await self.wants("a"):  # pending when the sampler draws
                self.score(0.0)
        if self.context.token_count == 2:
            await self.weigh("it")
            await self.weigh("it", twist=True)
            if await self.wants_to_end():
                await self.end()
                return
            async with MaxCharsMask(self, max_chars=9):
                await self.next_token()
        else:
            await self.draw_with("it")
"""
    held("regex", sampler, source)


def test_one_seed_gives_one_result_and_few_tokens_are_evaluated() -> None:
    class Counted(type(potential("regex"))):  # type: ignore[misc]
        asked = 0

        async def prefix(self, context: Any) -> float:
            Counted.asked += 1
            return float(await super().prefix(context))

    letters = ToyFollower.random(3, list("abcdefghijklmnopqrstuvwxyz") + ["ab", "ba", "abab"])
    phi = Counted.from_regex("[ab]*")

    def run(level: str, seed: int) -> list[tuple[str, float]]:
        service = PotentialService(phi)
        result = run_program(
            DRAWS, follower=letters, n=6, seed=seed, sandbox=level, services={"it": service}
        )
        assert {c for p in result.particles for c in p.text} <= set("ab")
        return [(p.text, p.log_weight) for p in result.particles]

    here = run("none", 1)
    assert Counted.asked < 6 * 3 * len(letters.vocabulary.tokens)  # of all, less than ... of them
    assert run("landlock+seccomp", 1) == here != run("none", 2)


def test_what_cannot_be_used_is_named() -> None:
    with pytest.raises(UsageError, match="no potential of genlm-control"):
        PotentialService("regex")
    with pytest.raises(
        UsageError, match="unknown token sampler 'best'; one of awrs, eager, direct"
    ):
        PotentialService(potential("regex"), sampler="best")
    with pytest.raises(UsageError, match="say with units="):
        units_of(Numbers(), FollowerPotential(TOY).vocab)
    service = PotentialService(potential("weighted"), sampler="awrs")
    with pytest.raises(ServiceError, match="whose log weights are 0 or -inf"):
        run_program(DRAWS, follower=TOY, n=2, sandbox="none", services={"it": service})


class Numbers(Length):
    def __init__(self) -> None:
        Potential.__init__(self, [(1, 2), (3, 4)])
