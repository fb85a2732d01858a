"""One run of a program as compact, bounded data: a part of :class:`disciple_ext.trace.Record`."""

from __future__ import annotations

import json
import math
import time
from typing import Any, NamedTuple

from ..records.deltas import Interned, Origin, PreviousTexts, WeightSource, source_key
from ..records.events import (
    Event,
    ParticleFinished,
    ParticleState,
    PopulationGiven,
    ProgramPrinted,
    Resampled,
    RunFinished,
    RunStarted,
    StepDone,
    WeightChange,
)
from ..text.shorten import shortened

__all__ = ["RunRecorder", "clean"]

_LONGEST = 20_000
"""Characters of one text."""
_MOST_STEPS = 5_000
_MOST_PRINTED = 10_000

RUNNING, ENDED, DEAD = "red"
"""A particle's state after a step, one letter each."""


def clean(text: Any, longest: int = _LONGEST) -> str:
    """A text that JSON and UTF-8 take, cut where it is longer."""
    said = shortened(text if isinstance(text, str) else str(text), longest)
    # Half of a surrogate pair cannot be written as UTF-8, and would lose the whole record.
    return said if said.isascii() else said.encode(errors="replace").decode()


class _Source(NamedTuple):
    """A :class:`WeightSource` in the trace: its texts are numbers of strings, line 0 is none."""

    cause: int
    line: int
    masks: int
    what: int


