"""Events cross the pipe as they are, and what a worker forges about them is refused."""

from __future__ import annotations

import json
import math
import random

import pytest

from disciple_ext.records.events import (
    Event,
    ParticleFinished,
    ParticleState,
    PopulationGiven,
    ProgramPrinted,
    Resampled,
    StepDone,
    WeightChange,
)
from disciple_ext.sandbox.wire import events as frames
from disciple_ext.sandbox.wire.events import EventReader, EventWriter
from disciple_ext.sandbox.wire.frames import HEADER, Malformed

CHANGES = (WeightChange("draw", -1.5, 7, "CharsMask(ab)", "text"), WeightChange("end", -math.inf))


def state(text: str, origin: tuple[int, int] | None, rng: random.Random) -> ParticleState:
    changes = tuple(rng.sample(CHANGES, rng.randint(0, 2)))
    hint = rng.choice(("", "be short", "\U0001f600 é"))
    line = rng.choice((None, 3))
    return ParticleState(text, -rng.random(), -1.0, -2.0, changes, hint, False, line, origin)


def step(number: int, states: tuple[ParticleState, ...]) -> StepDone:
    return StepDone(number, len(states), 0, 1.5, "best", 9, states)


def conversation(seed: int, steps: int = 12) -> list[Event]:
    """Steps in which texts grow, shrink, are cloned, and come from steps long ago."""
    rng = random.Random(seed)
    texts: list[list[str]] = [[""]]
    events: list[Event] = []
    for number in range(1, steps + 1):
        states = []
        for _ in range(rng.randint(1, 5)):
            past = rng.choice((number - 1, number - 1, number - 1, rng.randrange(number)))
            place = rng.randrange(len(texts[past]))
            origin = (past, place) if past else None
            text = texts[past][place] + rng.choice(("", " a", "é\n", " <b>"))
            states.append(state(text[:-1] if rng.random() < 0.1 else text, origin, rng))
        events.append(step(number, tuple(states)))
        texts.append([s.text for s in states])
        events.append(Resampled(number, tuple(range(len(states))), 1.0))
    events += [
        ParticleFinished(0, steps, "a", -math.inf, "timeout", "slow"),
        ParticleFinished(1, steps, "a", -math.inf, "impossible_mask", "no: 'a'", "no", 4),
        PopulationGiven(((steps, 0), None)),
        ProgramPrinted("hi"),
    ]
    return events


def sent(events: list[Event], room: int = 2**20) -> list[bytes]:
    writer = EventWriter(room)
    return [writer.frame(event)[HEADER.size :] for event in events]


@pytest.mark.parametrize("seed", range(20))
def test_events_arrive_as_they_were(seed: int) -> None:
    reader, events = EventReader(), conversation(seed)
    assert [reader.read(payload, 9) for payload in sent(events)] == events


def test_a_step_costs_what_it_adds_and_not_its_text() -> None:
    texts = ["x" * 50_000 + "y" * k for k in range(20)]
    rng = random.Random(1)
    states = [state(text, (k, 0) if k else None, rng) for k, text in enumerate(texts)]
    payloads = sent([step(k + 1, (s,)) for k, s in enumerate(states)])
    assert len(payloads[0]) > 50_000
    assert all(len(payload) < 400 for payload in payloads[1:])


def test_without_room_steps_go_without_their_particles() -> None:
    events = conversation(3)
    reader = EventReader()
    read = [reader.read(payload, 9) for payload in sent(events, room=900)]
    steps = [e for e in read if isinstance(e, StepDone)]
    with_particles = [bool(e.particles) for e in steps]
    assert with_particles[0] and not with_particles[-1]
    assert with_particles == sorted(with_particles, reverse=True)
    assert [e.ess for e in steps] == [1.5] * len(steps)


def test_both_ends_bound_the_texts_that_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    events = conversation(4)
    honest = sent(events)
    monkeypatch.setattr(frames, "_MOST_JOINED", 20)
    reader = EventReader()
    read = [reader.read(payload, 9) for payload in sent(events)]  # an honest worker stops by itself
    assert not [e for e in read if isinstance(e, StepDone)][-1].particles
    reader = EventReader()
    with pytest.raises(Malformed, match="too long"):
        for payload in honest:
            reader.read(payload, 9)


def test_a_frame_that_would_be_too_long_goes_without_particles() -> None:
    texts = tuple(f"{k}" + "é" * 200_000 for k in range(8))  # six bytes each as JSON
    long = step(1, tuple(state(text, None, random.Random(1)) for text in texts))
    payload = sent([long])[0]
    assert len(payload) < 2**22 and json.loads(payload)["particles"] == []
