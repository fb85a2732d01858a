"""Potentials of the host's in a program: exact targets, by enumeration of every execution."""

from __future__ import annotations

import math
from typing import Any

import pytest

from disciple_ext.errors import ProgramCrashed, ServiceError
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.services import Score, Services
from disciple_ext.testing import ToyFollower, check_properly_weighted, exact_posterior, prior_masses


def phi(text: str) -> float:
    """A log weight that grows and falls along a text, with a zero."""
    if "cc" in text:
        return -math.inf
    return 0.9 * text.count("a") - 0.5 * text.count("b") + (0.7 if text.endswith("ab") else 0.0)


class Halves:
    """A potential whose beginnings and whole texts differ."""

    def __call__(self, payload: Any) -> float:
        return phi(payload["text"]) + (1.3 if payload["ended"] else 0.0)


def program(step: str, end: str = "await self.end()") -> str:
    return f"""
class InferenceModel(BaseModel):
    @classmethod
    def prior_prompt(cls):
        return "p"

    @classmethod
    def proposal_prompt(cls):
        return "q"

    async def step(self):
        {step}
        if self.context.token_count == 3 or self.text.endswith("b"):
            {end}
"""


TOY = ToyFollower.random(5)
SERVED = Services({"phi": Score(phi), "half": Score(phi, 2.0), "halves": Halves()}).serve(TOY)


def wanted(weight: Any) -> dict[str, float]:
    """The prior's mass of each text that such a program ends, times its weight (linear)."""
    texts = {"".join(map(str, p)): m for p, m in prior_masses(TOY, "p", 3).items()}
    ends = {
        t: m for t, m in texts.items() if t and "b" not in t[:-1] and (len(t) == 3 or t[-1] == "b")
    }
    masses = {t: m * math.exp(weight(t)) for t, m in ends.items()}
    return {t: m for t, m in masses.items() if m > 0}


@pytest.mark.parametrize(
    ("step", "end", "weight"),
    [
        # Weighed at each step, at the end alone, twice over, and by two potentials at once.
        ("await self.next_token(); await self.weigh('phi')", "await self.end()", phi),
        ("await self.next_token()", "await self.end(); await self.weigh('phi')", phi),
        ("await self.next_token(); await self.weigh('halves'); await self.weigh('halves')",
         "await self.end()", lambda t: phi(t) + 1.3),
        ("await self.next_token(); await self.weigh('half'); await self.weigh('halves')",
         "await self.end()", lambda t: 1.5 * phi(t) + 1.3),
        # A twist leaves nothing, unless the text is weighed in the end.
        ("await self.next_token(); await self.weigh('phi', twist=True)", "await self.end()",
         lambda t: -math.inf if "cc" in t else 0.0),
        ("await self.next_token(); await self.weigh('phi', twist=True)",
         "await self.end(); await self.weigh('phi')", phi),
    ],
)  # fmt: skip
def test_a_potential_gives_its_exact_target(step: str, end: str, weight: Any) -> None:
    exact = exact_posterior(program(step, end), SERVED)
    assert exact.masses == pytest.approx(wanted(weight), rel=1e-5)


def test_the_same_matter_is_another_potential_of_its_own() -> None:
    step = "await self.next_token(); await self.weigh('x', 'one'); await self.weigh('x', 'two')"
    seen = Score(lambda text, about: len(text) * len(about) / 10, about=True)
    exact = exact_posterior(program(step), Services({"x": seen}).serve(TOY))
    assert exact.masses == pytest.approx(wanted(lambda t: 0.6 * len(t)), rel=1e-5)


@pytest.mark.parametrize("how", [pytest.param("", marks=pytest.mark.slow), ", twist=True"])
def test_smc_is_properly_weighted_by_a_potential(how: str) -> None:
    source = program(
        f"await self.next_token(); await self.weigh('phi'{how})",
        "await self.end(); await self.weigh('phi')",
    )
    check_properly_weighted(SMCSampler(1.0), source, SERVED, n=3, runs=150)


@pytest.mark.parametrize(
    ("line", "error", "said"),
    [
        ("await self.weigh('nobody')", ProgramCrashed, "there are: 'list', 'nan', 'rude'"),
        ("await self.weigh('list')", ProgramCrashed, "gives no log weight of a text, but \\[1\\]"),
        ("await self.weigh('nan')", ProgramCrashed, "a log weight of nan"),
        ("await self.draw_with('list')", ProgramCrashed, "draws no tokens"),
        ("await self.weigh('rude')", ServiceError, "the service 'rude' failed: OSError: no"),
    ],
)
def test_what_a_program_gets_wrong_and_what_a_service_does(
    line: str, error: type[Exception], said: str
) -> None:
    from disciple_ext import run_program

    def rude(payload: Any) -> Any:
        raise OSError("no")

    services = {"list": lambda p: [1], "nan": lambda p: math.nan, "rude": rude}
    with pytest.raises(error, match=said) as caught:
        run_program(program(line), follower=TOY, sandbox="none", n=2, services=services)
    if error is ProgramCrashed:
        assert caught.value.line == 12  # type: ignore[attr-defined]
    else:
        assert caught.value.service == "rude"  # type: ignore[attr-defined]
