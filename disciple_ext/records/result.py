"""What a run gives back: particles with weights, the answer drawn from them, and how it came."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import UsageError
from . import notebook
from .particle import Particle

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Attempt", "Particle", "Result", "TraceRecord", "Usage"]

SCHEMA = 1


@dataclass(frozen=True)
class Usage:
    """What was spent: planner tokens by price class, follower tokens, forward passes."""

    planner_input: int = 0
    planner_cached: int = 0
    planner_output: int = 0
    follower_tokens: int = 0
    forwards: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Sum, field by field."""
        mine, theirs = asdict(self), asdict(other)
        return Usage(**{name: mine[name] + theirs[name] for name in mine})


@dataclass(frozen=True)
class Attempt:
    """One program of the outer loop and what became of it.

    Attributes:
        program: source of the program, or the empty string where the planner gave none.
        outcome: ``ok``; ``rejected`` where it ran and its texts would not do; or the name of the
            error's class.
        error: message of the error, or why the texts would not do, or None.
        traceback: traceback cut to the program's lines, or the empty string.
        seconds: wall-clock seconds of the run.
        usage: planner tokens of the call that gave the program; with the follower's tokens and
            forwards where the run came to its end.
        cost: US dollars of that call, or None where the tokens or their price are unknown.
        cached_answer: whether the planner's answer came from the cache or from a recording; it
            cost nothing then.
    """

    program: str
    outcome: str
    error: str | None = None
    traceback: str = ""
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    cached_answer: bool = False

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Attempt:
        """Read back what :func:`dataclasses.asdict` made."""
        return cls(**{**data, "usage": Usage(**data.get("usage", {}))})


class TraceRecord(Protocol):
    """What inference did, as a result carries it (:class:`disciple_ext.trace.record.Record`)."""

    data: dict[str, Any]

    def save(self, path: str | Path) -> None:
        """Write it to ``NAME.html`` (the viewer) or ``NAME.json``."""
        ...

    def show(self) -> None:
        """Open the viewer."""
        ...


@dataclass(frozen=True)
class Result:
    """The outcome of :func:`disciple_ext.self_steer`.

    Attributes:
        text: one particle's text, drawn in proportion to the weights among particles whose
            check passed, if any did, else among all; None where no particle is alive.
        text_rule: how ``text`` was drawn: ``weighted_passing``, ``weighted_all`` or ``none``.
        check: verdict of the program's check on ``text``.
        verified: verdict of the task's own verifier on ``text``, or None without one.
        particles: every particle, dead ones included, in the sampler's order.
        log_evidence: natural log of the estimated evidence; None where a method has none.
        ess: effective sample size of the final weights, in [0, n].
        program: ``source``, ``planner`` and ``hash`` of the program that ran.
        attempts: every program tried, in order.
        usage: tokens and forwards of all attempts.
        cost: US dollars of the planner's calls in all attempts, or None where the tokens or the
            price of one are unknown.
        seed: seed of the run.
        sandbox: the level asked for and the level witnessed.
        timings: wall-clock seconds by phase.
        measure: the base measure of its texts: ``prior``, ``proposal`` (None for the prior's) and
            ``power``, as :meth:`disciple_ext.protocol.measure.BaseMeasure.to_dict` has them.
        record: what inference did, where the run was traced, else None. It is no part of
            :meth:`to_dict`: ``record.save("run.html")`` keeps it.
    """

    text: str | None
    text_rule: str
    check: bool | None
    verified: bool | None
    particles: tuple[Particle, ...]
    log_evidence: float | None
    ess: float
    program: dict[str, str]
    attempts: tuple[Attempt, ...]
    usage: Usage
    cost: float | None
    seed: int
    sandbox: dict[str, Any]
    timings: dict[str, float] = field(default_factory=dict)
    measure: dict[str, Any] = field(default_factory=dict)
    record: TraceRecord | None = field(default=None, repr=False, compare=False)

    @property
    def passed(self) -> bool:
        """True where the answer passed every check there was (and there is an answer)."""
        return self.text is not None and self.check is not False and self.verified is not False

    @property
    def lost_mass(self) -> float:
        """The largest lost mass of a particle that is alive: a bound for weights and evidence."""
        alive = (p.lost_mass for p in self.particles if p.log_weight > -math.inf)
        return max(alive, default=0.0)

    @property
    def best(self) -> Particle | None:
        """The particle with the largest weight among those alive, or None."""
        alive = [p for p in self.particles if p.log_weight > -math.inf]
        return max(alive, key=lambda p: p.log_weight, default=None)

    def show(self) -> None:
        """Show what inference did: below the cell in a notebook, else in the browser.

        Raises:
            UsageError: the run was not traced.
        """
        if self.record is None:
            raise UsageError("this run was not traced: call self_steer(..., trace=True)")
        self.record.show()

    def to_dataframe(self) -> DataFrame:
        """The particles as a pandas data frame, one row each, the heaviest first.

        Raises:
            UsageError: pandas is not installed.
        """
        return notebook.dataframe(self.particles)

    def _repr_html_(self) -> str:
        """A summary for notebooks: the answer, and the texts with the most weight."""
        said = {True: "passed", False: "failed", None: "no check"}
        facts = [f"check: {said[self.check]}"]
        if self.verified is not None:
            facts.append(f"verifier: {said[self.verified]}")
        facts.append(f"ESS {self.ess:.1f} of {len(self.particles)}")
        if self.log_evidence is not None:
            facts.append(f"log evidence {self.log_evidence:.2f}")
        facts.append(f"seed {self.seed}")
        return notebook.summary(self.text, facts, self.particles, traced=self.record is not None)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-safe data, schema 1 (minus infinity is the string ``"-inf"``)."""
        # Without the record, which `asdict` would copy as a whole.
        data: dict[str, Any] = _json_safe(asdict(replace(self, record=None)))
        del data["record"]
        return {"schema": SCHEMA, **data}

    def to_json(self) -> str:
        """The result as one line of JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Result:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            ValueError: the data are of another schema.
        """
        if data.get("schema") != SCHEMA:
            raise ValueError(f"result schema {data.get('schema')!r}; this version reads {SCHEMA}")
        fields = {k: v for k, v in data.items() if k != "schema"}
        fields["particles"] = tuple(
            Particle(**{k: _number(k, v) for k, v in p.items()}) for p in fields["particles"]
        )
        fields["attempts"] = tuple(Attempt.from_dict(a) for a in fields["attempts"])
        fields["usage"] = Usage(**fields["usage"])
        fields["log_evidence"] = _number("log_evidence", fields["log_evidence"])
        return cls(**fields)


_LOGS = {"log_weight", "log_evidence", "log_prob"}


def _number(name: str, value: Any) -> Any:
    return float(value) if name in _LOGS and value is not None else value


def _json_safe(value: Any) -> Any:
    # JSON has no infinity; `float` reads the text back.
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: _json_safe(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_json_safe(v) for v in value]
    return value
