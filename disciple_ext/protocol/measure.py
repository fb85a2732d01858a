"""The base measure: which distribution of texts the constraints are put on.

A follower's next-token distribution may be changed in two ways before anything is asked of it. A
:class:`Measure` changes each distribution by itself (temperature, top-k, top-p, min-p), and the
power of a :class:`BaseMeasure` the density of the whole text. The prior's is the target; the
proposal's only says how texts are found, and the weights make up for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

from ..errors import UsageError

__all__ = ["OPTIONS", "PLAIN", "BaseMeasure", "Measure", "Role", "RowMeasure", "SPARE"]

SPARE = 0.05
"""Share of a truncated proposal that is drawn from the whole distribution: a defensive mixture
(Hesterberg 1995; Owen and Zhou 2000), without which what it cuts off could never be drawn."""

_HIGHEST = 100.0
"""Of a temperature and of a power: beyond it all is even, or all is rounding."""


def _need(name: str, value: Any, lowest: float | None, highest: float) -> None:
    """Hold a value to its range; a lowest of None is 0, exclusive."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # Written so that NaN is out of range.
    if not (number and value <= highest and (value > 0 if lowest is None else value >= lowest)):
        least = "above 0" if lowest is None else f"at least {lowest:g}"
        raise UsageError(f"{name} must be a number {least} and at most {highest:g}, not {value!r}")


def _spelled(value: float) -> str:
    return f"{value:g}"


class Role(IntEnum):
    """What a distribution is asked for.

    ``PRIOR`` is the target's: logs of ``p(v) ** power``, which sum to 1 at power 1 alone.
    ``PROPOSAL`` is the proposal's where the prior has a context of its own, ``SHARED`` where one
    context is both; they are normalised. ``PLAIN`` is the prior's without the power, for contexts
    that are no part of the text: a judge, a second voice.
    """

    PRIOR = 0
    PROPOSAL = 1
    SHARED = 2
    PLAIN = 3


class RowMeasure(NamedTuple):
    """How one distribution is made of logits, where dividing them is not all.

    Attributes:
        temperature: divides the logits, first.
        top_k: the likeliest tokens kept, or 0 for all.
        top_p: of these, the likeliest kept that together have this much.
        min_p: of these, those kept that have this share of the likeliest's probability.
        power: of what is left; it is normalised before and after.
        spare: where above 0, the result is mixed with :data:`SPARE` of the distribution whose
            logits are divided by this.
    """

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    power: float
    spare: float


