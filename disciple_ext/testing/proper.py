"""The statistical half of the suite: proper weighting, and convergence in N.

Proper weighting (Naesseth, Lindsten and Schon 2019, "Elements of sequential Monte Carlo", arXiv
1903.04797, section 4; Liu 2001): for each test function f, the expectation of the evidence times
the weighted average of f is the integral of f under the unnormalised target, at any N.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..samplers import weights as weighting
from ..samplers.base import Population
from .betting import Bet, MeanTest
from .models import Example
from .subject import Report, Subject

__all__ = ["check_convergence", "check_unbiased"]

_BATCH = 50
_SIGNS = 3
_FEW, _MANY = 2, 50
_SHRINKS = 0.5


def check_unbiased(
    subject: Subject,
    examples: Sequence[Example],
    report: Report,
    *,
    runs: int,
    level: float,
    tolerance: float,
) -> None:
    """Hold a sampler to proper weighting on each model, round by round.

    The functions are 1, the length of the text, and for three random signs the indicators of
    plus and minus. A model is done once every mean is shown to be within the tolerance.

    Args:
        subject: the sampler.
        examples: the models.
        report: gets a line for each.
        runs: runs of each model at most.
        level: probability that a right sampler fails anywhere here.
        tolerance: of the evidence: nearer than that, a mean needs no more runs.

    Raises:
        ConformanceError: it is not properly weighted.
    """
    trials = [_Trial(subject, e, tolerance) for e in examples]
    # The union bound: each mean has two sides on which it may be rejected by accident.
    tests = sum(2 * len(t.tests) for t in trials)
    left = list(trials)
    for begin in range(0, runs, _BATCH):
        seeds = range(subject.seed + begin, subject.seed + min(begin + _BATCH, runs))
        for trial in list(left):
            trial.add(subject.runs(trial.example, seeds), math.log(tests / level))
            # Stopping here costs some power; with tests by betting it raises no false alarm.
            if trial.close:
                left.remove(trial)
    for trial in trials:
        report.add("unbiased", trial.example.name, trial.summary)


class _Trial:
    """One model: the functions, and a test for each."""

    def __init__(self, subject: Subject, example: Example, tolerance: float) -> None:
        self.subject, self.example = subject, example
        self.exact = example.exact(subject.condition)
        self.bound = self.exact.bound * subject.slack
        self.longest = max(map(len, self.exact.masses), default=1) or 1
        texts = np.array([self.functions(text) for text in self.exact.masses])
        masses = np.array(list(self.exact.masses.values()))
        self.wanted = masses @ texts if len(masses) else np.zeros(len(_NAMES))
        scale = self.exact.evidence or self.bound
        self.tests = [MeanTest(m, self.bound, tolerance * scale) for m in self.wanted]
        self.values: list[NDArray[np.float64]] = []

    def functions(self, text: str) -> list[float]:
        """The test functions on a text, each from 0 to 1."""
        signs = [_sign(i, text) for i in range(_SIGNS)]
        # A sign as two indicators: the bets need values that are not below zero.
        return [1.0, len(text) / self.longest, *(s for p in signs for s in (p, 1.0 - p))]

    def add(self, populations: Sequence[Population], threshold: float) -> None:
        """Test further runs."""
        values = np.array([self.estimate(p) for p in populations])
        self.values.extend(values)
        for name, wanted, test, column in zip(
            _NAMES, self.wanted, self.tests, values.T, strict=True
        ):
            test.add(column)
            if test.log_evidence > threshold:
                seen = np.array(self.values)[:, _NAMES.index(name)]
                raise self.subject.fail(
                    "unbiased",
                    self.example.name,
                    f"for f = {name} the mean of evidence x average over {len(seen)} runs of "
                    f"n={self.subject.n} is {seen.mean():.5g} (standard error "
                    f"{seen.std() / math.sqrt(len(seen)):.2g}), the exact {wanted:.5g}; a right "
                    f"sampler would look so with probability {math.exp(-test.log_evidence):.1g}",
                )

    def estimate(self, population: Population) -> NDArray[np.float64]:
        """Evidence times the weighted average of each function."""
        assert population.log_evidence is not None
        # `exp` overflows from 710 on, and a wrong sampler may give any number.
        model, total = self.example.name, math.exp(min(700.0, population.log_evidence))
        # Some room for rounding, since a right sampler can reach the bound.
        if total > self.bound * 1.001:
            what = f"the evidence is {total:.5g}; no average of weights exceeds {self.bound:.5g}"
            raise self.subject.fail("unbiased", model, what)
        shares = weighting.normalise([p.weight for p in population.particles])
        average = np.zeros(len(_NAMES))
        for share, particle in zip(shares, population.particles, strict=True):
            if share > 0.0 and total > 0.0:
                text = str(particle)
                if text not in self.exact.masses:
                    what = f"the text {text!r} has weight, and the target gives it none"
                    raise self.subject.fail("unbiased", model, what)
                average += share * np.array(self.functions(text))
        return average * total

    @property
    def close(self) -> bool:
        """Whether every mean is shown to be near enough."""
        return all(test.close for test in self.tests)

    @property
    def summary(self) -> str:
        """The numbers of f = 1."""
        x = np.array(self.values)[:, 0]
        error = x.std() / math.sqrt(len(x))
        return f"evidence {x.mean():.4g} +- {error:.1g}, exact {self.wanted[0]:.4g}, {len(x)} runs"


def check_convergence(
    subject: Subject, examples: Sequence[Example], report: Report, *, runs: int, level: float
) -> None:
    """Hold the normalised estimates to an error that falls as N grows.

    The mean error of the test functions' averages at N = 50 must be at most half of the one at
    N = 2 (independent particles: a fifth). Where no particle is alive the error is 1.

    Raises:
        ConformanceError: the error does not fall.
    """
    for example in examples:
        trial = _Trial(subject, example, 0.1)
        wanted = trial.wanted / trial.exact.evidence
        # Errors are from 0 to 1, so that the excess is not below -_SHRINKS.
        worse = Bet(0.0, -_SHRINKS)
        few: list[float] = []
        many: list[float] = []
        for begin in range(0, runs, 10):
            seeds = range(subject.seed + begin, subject.seed + begin + 10)
            for n, errors in ((_FEW, few), (_MANY, many)):
                errors.extend(_error(trial, wanted, p) for p in subject.runs(example, seeds, n))
            excess = np.array(many) - _SHRINKS * np.array(few)
            worse.add(excess[-10:])
            what = f"error {np.mean(few):.3g} at n={_FEW}, {np.mean(many):.3g} at n={_MANY}"
            if worse.log_wealth > math.log(len(examples) / level):
                raise subject.fail("convergence", example.name, what)
            if len(few) >= 20 and excess.mean() + 3.0 * excess.std() / math.sqrt(len(few)) < 0.0:
                break
        report.add("convergence", example.name, f"{what}, {len(few)} runs each")


def _error(trial: _Trial, wanted: NDArray[np.float64], population: Population) -> float:
    average = trial.estimate(population)
    return float(np.abs(average / average[0] - wanted).mean()) if average[0] > 0 else 1.0


def _sign(index: int, text: str) -> float:
    return float(hashlib.blake2b(f"{index}:{text}".encode()).digest()[0] & 1)


_NAMES = ["1", "length", *(f"sign {i} {s}" for i in range(_SIGNS) for s in "+-")]
