"""Steps of particles as what is new in them: the encoding that the pipe and the trace share.

A run reports each of its particles after each step, and most of what it reports was there before.
So a text goes as what was added to the text that it came from (:class:`PreviousTexts`), and what
is said again and again (a hint, the source of a weight's change) goes once and is then a number
(:class:`Interned`). Each writer and each reader has its own tables, which agree because both see
the same steps in the same order. Bounds are the business of who uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from .events import WeightChange

__all__ = [
    "Interned",
    "Origin",
    "PreviousTexts",
    "TextDelta",
    "WeightSource",
    "pairs_of",
    "source_key",
]

Origin = tuple[int, int]
"""Step and index at which a particle, or the one that it is a clone of, was last reported."""

_Item = TypeVar("_Item", bound=Hashable)


class TextDelta(NamedTuple):
    """A text as what it adds to the one that it came from.

    Attributes:
        kept: characters of the earlier text that it goes on from, or None where it stands for
            itself, because the earlier text is unknown or was changed.
        added: the characters after those.
    """

    kept: int | None
    added: str

    def onto(self, before: str) -> str:
        """The text, from the earlier one."""
        # 0 and None come to the same here: nothing of the earlier text stays.
        return before[: self.kept] + self.added if self.kept else self.added


class PreviousTexts:
    """The texts of the last step that was reported with its particles.

    Attributes:
        step: number of that step, 0 before the first.
        texts: the texts of its particles.
    """

    def __init__(self) -> None:
        self.step = 0
        self.texts: Sequence[str] = ()

    def at(self, origin: Origin | None) -> str | None:
        """The text of the particle that one comes from, or None where it is unknown."""
        if origin is None:
            return None
        step, index = origin
        return self.texts[index] if step == self.step and index < len(self.texts) else None

    def replace(self, step: int, texts: Sequence[str]) -> None:
        """From here on these are the texts that others go on from."""
        self.step, self.texts = step, texts

    def delta(self, text: str, origin: Origin | None) -> TextDelta:
        """What a text adds to the one at its origin."""
        before = self.at(origin)
        if before is None or not text.startswith(before):
            return TextDelta(None, text)
        return TextDelta(len(before), text[len(before) :])


class Interned(dict[_Item, int]):
    """Items by number, in the order in which they were first asked for.

    ``table[item]`` is the item's number, and a new item gets the next one. It is a dictionary
    because it is asked several times for each particle in each step.

    Args:
        items: the first items.
    """

    def __init__(self, items: Iterable[_Item] = ()) -> None:
        super().__init__()
        for item in items:
            self[item]

    def __missing__(self, item: _Item) -> int:
        number = self[item] = len(self)
        return number

    def since(self, count: int) -> list[_Item]:
        """The items after the first ``count``: those that a reader of so many lacks."""
        return list(self)[count:]


class WeightSource(NamedTuple):
    """Where changes of weights come from: all of a :class:`WeightChange` but its amount."""

    cause: str
    line: int | None
    masks: str
    what: str

    def change(self, amount: float) -> WeightChange:
        """A change from this source."""
        cause, line, masks, what = self
        return WeightChange(cause, amount, line, masks, what)


source_key: Callable[[WeightChange], tuple[Any, ...]] = attrgetter(*WeightSource._fields)
"""A change's source as a plain tuple, equal to its :class:`WeightSource` and faster to make."""


def pairs_of(flat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Pairs of a source's number and an amount, which are written one after the other.

    Raises:
        ValueError: a number stands without its amount.
    """
    return zip(flat[::2], flat[1::2], strict=True)