@dataclass(frozen=True)
class Measure:
    """A map of next-token distributions: temperature, then top-k, then top-p, then min-p.

    The order is that of the warpers of transformers, and each looks at what the one before left,
    normalised. Tokens as likely as the last one that is kept are kept, too, so that equal logits
    are never told apart by their ids.

    Attributes:
        temperature: divides the logits; above 0 and at most 100. A context's own ``temp``
            multiplies it.
        top_p: share of the probability that is kept, from 0 (exclusive) to 1.
        top_k: tokens that are kept, or None for all.
        min_p: share of the likeliest token's probability that a token must have, from 0 to 1.

    Raises:
        UsageError: a value is out of range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float = 0.0

    def __post_init__(self) -> None:
        for name, lowest, highest in (
            *(("temperature", None, _HIGHEST), ("top_p", None, 1.0)),
            ("min_p", 0.0, 1.0),
        ):
            _need(name, getattr(self, name), lowest, highest)
        k = self.top_k
        if k is not None and (not isinstance(k, int) or isinstance(k, bool) or k < 1):
            raise UsageError(f"top_k must be a whole number from 1 on, not {k!r}")
        # 1 and 1.0 are one measure, and are written alike.
        for name in ("temperature", "top_p", "min_p"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def truncates(self) -> bool:
        """Whether some token may lose all of its probability."""
        return self.top_p < 1.0 or self.top_k is not None or self.min_p > 0.0

    def __str__(self) -> str:
        return ", ".join(f"{k}={_spelled(v)}" for k, v in self._said()) or "temperature=1"

    def _said(self) -> list[tuple[str, float | int]]:
        plain = Measure.__dataclass_fields__
        named = ((name, getattr(self, name)) for name in plain)
        return [(name, value) for name, value in named if value != plain[name].default]


@dataclass(frozen=True)
class BaseMeasure:
    """What texts are distributed by before any constraint, and what they are drawn from.

    The target is proportional to ``p(text) ** power`` times the constraints, where ``p(text)`` is
    the product of its tokens' probabilities under ``prior``.

    Attributes:
        prior: of the target.
        proposal: of the proposal; None for the prior's, power included.
        power: alpha, above 0 and at most 100.

    Raises:
        UsageError: the power is out of range.
    """

    prior: Measure = Measure()
    proposal: Measure | None = None
    power: float = 1.0

    def __post_init__(self) -> None:
        _need("alpha", self.power, None, _HIGHEST)
        object.__setattr__(self, "power", float(self.power))

    @property
    def split(self) -> bool:
        """Whether one context has other numbers as the prior than as the proposal."""
        return self.power != 1.0 or self.proposal not in (None, self.prior)

    @property
    def slack(self) -> float:
        """By how much the sum of a prior's distribution may exceed 1.

        At a power a below 1 the sum of n numbers, which together are at most 1, each to the power
        of a, is at most ``n ** slack`` (the power mean inequality).
        """
        return max(0.0, 1.0 - self.power)

    def row(self, role: Role, temperature: float = 1.0) -> float | RowMeasure:
        """How the distribution of a role is made: a temperature, where that is all.

        Args:
            role: what it is asked for.
            temperature: the context's own, which multiplies the measure's.
        """
        return _row(self, role, temperature)

    def but(self, options: Mapping[str, Any]) -> BaseMeasure:
        """This measure with what the options say (:data:`OPTIONS`).

        What is said of the proposal makes it one apart; what is not said of it is the prior's,
        but for its temperature, which is the prior's over alpha.

        Raises:
            UsageError: an option is unknown, or its value is out of range.
        """
        for name in options:
            if name not in OPTIONS:
                known = ", ".join(OPTIONS)
                raise UsageError(f"the base measure has no option {name!r}; there are: {known}")
        of_prior = {k: v for k, v in options.items() if k in Measure.__dataclass_fields__}
        own = {k.removeprefix(_OWN): v for k, v in options.items() if k.startswith(_OWN)}
        prior = replace(self.prior, **of_prior)
        power = options.get("alpha", self.power)
        proposal = self.proposal
        if own:
            # Checked before it divides.
            whole = BaseMeasure(prior, None, power)
            like = proposal or replace(prior, temperature=min(100.0, prior.temperature / power))
            return replace(whole, proposal=replace(like, **own))
        return BaseMeasure(prior, proposal, power)

    def to_dict(self) -> dict[str, Any]:
        """The measure as JSON-safe data."""
        return {
            "prior": _dict(self.prior),
            "proposal": None if self.proposal is None else _dict(self.proposal),
            "power": self.power,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BaseMeasure:
        """Read back what :meth:`to_dict` wrote."""
        proposal = data["proposal"]
        return cls(
            Measure(**data["prior"]),
            None if proposal is None else Measure(**proposal),
            data["power"],
        )

    def __str__(self) -> str:
        parts = [str(self.prior)]
        if self.power != 1.0:
            parts.append(f"alpha={_spelled(self.power)}")
        if self.proposal is not None:
            parts.append(f"proposal: {self.proposal}")
        return ", ".join(parts)


PLAIN = BaseMeasure()
"""The model as it is."""

_OWN = "proposal_"
OPTIONS = (
    *("temperature", "top_p", "top_k", "min_p", "alpha"),
    *(f"{_OWN}{name}" for name in ("temperature", "top_p", "top_k", "min_p")),
)
"""Names by which a measure is given in specs, in ``measure={...}``, and as flags."""


@lru_cache(maxsize=1024)
def _row(measure: BaseMeasure, role: Role, temperature: float) -> float | RowMeasure:
    prior, proposal, power = measure.prior, measure.proposal, measure.power
    if role == Role.PLAIN:
        return _made(prior, temperature, 1.0, 0.0)
    apart = proposal not in (None, prior) or (proposal is not None and power != 1.0)
    if role == Role.PRIOR or (role == Role.SHARED and not apart):
        return _made(prior, temperature, power, 0.0)
    # The spare part is the prior's own without its cuts, so that no weight exceeds 1 / SPARE where
    # both have one context.
    spare = prior.temperature * temperature / power
    if proposal is None or not apart:
        return _made(prior, temperature, power, spare if prior.truncates else 0.0)
    return _made(proposal, temperature, 1.0, spare if proposal.truncates else 0.0)


def _made(measure: Measure, temperature: float, power: float, spare: float) -> float | RowMeasure:
    temperature = measure.temperature * temperature
    if not measure.truncates and power == 1.0:
        return temperature
    top_k, top_p, min_p = measure.top_k or 0, measure.top_p, measure.min_p
    return RowMeasure(temperature, top_k, top_p, min_p, power, spare)


def _dict(measure: Measure) -> dict[str, Any]:
    return {name: getattr(measure, name) for name in Measure.__dataclass_fields__}
