"""Text by the character, however the model cuts it into tokens.

The text's probability is then that of its characters: the sum over all token sequences that spell
them (see :mod:`disciple_ext.model.spelling.spelling`). How the weight keeps up with it is told in
:mod:`disciple_ext.model.bytewise`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..protocol.utf8 import bytes_of
from ..protocol.vocabulary import unfinished
from .bytewise import BytewiseText, shares_of
from .spelling.lookahead import look_ahead_once
from .spelling.spelled import BoolArray
from .spelling.spelling import END, log_fsum

__all__ = ["CharacterMethods"]

_UNPLANNED = 0.02
"""How often ``spell`` draws without its plan, so that whatever fits can be drawn."""


class CharacterMethods(BytewiseText):
    """The characters of :class:`BaseModel`."""

    async def next_char(self, chars: Iterable[str] | None = None) -> str:
        """Draw the next character, however the text is cut into tokens; returns it.

        It never ends the text. CharsMask, AvoidCharsMask and MaxCharsMask hold for it.

        Args:
            chars: what it may be, or None for any character.
        """
        within = None if chars is None else frozenset(chars)
        begun = unfinished(self.masks.text)
        while True:
            begun += bytes([await self._draw_byte(begun, within)])
            if not unfinished(begun):
                return begun.decode("utf-8", errors="replace")

    async def spell(
        self,
        places: Sequence[Iterable[str]],
        after: Iterable[str] | None = None,
        bold: float = 0.0,
        look: int = 384,
    ) -> str:
        """Draw one character for each place, with a look ahead to the last; returns them.

        Strings that fit all places are searched first, and one of them is drawn as a whole. The
        weight is right whatever the search overlooked.

        Args:
            places: what each character may be (ASCII).
            after: what the search should not find after the last one: the letters, for a whole
                word (then observe it with ``end_word``).
            bold: from 0 to 1, how little the search minds an unlikely beginning.
            look: forward passes that the search may take.
        """
        arrays = [_place(place) for place in places]
        free = np.ones(END + 1, np.bool_)
        if after is not None:
            free[:END] &= ~_place(after)
        # The plan is a proposal: strings that reach the last place, by their probability. Drawn
        # byte by byte instead, most beginnings would die before it. What the search overlooked
        # must keep some probability, or it could never be drawn and the weights of what can be
        # would be too large: so with probability _UNPLANNED there is no plan.
        spelled = await self._spell()
        found = await look_ahead_once(spelled.proposal, arrays, free, look, bold)
        texts = list(found)
        log_total = log_fsum(list(found.values()))
        shares = [math.exp(log - log_total) for log in found.values()]
        planned = bool(texts) and self.random.choose([_UNPLANNED, 1.0 - _UNPLANNED]) == 1
        plan = texts[self.random.choose(shares)] if planned else None
        data, log_free = b"", 0.0
        for place, array in enumerate(arrays):
            byte, log_q = await self._next_byte(array, None if plan is None else plan[place])
            data += bytes([byte])
            log_free += log_q
        # What was drawn could have come with the plan or without it: the proposal is the mixture
        # of both, whichever it was. `_next_byte` has charged the prior's part of the weight.
        log_q = log_free
        if texts:
            log_plan = found.get(data, -math.inf) - log_total
            both = [math.log(_UNPLANNED) + log_free, math.log1p(-_UNPLANNED) + log_plan]
            log_q = log_fsum(both)
        self.log_proposal += log_q
        self._charge("draw", -log_q)
        return data.decode()

    async def force_chars(self, text: str) -> None:
        """Observe exactly these characters, however they are cut into tokens.

        The weight is multiplied by the prior's probability of them.
        """
        if not isinstance(text, str):
            raise TypeError(f"force_chars() takes a string, not {type(text).__name__}")
        for byte in text.encode():
            await self._force_byte(byte)

    async def end_word(self) -> None:
        """Observe that no letter comes next: the word that stands there is a whole one.

        The weight is multiplied by the prior's probability of it, the end of text included. It
        stays pending: a character that follows is no letter.
        """
        spelled = await self._spell()
        allowed = _no_letter() if spelled.given is None else _no_letter() & spelled.given
        await self._observe_next(allowed, "observe")

    # Inside -------------------------------------------------------------------------------

    async def _draw_byte(self, begun: bytes, chars: frozenset[str] | None) -> int:
        within = None if chars is None else bytes_of(chars, begun)
        byte, log_q = await self._next_byte(within, None, begun)
        self.log_proposal += log_q
        self._charge("draw", -log_q)
        return byte

    async def _next_byte(
        self, within: BoolArray | None, planned: int | None, begun: bytes = b""
    ) -> tuple[int, float]:
        """Draw the next byte, or take the planned one; the log-probability is not charged yet."""
        spelled = await self._spell()
        allowed = self._allowed_bytes(begun)
        if within is not None:
            allowed[:END] &= within
        proposal, logs = await spelled.proposal.following(allowed)
        shares = shares_of(logs, allowed, proposal)
        if shares is None or (planned is not None and not allowed[planned]):
            what = f"every next character that may come is ruled out by {self.masks.describe()}"
            self._die("impossible_mask", what)
        byte = self.random.choose(shares.tolist()) if planned is None else planned
        log_q = math.log(shares[byte] / shares.sum()) if shares[byte] > 0.0 else -math.inf
        await self._go_on(replace(spelled, proposal=proposal), byte, "draw")
        return byte, log_q

    async def _force_byte(self, byte: int) -> None:
        spelled = await self._spell()
        if not self._allowed_bytes(unfinished(self.masks.text))[byte]:
            what = f"the forced {chr(byte)!r} is ruled out by {self.masks.describe()}"
            self._die("impossible_mask", what)
        await self._go_on(spelled, byte, "force")


def _place(chars: Iterable[str]) -> BoolArray:
    chars = frozenset(chars)
    if any(len(char) != 1 or not char.isascii() for char in chars):
        raise ValueError("spell() takes sets of single ASCII characters")
    return bytes_of(chars, b"")


@lru_cache(maxsize=1)
def _no_letter() -> BoolArray:
    """The bytes that begin no letter, and the end of text; beyond ASCII all begin one."""
    array = np.ones(END + 1, np.bool_)
    array[0x80:END] = False
    array[[byte for byte in range(0x80) if chr(byte).isalpha()]] = False
    return array
