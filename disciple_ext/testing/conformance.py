"""``check_sampler(MySampler())``: a sampler is what it says, on models known exactly."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..errors import SamplerError
from ..samplers.base import Sampler
from .contract import check_contract
from .models import EXAMPLES
from .proper import check_convergence, check_unbiased
from .subject import Report, Subject

__all__ = ["FALSE_ALARMS", "check_sampler"]

FALSE_ALARMS = 1e-6
"""Probability, at most, that the suite rejects a right sampler, over the choice of the seed."""

_CONVERGENCE = ("EarlyAndLate", "Everything", "Twists")
_SHARE = 0.49  # of the false alarms for each of the two statistical parts; the rest for accidents


def check_sampler(
    sampler: Sampler | Callable[[], Sampler],
    *,
    n: int = 3,
    seed: int = 0,
    quick: bool = False,
    condition: bool = False,
    convergence: bool = True,
    slack: float = 1.0,
) -> Report:
    """Hold a sampler to its contract, and a weighted one to proper weighting.

    For both kinds: the population's form, log weights without NaN, no exception where every
    particle dies, equal results for equal seeds, limits, cancellation, finished particles left
    alone, clones that share nothing. For kind ``"weighted"`` also: unbiasedness on every model
    of :data:`disciple_ext.testing.models.EXAMPLES`, and an error that falls as N grows. What is
    tested and why is in the documentation, "Conformance". With a given seed the statistical
    outcome never changes.

    Args:
        sampler: an instance, used by many runs at a time, or what makes one (a class, say) for
            each run.
        n: particles of a run, at least 2; errors show most where they are few.
        seed: first seed.
        quick: a few seconds, and less power, with the same rate of false alarms.
        condition: whether the sampler conditions on ``check``, as rejection sampling does.
        convergence: whether the error must fall with N. Not so where N is only a limit.
        slack: factor by which the evidence may exceed the product over steps of the largest weight
            increment, which bounds it for samplers that step their particles together.

    Returns:
        What was checked, with the numbers; ``print`` it.

    Raises:
        ConformanceError: (an ``AssertionError``) it names the property, the model, the numbers.
        SamplerError: the sampler declares no name, or another kind than the two.
    """
    begun = time.monotonic()
    # A class has a `kind` as its instances have; another factory has none.
    made = isinstance(sampler, type) or not hasattr(sampler, "kind")
    make: Callable[[], Sampler] = sampler if made else lambda: sampler  # type: ignore[assignment, return-value]
    one = make()
    kind, name = getattr(one, "kind", None), getattr(one, "name", None)
    if kind not in ("weighted", "search") or not isinstance(name, str):
        raise SamplerError(f"a sampler's kind is 'weighted' or 'search': {name!r} is {kind!r}")
    subject = Subject(make, name, kind, n, seed, condition, slack)
    report = Report(name, kind)
    check_contract(subject, report)
    if kind == "search":
        for example in EXAMPLES:
            subject.runs(example, range(seed, seed + (5 if quick else 20)))
            report.add("finished", example.name, "and clones, weights and the population's form")
    else:
        level = _SHARE * FALSE_ALARMS
        runs, tolerance = (100, 0.2) if quick else (400, 0.1)
        check_unbiased(subject, EXAMPLES, report, runs=runs, level=level, tolerance=tolerance)
        if convergence:
            chosen = [e for e in EXAMPLES if e.name in _CONVERGENCE[: 1 if quick else None]]
            check_convergence(subject, chosen, report, runs=30 if quick else 100, level=level)
    report.seconds = time.monotonic() - begun
    return report