class RunRecorder:
    """Hears the events of one run.

    Args:
        started: how it started, or None where nobody said.
        attempt: number of the attempt that it belongs to, 0 outside of any.
        limit: bytes that the steps of its particles may take.

    Attributes:
        size: bytes that it takes, about.
        over: whether it came to its end.
    """

    def __init__(self, started: RunStarted | None, attempt: int, limit: int) -> None:
        self.size = 500
        self.over = False
        # Set aside, so that many steps cannot take the room of the final texts.
        self._final_room = limit // 8
        self._limit = limit - self._final_room
        self._began = time.monotonic()
        self._head = {
            "attempt": attempt,
            "sampler": clean(started.sampler, 200) if started else "",
            "n": started.n if started else None,
            "timeout": started.timeout if started else None,
        }
        self._strings = Interned([""])
        self._sources: Interned[_Source] = Interned()
        # By what a change says of itself: spares the texts' cutting for each change of each
        # particle.
        self._number_of: dict[tuple[Any, ...], int] = {}
        self._steps: list[dict[str, Any]] = []
        self._resampled: list[dict[str, Any]] = []
        self._ends: list[list[int]] = []
        self._origins: tuple[Origin | None, ...] = ()
        self._end: dict[str, Any] = {}
        self._final: list[dict[str, Any]] = []
        self._printed = ""
        self._texts = PreviousTexts()
        self._cut = {"steps": 0, "untold": 0, "forgotten": 0, "final": 0, "printed": 0}

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case StepDone():
                self._step(event)
            case Resampled():
                ancestors = list(event.ancestors)
                after = {"after": event.step, "ess": _number(event.ess), "ancestors": ancestors}
                if self._room(8 * len(ancestors) + 40):
                    self._resampled.append(after)
            case ParticleFinished():
                reason = _without_text(event)
                if self._room(120):
                    why = self._string(event.finish_reason, 100), self._string(reason, 1000)
                    self._ends.append([event.step, event.index, *why])
            case PopulationGiven():
                self._origins = event.origins
            case ProgramPrinted():
                left = _MOST_PRINTED - len(self._printed)
                self._printed += clean(event.text)[:left]
                self._cut["printed"] += max(0, len(event.text) - left)
            case RunFinished():
                self._finish(event)

    def forget(self) -> None:
        """Drop the particles' steps, so that another run has room."""
        for step in self._steps:
            self._cut["forgotten"] += "rows" in step
            step.pop("rows", None)
        self._strings, self._sources = Interned([""]), Interned()
        self._number_of = {}
        self._resampled, self._ends = [], []
        self._texts = PreviousTexts()
        self.size = 500 + 100 * len(self._steps)
        self._limit = 0

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON-safe data."""
        return {
            **self._head,
            **({"seconds": None, "tokens": None, "log_evidence": None, "ess": None} | self._end),
            "strings": list(self._strings),
            "sources": [list(source) for source in self._sources],
            "steps": self._steps,
            "resampled": self._resampled,
            "ends": self._ends,
            "final": self._final,
            "printed": self._printed,
            "cut": {name: count for name, count in self._cut.items() if count},
        }

    # Inside -------------------------------------------------------------------------------

    def _step(self, event: StepDone) -> None:
        if len(self._steps) >= _MOST_STEPS:
            self._cut["steps"] += 1
            return
        step: dict[str, Any] = {
            "step": event.step,
            "alive": event.alive,
            "finished": event.finished,
            "ess": _number(event.ess),
            "tokens": event.tokens,
            "seconds": round(time.monotonic() - self._began, 3),
        }
        self.size += 100
        if not event.particles:
            self._cut["untold"] += 1
        elif self._limit > self.size:
            rows = self._rows(event)
            # Its size as it will be written; an estimate would be off by what a program puts into
            # texts.
            self.size += len(json.dumps(rows, separators=(",", ":")))
            if self._limit >= self.size:
                step["rows"] = rows
                # Only where the rows are kept: the next step's texts are stored as what they add to
                # these.
                self._texts.replace(event.step, [state.text for state in event.particles])
            else:  # nothing smaller comes after it
                self._limit = 0
                self._cut["untold"] += 1
        else:
            self._cut["untold"] += 1
        self._steps.append(step)

    def _rows(self, event: StepDone) -> dict[str, Any]:
        """The particles by column; a column in which nothing is said is left out."""
        origins: list[Any] = []
        kept: dict[str, int] = {}
        added: list[int] = []
        for index, state in enumerate(event.particles):
            delta = self._texts.delta(state.text, state.origin)
            origins.append(self._from(state.origin))
            if state.origin is not None and delta.kept is None:
                kept[str(index)] = 0  # it has an origin, and yet its text stands here as a whole
            added.append(self._string(delta.added, _LONGEST))
        states = event.particles
        rows: dict[str, Any] = {
            "from": origins,
            "add": added,
            "log_weight": [_number(s.log_weight) for s in states],
            "state": "".join(map(_letter, states)),
            "changes": [self._changes(s.changes) for s in states],
            "log_prior": [_number(s.log_prior, 3) for s in states],
            "log_proposal": [_number(s.log_proposal, 3) for s in states],
        }
        if kept:
            rows["kept"] = kept
        if any(s.hint for s in states):
            rows["hint"] = [self._string(s.hint, 2000) for s in states]
        if any(s.line for s in states):
            rows["line"] = [s.line or 0 for s in states]
        return rows

    def _from(self, origin: Origin | None) -> int | list[int]:
        """A particle's origin: an index into the step before, where the text there is known."""
        if origin is None:
            return -1
        _step, index = origin
        return list(origin) if self._texts.at(origin) is None else index

    def _changes(self, changes: tuple[WeightChange, ...]) -> list[Any]:
        """Pairs of a source and the sum of what came from it, flat, in the order of the first."""
        sums: dict[int, float] = {}
        for change in changes:
            key = source_key(change)
            number = self._number_of.get(key)
            if number is None:
                number = self._number_of[key] = self._source(WeightSource(*key))
            sums[number] = sums.get(number, 0.0) + change.amount
        flat: list[Any] = []
        for number, amount in sums.items():
            flat += number, _number(amount)
        return flat

    def _source(self, source: WeightSource) -> int:
        """The number of a source; its texts are cut, so that two may have the same."""
        numbered = _Source(
            cause=self._string(source.cause, 100),
            line=source.line or 0,
            masks=self._string(source.masks, 500),
            what=self._string(source.what, 500),
        )
        if numbered not in self._sources:
            self.size += 20
        return self._sources[numbered]

    def _string(self, text: str, longest: int) -> int:
        text = clean(text, longest)
        if text not in self._strings:
            size = _written(text)
            if self.size + size > self._limit:
                self._limit = 0
                return 0
            self.size += size
        return self._strings[text]

    def _room(self, size: int) -> bool:
        if self.size + size > self._limit:
            return False
        self.size += size
        return True

    def _finish(self, event: RunFinished) -> None:
        self.over = True
        self._end = {
            "seconds": round(event.seconds, 3),
            "tokens": event.tokens,
            "log_evidence": None if event.log_evidence is None else _number(event.log_evidence),
            "ess": _number(event.ess),
        }
        for index, particle in enumerate(event.particles):
            self._final_room -= _written(particle.text) + _written(particle.reason) + 250
            if self._final_room < 0:
                self._cut["final"] = len(event.particles) - index
                break
            origin = self._origins[index] if index < len(self._origins) else None
            self._final.append(
                {
                    "text": clean(particle.text),
                    "log_weight": _number(particle.log_weight),
                    "weight": round(particle.weight, 6),
                    "check": particle.check,
                    "finish_reason": particle.finish_reason,
                    "reason": clean(particle.reason, 1000),
                    "tokens": particle.tokens,
                    "log_prob": None if particle.log_prob is None else _number(particle.log_prob),
                    "from": None if origin is None else list(origin),
                }
            )


def _without_text(event: ParticleFinished) -> str:
    """Why a particle ended, without its text, which the step has."""
    if not event.cause:
        return event.reason
    return event.cause if event.line is None else f"{event.cause} (program line {event.line})"


def _letter(state: ParticleState) -> str:
    if state.log_weight == -math.inf:
        return DEAD
    return ENDED if state.finished else RUNNING


def _written(text: str) -> int:
    """Bytes of a text in the page, where ``<`` takes six of them."""
    return len(json.dumps(text, ensure_ascii=False).encode(errors="replace")) + 5 * text.count("<")


def _number(value: Any, digits: int = 4) -> float | None:
    """A number, rounded; None where it is not finite: minus infinity, in a log weight."""
    # JSON has no infinity; what a program puts into a number may be none at all.
    return round(float(value), digits) if math.isfinite(value) else None
