"""What a run knows of each particle.

It is kept beside the particles, not in them: a program may define any attribute, and any
``__eq__`` or ``__hash__``.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace

from llamppl.modeling import Model

__all__ = ["Note", "Notes"]


@dataclass(slots=True)
class Note:
    """What is known of one particle.

    Attributes:
        place: its index in the population.
        steps: steps that it and its ancestors have made.
        reported: whether its end was reported to the observers.
        seen: step and index at which the observers last saw it, or what it is a clone of.
    """

    place: int = 0
    steps: int = 0
    reported: bool = False
    seen: tuple[int, int] | None = None


class Notes:
    """A note for each particle that is alive as an object; it is dropped with the particle."""

    def __init__(self) -> None:
        # The reference keeps its callback alive, and goes with the note.
        self._notes: dict[int, tuple[Note, weakref.ref[Model]]] = {}

    def of(self, particle: Model) -> Note:
        """The note of a particle, a new one if there is none."""
        found = self._notes.get(id(particle))
        return found[0] if found else self._add(particle, Note())

    def copy(self, particle: Model, twin: Model) -> None:
        """Give a particle's clone a note like its own; its end is not reported yet."""
        self._add(twin, replace(self.of(particle), reported=False))

    def _add(self, particle: Model, note: Note) -> Note:
        key, notes = id(particle), self._notes
        notes[key] = note, weakref.ref(particle, lambda _: notes.pop(key, None))
        return note
