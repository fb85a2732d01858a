"""Masks: what the tokens drawn inside an ``async with`` block may be.

    async with MaxCharsMask(self, max_chars=10), AvoidCharsMask(self, '"'):
        token = await self.next_token()

Masks nest as intersections, and every draw under them corrects the particle's weight by the
mass that they rule out. A mask holds the particle's mask stack, never the particle, so that a
copied particle drags no other along. Stateless masks are one class each over a memoised token
mask; stateful ones follow the text with ``consume``.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol, Self

import numpy as np

from ...protocol.prefix import Prefix
from ...protocol.vocabulary import TokenMask, Vocabulary, intersect

__all__ = ["HasMasks", "Mask", "MaskStack", "last_word"]


class MaskStack:
    """The masks in force on one particle, outermost first, and the bytes of its text.

    Attributes:
        tokens: the text's tokens; characters that are not tokens yet are not among them.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.masks: list[Mask] = []
        self.text = bytearray()
        self.tokens = Prefix.ROOT

    def current(self, within: TokenMask | None, without: Mask | None = None) -> TokenMask | None:
        """The masks in force together with ``within``; None where nothing is ruled out.

        Args:
            within: what else is asked for, or None.
            without: a mask to leave out.
        """
        for mask in self.masks:
            allowed = None if mask is without else mask.allowed(self.vocabulary)
            if allowed is not None:
                within = allowed if within is None else intersect(within, allowed)
        return within

    def consume(self, token: int) -> None:
        """A token was added to the text."""
        data = self.vocabulary.tokens[token]
        for mask in self.masks:
            mask.follow(token, data)
        self.text += data
        self.tokens = self.tokens.then(token)

    def consume_bytes(self, data: bytes) -> None:
        """These bytes were added to the text; their tokens are put into ``tokens`` later."""
        for mask in self.masks:
            mask.consume(data)
        self.text += data

    @property
    def may_end(self) -> bool | None:
        """Whether the text may end here; None where no mask bears on that."""
        verdicts = [v for mask in self.masks if (v := mask.complete) is not None]
        return all(verdicts) if verdicts else None

    def describe(self) -> str:
        """The masks in force, for messages."""
        return ", ".join(repr(mask) for mask in self.masks) or "no mask"


class HasMasks(Protocol):
    """What a mask is put on: a particle, or whatever else has a mask stack."""

    @property
    def masks(self) -> MaskStack:
        """The masks in force."""
        ...


class Mask:
    """Base of all masks: an async context manager on a particle's mask stack."""

    def __init__(self, particle: HasMasks) -> None:
        stack = getattr(particle, "masks", None)
        if not isinstance(stack, MaskStack):
            name = type(self).__name__
            raise TypeError(
                f"a mask takes the particle first: write {name}(self, ...), not "
                f"{name}({type(particle).__name__}, ...)"
            )
        self._stack = stack

    async def __aenter__(self) -> Self:
        self.enter()
        self._stack.masks.append(self)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._stack.masks.remove(self)

    def enter(self) -> None:
        """Begin: state is set from the text as it is now."""

    def allowed(self, vocabulary: Vocabulary) -> TokenMask | None:
        """The tokens allowed next, or None for all."""
        raise NotImplementedError

    def allowed_bytes(self, begun: bytes) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """What the next byte may be where text is drawn by the character.

        Args:
            begun: the bytes of the character that are there already.

        Returns:
            Booleans of shape (256,), or None for any byte.

        Raises:
            TypeError: this mask rules on tokens only.
        """
        raise TypeError(
            f"{type(self).__name__} rules on tokens, not on characters; with next_char() use "
            "CharsMask, AvoidCharsMask, MaxCharsMask or ChoiceMask"
        )

    def follow(self, token: int, data: bytes) -> None:
        """Follow the text by one token, for masks that go by its id, too."""
        self.consume(data)

    def consume(self, data: bytes) -> None:
        """Follow the text by the bytes of one token, or by one byte."""

    @property
    def complete(self) -> bool | None:
        """Whether the text may end here; None for a mask that does not bear on that."""
        return None

    def clone(self) -> Self:
        """A copy whose state is independent (a particle's copy copies its masks like this)."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        clone = memo[id(self)] = self.clone()
        clone._stack = copy.deepcopy(self._stack, memo)
        return clone

    def __repr__(self) -> str:
        return type(self).__name__


def last_word(text: bytearray | bytes) -> str:
    """The run of letters at the end of the text."""
    # The end alone, for it is asked at each token; the cut may fall inside a code point.
    tail = bytes(text[-64:]).decode("utf-8", errors="ignore")
    run = 0
    while run < len(tail) and tail[-1 - run].isalpha():
        run += 1
    return tail[len(tail) - run :]
