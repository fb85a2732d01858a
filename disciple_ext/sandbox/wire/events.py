"""How the events of a run cross the pipe: what a step added, against what was told before.

A step of many particles is told often, and most of it is known already: a text goes as what was
added to the text it came from, a hint and the source of a weight's change go once and are then
numbers. :class:`EventWriter` runs in the worker, :class:`EventReader` on the host, which trusts
nothing that it reads: every number is held to its range, and what texts are joined to is counted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

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

_MOST_AT_ONCE = 2**22
"""Characters of the texts of one step."""
_MOST_JOINED = 2**28
"""Characters that a run's steps may have copied to join texts, in all."""


class _Known:
    """What both ends know of what was told: the texts of the last step, and what has a number."""

    def __init__(self) -> None:
        self.step = 0
        self.texts: Sequence[str] = ()
        self.joined = 0

    def text_at(self, origin: tuple[int, int] | None) -> str:
        """The text that a particle's goes on from, as both ends know it."""
        if origin is None or origin[0] != self.step or origin[1] >= len(self.texts):
            return ""
        return self.texts[origin[1]]

    def add(self, step: int, texts: Sequence[str]) -> None:
        self.step, self.texts = step, texts
        self.joined += sum(map(len, texts))

    def may_add(self, characters: int) -> bool:
        """Whether a step with so many characters of text may be told."""
        return characters <= _MOST_AT_ONCE and self.joined + characters <= _MOST_JOINED


class EventWriter:
    """Writes events as frames.

    Args:
        room: bytes after which steps are told without their particles.
    """

    def __init__(self, room: int) -> None:
        self._left = room
        self._known = _Known()
        self._hints: dict[str, int] = {}
        self._sources: dict[tuple[Any, ...], int] = {}

    def frame(self, event: Event) -> bytes:
        """The frame of an event."""
        data = {"event": type(event).__name__, **vars(event)}
        if isinstance(event, StepDone):
            data["particles"] = ()
            if self._may_tell(event):
                frame = self._detailed(event, data)
                if frame is not None:
                    return frame
        frame = _encoded(data)
        self._left -= len(frame)
        return frame

    def _may_tell(self, event: StepDone) -> bool:
        size = sum(len(state.text) for state in event.particles)
        return self._left >= 0 and self._known.may_add(size)

    def _detailed(self, event: StepDone, data: dict[str, Any]) -> bytes | None:
        """The frame with every particle, or None where it is too long."""
        hints, sources = len(self._hints), len(self._sources)
        rows = [self._row(state) for state in event.particles]
        new = {"hints": list(self._hints)[hints:], "sources": list(self._sources)[sources:]}
        frame = _encoded({**data, "particles": rows, **new})
        if len(frame) > LONGEST[Kind.EVENT]:
            self._left = -1  # the numbers that it gave away are lost: say no more of particles
            return None
        self._left -= len(frame)
        self._known.add(event.step, [state.text for state in event.particles])
        return frame

    def _row(self, state: ParticleState) -> list[Any]:
        before = self._known.text_at(state.origin)
        kept = len(before) if state.text.startswith(before) else 0
        changes: list[Any] = []
        for change in state.changes:
            source = (change.cause, change.line, change.masks, change.what)
            changes += self._sources.setdefault(source, len(self._sources)), change.amount
        return [
            state.origin,
            kept,
            state.text[kept:],
            state.log_weight,
            state.log_prior,
            state.log_proposal,
            changes,
            self._hints.setdefault(state.hint, len(self._hints)),
            state.finished,
            state.line,
        ]


def _encoded(data: dict[str, Any]) -> bytes:
    return encode(Kind.EVENT, json.dumps(data, separators=(",", ":")).encode())


class EventReader:
    """Reads events of one worker's, and checks them."""

    def __init__(self) -> None:
        self._known = _Known()
        self._hints: list[str] = []
        self._sources: list[tuple[str, int | None, str, str]] = []

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
                )
            case "PopulationGiven":
                origins = as_list(data.get("origins"), MAX_PARTICLES)
                return PopulationGiven(tuple(map(_origin, origins)))
            case "ProgramPrinted":
                return ProgramPrinted(as_text(data.get("text")))
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
            state = self._state(as_list(row, 10))
            size += len(state.text)
            if not self._known.may_add(size):
                raise Malformed("the texts of the particles are too long")
            states.append(state)
        self._known.add(step, [state.text for state in states])
        return tuple(states)

    def _state(self, row: list[Any]) -> ParticleState:
        if len(row) != 10:
            raise Malformed("a particle's state has ten parts")
        origin = _origin(row[0])
        before = self._known.text_at(origin)
        kept, changes = as_count(row[1], len(before) + 1), as_list(row[6], MAX_PARTICLES)
        if len(changes) % 2:
            raise Malformed("a weight change is a source and an amount")
        text = before[:kept] + as_text(row[2])
        if len(text) > MAX_TEXT:
            raise Malformed(f"a text of more than {MAX_TEXT} characters")
        told = []
        for number, amount in zip(changes[::2], changes[1::2], strict=True):
            cause, line, masks, what = self._sources[as_count(number, len(self._sources))]
            told.append(WeightChange(cause, as_float(amount), line, masks, what))
        return ParticleState(
            text=text,
            log_weight=as_log(row[3]),
            log_prior=as_float(row[4]),
            log_proposal=as_float(row[5]),
            changes=tuple(told),
            hint=self._hints[as_count(row[7], len(self._hints))],
            finished=row[8] is True,
            line=as_optional_count(row[9]),
            origin=origin,
        )


def _origin(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise Malformed("an origin is a step and an index")
    return as_count(value[0]), as_count(value[1], MAX_PARTICLES)


def _source(value: Any) -> tuple[str, int | None, str, str]:
    if not isinstance(value, list) or len(value) != 4:
        raise Malformed("the source of a change has four parts")
    cause, line, masks, what = value
    return as_text(cause, 100), as_optional_count(line), as_text(masks, 1000), as_text(what, 1000)
