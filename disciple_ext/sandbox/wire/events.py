"""How the events of a run cross the pipe.

Each is an object with its class's name and its fields; the particles of a step are encoded as in
:mod:`disciple_ext.records.deltas`. :class:`EventWriter` runs in the worker, :class:`EventReader`
on the host, which trusts nothing that it reads: every number is held to its range, and what texts
are joined to is counted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...records.deltas import (
    Interned,
    Origin,
    PreviousTexts,
    TextDelta,
    WeightSource,
    pairs_of,
    source_key,
)
from ...records.events import (
    Event,
    ParticleFinished,
    ParticleState,
    PopulationGiven,
    ProgramPrinted,
    Resampled,
    StepDone,
    WeightChange,
)
from .checks import (
    MAX_TEXT,
    as_count,
    as_dict,
    as_float,
    as_list,
    as_log,
    as_optional_count,
    as_text,
    read_json,
)
from .ends import MAX_PARTICLES
from .frames import LONGEST, Kind, Malformed, encode

__all__ = ["EventReader", "EventWriter"]

# A row of a few bytes may keep all of a long text, so that the bytes that a worker may send
# do not bound the texts that the host makes of them: these do.
_MOST_AT_ONCE = 2**22
"""Characters of the texts of one step."""
_MOST_JOINED = 2**28
"""Characters that a run's steps may have copied to join texts, in all."""


class _ParticleRow(NamedTuple):
    """A particle's state as it crosses the pipe: a list, in the order of these fields.

    Attributes:
        origin: where it comes from.
        kept: characters of the text at its origin that its own begins with.
        added: the characters after those.
        log_weight: as in :class:`~disciple_ext.records.events.ParticleState`, like those below.
        log_prior: likewise.
        log_proposal: likewise.
        changes: numbers of sources and amounts, by turns.
        hint: number of the hint.
        finished: likewise.
        line: likewise.
    """

    origin: Any
    kept: Any
    added: Any
    log_weight: Any
    log_prior: Any
    log_proposal: Any
    changes: Any
    hint: Any
    finished: Any
    line: Any


class _BoundedTexts(PreviousTexts):
    """The texts of the last step, and what a run has spent on joining texts."""

    def __init__(self) -> None:
        super().__init__()
        self._joined = 0

    def replace(self, step: int, texts: Sequence[str]) -> None:
        super().replace(step, texts)
        self._joined += sum(map(len, texts))

    def have_room(self, characters: int) -> bool:
        """Whether a step with so many characters of text may cross the pipe."""
        return characters <= _MOST_AT_ONCE and self._joined + characters <= _MOST_JOINED


class EventWriter:
    """Writes events as frames.

    Args:
        room: bytes after which steps go without their particles.
    """

    def __init__(self, room: int) -> None:
        self._left = room
        self._texts = _BoundedTexts()
        self._hints: Interned[str] = Interned()
        self._sources: Interned[tuple[Any, ...]] = Interned()

    def frame(self, event: Event) -> bytes:
        """The frame of an event."""
        data = {"event": type(event).__name__, **vars(event)}
        if isinstance(event, StepDone):
            data["particles"] = ()
            if self._has_room(event):
                frame = self._with_particles(event, data)
                if frame is not None:
                    return frame
        frame = _encoded(data)
        self._left -= len(frame)
        return frame

    def _has_room(self, event: StepDone) -> bool:
        size = sum(len(state.text) for state in event.particles)
        return self._left >= 0 and self._texts.have_room(size)

    def _with_particles(self, event: StepDone, data: dict[str, Any]) -> bytes | None:
        """The frame with every particle, or None where it is too long."""
        hints, sources = len(self._hints), len(self._sources)
        rows = [self._row(state) for state in event.particles]
        new = {"hints": self._hints.since(hints), "sources": self._sources.since(sources)}
        frame = _encoded({**data, "particles": rows, **new})
        if len(frame) > LONGEST[Kind.EVENT]:
            self._left = -1  # the reader will never know the numbers that it gave: no more of them
            return None
        self._left -= len(frame)
        # Only for a frame that is sent: both ends must know the same last step.
        self._texts.replace(event.step, [state.text for state in event.particles])
        return frame

    def _row(self, state: ParticleState) -> _ParticleRow:
        kept, added = self._texts.delta(state.text, state.origin)
        changes: list[Any] = []
        for change in state.changes:
            changes += self._sources[source_key(change)], change.amount
        return _ParticleRow(  # by position, which is faster than by name
            state.origin,
            kept or 0,
            added,
            state.log_weight,
            state.log_prior,
            state.log_proposal,
            changes,
            self._hints[state.hint],
            state.finished,
            state.line,
        )


def _encoded(data: dict[str, Any]) -> bytes:
    return encode(Kind.EVENT, json.dumps(data, separators=(",", ":")).encode())


class EventReader:
    """Reads events of one worker's, and checks them."""

    def __init__(self) -> None:
        self._texts = _BoundedTexts()
        self._hints: list[str] = []
        self._sources: list[WeightSource] = []

    def read(self, payload: bytes, tokens: int) -> Event:
        """An event of the run; ``tokens`` is the host's own count of the follower's tokens.

        Raises:
            Malformed: it is no event, or breaks a bound.
        """
        data = as_dict(read_json(payload))
        match data.get("event"):
            case "StepDone":
                step = as_count(data.get("step"))
                return StepDone(
                    step=step,
                    alive=as_count(data.get("alive")),
                    finished=as_count(data.get("finished")),
                    ess=as_log(data.get("ess")),
                    best_text=as_text(data.get("best_text")),
                    tokens=tokens,
                    particles=self._particles(step, data),
                )
            case "Resampled":
                ancestors = as_list(data.get("ancestors"), MAX_PARTICLES)
                return Resampled(
                    as_count(data.get("step")),
                    tuple(as_count(a, MAX_PARTICLES) for a in ancestors),
                    as_log(data.get("ess")),
                )
            case "ParticleFinished":
                return ParticleFinished(
                    index=as_count(data.get("index")),
                    step=as_count(data.get("step")),
                    text=as_text(data.get("text")),
                    log_weight=as_log(data.get("log_weight")),
                    finish_reason=as_text(data.get("finish_reason"), 100),
                    reason=as_text(data.get("reason")),
                    cause=as_text(data.get("cause", "")),
                    line=as_optional_count(data.get("line")),
                )
            case "PopulationGiven":
                origins = as_list(data.get("origins"), MAX_PARTICLES)
                return PopulationGiven(tuple(map(_origin, origins)))
            case "ProgramPrinted":
                return ProgramPrinted(as_text(data.get("text")))
        # Events of the outer loop and of a run's end are unknown: a program must not forge them.
        raise Malformed("an unknown event")

    def _particles(self, step: int, data: dict[str, Any]) -> tuple[ParticleState, ...]:
        rows = as_list(data.get("particles"), MAX_PARTICLES)
        if not rows:
            return ()
        self._hints += (as_text(h) for h in as_list(data.get("hints"), MAX_PARTICLES))
        self._sources += map(_source, as_list(data.get("sources"), MAX_PARTICLES * 10))
        size = 0
        states = []
        for row in rows:
            state = self._state(_row(row))
            size += len(state.text)
            # After each row, before the next text is joined.
            if not self._texts.have_room(size):
                raise Malformed("the texts of the particles are too long")
            states.append(state)
        self._texts.replace(step, [state.text for state in states])
        return tuple(states)

    def _state(self, row: _ParticleRow) -> ParticleState:
        origin = _origin(row.origin)
        before = self._texts.at(origin) or ""
        delta = TextDelta(as_count(row.kept, len(before) + 1), as_text(row.added))
        text = delta.onto(before)
        if len(text) > MAX_TEXT:
            raise Malformed(f"a text of more than {MAX_TEXT} characters")
        return ParticleState(
            text=text,
            log_weight=as_log(row.log_weight),
            log_prior=as_float(row.log_prior),
            log_proposal=as_float(row.log_proposal),
            changes=self._changes(as_list(row.changes, MAX_PARTICLES)),
            hint=self._hints[as_count(row.hint, len(self._hints))],
            finished=row.finished is True,
            line=as_optional_count(row.line),
            origin=origin,
        )

    def _changes(self, flat: list[Any]) -> tuple[WeightChange, ...]:
        if len(flat) % 2:
            raise Malformed("a weight change is a source and an amount")
        sources, known = self._sources, len(self._sources)
        changes = []
        for number, amount in pairs_of(flat):
            changes.append(sources[as_count(number, known)].change(as_float(amount)))
        return tuple(changes)


def _row(value: Any) -> _ParticleRow:
    parts = as_list(value, len(_ParticleRow._fields))
    if len(parts) < len(_ParticleRow._fields):
        raise Malformed(f"a particle's state has {len(_ParticleRow._fields)} parts")
    return _ParticleRow(*parts)


def _origin(value: Any) -> Origin | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise Malformed("an origin is a step and an index")
    step, index = value
    return as_count(step), as_count(index, MAX_PARTICLES)


def _source(value: Any) -> WeightSource:
    if not isinstance(value, list) or len(value) != len(WeightSource._fields):
        raise Malformed("the source of a change has four parts")
    source = WeightSource(*value)
    return WeightSource(
        cause=as_text(source.cause, 100),
        line=as_optional_count(source.line),
        masks=as_text(source.masks, 1000),
        what=as_text(source.what, 1000),
    )
