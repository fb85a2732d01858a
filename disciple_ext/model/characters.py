"""Text by the character, however the model cuts it into tokens.

The text's probability is then that of its characters: the sum over all token sequences that spell
them (see :mod:`disciple_ext.model.spelling.spelling`). Prior and proposal each have their own sum.
Verbs over tokens may follow: they choose one of the token sequences, by its probability.

The weight always holds the prior's probability of what is fixed so far, ``charged``; each verb
charges the ratio of the new one to the old one, so that nothing is counted twice.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..protocol.utf8 import bytes_of, valid_bytes
from ..protocol.vocabulary import TokenMask, unfinished
from .spelling.lookahead import look_ahead
from .spelling.spelling import END, Spelling, log_sum

if TYPE_CHECKING:
    from ..protocol.stream import Stream
    from .context import FollowerContext
    from .masks.base import MaskStack

__all__ = ["CharacterMethods", "Spelled"]

BoolArray = NDArray[np.bool_]

_UNPLANNED = 0.02
"""How often ``spell`` draws without its plan, so that whatever fits can be drawn."""


@dataclass(frozen=True, eq=False)
class Spelled:
    """The characters of a particle's text that are not tokens yet. Immutable.

    Attributes:
        proposal: the string under the proposal.
        prior: the string under the prior, or None where they are one.
        charged: log of the prior's probability that the weight holds.
        log_text: log of the prior's probability of the string itself.
        logs: how ``log_text`` grew with each byte of the text.
        given: what may come next, shape (257,), or None for anything.
        lost: share of ``charged`` that may be lost, linear.
    """

    proposal: Spelling
    prior: Spelling | None
    charged: float
    log_text: float = 0.0
    logs: tuple[float, ...] = ()
    given: BoolArray | None = None
    lost: float = 0.0

    def __deepcopy__(self, memo: object) -> Spelled:
        return self

    @property
    def length(self) -> int:
        """Tokens of the longest way to write the characters that is kept."""
        both = [s for s in (self.proposal, self.prior) if s is not None]
        return max((len(h.prefix) - len(s.begin) for s in both for h in s.live), default=0)

    @property
    def scored(self) -> Spelling:
        """What the weight is made of."""
        return self.prior or self.proposal


class CharacterMethods:
    """The characters of :class:`BaseModel`."""

    if TYPE_CHECKING:
        context: FollowerContext
        prior: FollowerContext | None
        masks: MaskStack
        spelled: Spelled | None
        char_tolerance: float
        lost_before: float
        preface_rest: str
        healed: int
        log_prior: float
        log_proposal: float

        @property
        def random(self) -> Stream: ...  # noqa: D102
        def _charge(self, cause: str, amount: float) -> None: ...
        def _die(self, finish_reason: str, what: str) -> NoReturn: ...
        def _put_preface(self, text: str) -> None: ...
        def _narrow(self, mask: TokenMask, log_mass: float) -> None: ...
        def _room_for(self, tokens: int) -> None: ...

    @property
    def lost_mass(self) -> float:
        """The share of the text's probability that its weight may lack, in [0, 1].

        It is 0 where the text was drawn by tokens, or ``char_tolerance`` is 0.
        """
        now = self.spelled.lost if self.spelled is not None else 0.0
        return 1.0 - (1.0 - self.lost_before) * (1.0 - now)

    @property
    def char_log_probs(self) -> tuple[float, ...]:
        """The prior's log-probability of each byte drawn by the character, given those before it.

        They are natural logs, from the first character on that is no token yet.
        """
        return self.spelled.logs if self.spelled is not None else ()

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
        spelled = await self._spell()
        found = await _looked_ahead(spelled.proposal, arrays, free, look, bold)
        texts = list(found)
        log_total = log_sum(list(found.values()))
        shares = [math.exp(log - log_total) for log in found.values()]
        planned = bool(texts) and self.random.choose([_UNPLANNED, 1.0 - _UNPLANNED]) == 1
        plan = texts[self.random.choose(shares)] if planned else None
        data, log_free = b"", 0.0
        for place, array in enumerate(arrays):
            byte, log_q = await self._next_byte(array, None if plan is None else plan[place])
            data += bytes([byte])
            log_free += log_q
        # What was drawn could have come with the plan or without it.
        log_q = log_free
        if texts:
            log_plan = found.get(data, -math.inf) - log_total
            both = [math.log(_UNPLANNED) + log_free, math.log1p(-_UNPLANNED) + log_plan]
            log_q = log_sum(both)
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

    async def _spell(self) -> Spelled:
        """The characters so far; the first verb that needs them begins them."""
        self._room_for(1)
        if self.spelled is None:
            proposal = Spelling.after(self.context, self.char_tolerance)
            prior = None
            if self.prior is not None:
                prior = Spelling.after(self.prior, self.char_tolerance)
            charged = (self.prior or self.context).log_pending
            spelled = Spelled(proposal, prior, charged, charged)
            # The blank at the end of a preface joins the first token of the text.
            blank, self.preface_rest = self.preface_rest, ""
            self.healed += len(blank)
            for byte in blank.encode():
                spelled = await self._then(spelled, byte)
            self.spelled = spelled
        return self.spelled

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
        shares = _shares(logs, allowed, proposal)
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

    async def _go_on(self, spelled: Spelled, byte: int, cause: str) -> None:
        """Add a byte to the text, and charge its probability under the prior."""
        after = await self._then(spelled, byte)
        self.masks.consume_bytes(bytes([byte]))
        log_p = after.log_text - spelled.log_text
        self.log_prior += log_p
        self._charge(cause, after.charged - spelled.charged)
        self.spelled = replace(after, logs=(*spelled.logs, log_p))

    async def _then(self, spelled: Spelled, byte: int) -> Spelled:
        """The string with a byte more under proposal and prior."""
        only = np.zeros(END + 1, np.bool_)
        only[byte] = True
        both = [s for s in (spelled.proposal, spelled.prior) if s is not None]
        found = await asyncio.gather(*(s.following(only) for s in both))
        log_text = float(found[-1][1][byte])
        if log_text == -math.inf:
            self._die("impossible_mask", f"the model gives {chr(byte)!r} no probability here")
        return Spelled(
            found[0][0].then(byte),
            found[-1][0].then(byte) if spelled.prior is not None else None,
            log_text,
            log_text,
            # Not after the byte: the tokens that end with it are in its probability.
            lost=found[-1][0].lost(log_text),
        )

    async def _observe_next(self, allowed: BoolArray, cause: str, log_q: float = 0.0) -> None:
        """Narrow what may come next, and charge it under the prior."""
        spelled = await self._spell()
        scored, logs = await spelled.scored.following(allowed)
        log_mass = log_sum(logs[allowed])
        if log_mass == -math.inf:
            self._die("impossible_mask", "nothing that may come next has any probability")
        self._charge(cause, log_mass - spelled.charged - log_q)
        self.spelled = replace(
            spelled,
            proposal=spelled.proposal if spelled.prior is not None else scored,
            prior=scored if spelled.prior is not None else None,
            charged=log_mass,
            given=allowed,
            lost=scored.lost(log_mass),
        )

    async def _wants_to_end_chars(self, spelled: Spelled) -> bool:
        """``wants_to_end`` after characters: a draw from the proposal, prior-corrected, pending."""
        given = np.ones(END + 1, np.bool_) if spelled.given is None else spelled.given
        proposal, logs = await spelled.proposal.following(given)
        logs = np.where(given, logs, -math.inf)
        both = np.array([logs[END], log_sum(logs[:END])])
        may = np.array([given[END], given[:END].any()])
        shares = _shares(both, may, proposal)
        if shares is None:
            self._die("impossible_mask", "nothing that may come next has any probability")
        ends = self.random.choose(shares.tolist()) == 0
        outcome = given.copy()
        outcome[END if not ends else slice(0, END)] = False
        self.spelled = replace(spelled, proposal=proposal)
        log_q = math.log(shares[0 if ends else 1] / shares.sum())
        await self._observe_next(outcome, "branch", log_q)
        return ends

    async def _end_chars(self) -> None:
        """``end`` after characters: the prior's probability that the text ends here."""
        only = np.zeros(END + 1, np.bool_)
        only[END] = True
        assert self.spelled is not None
        if self.spelled.given is not None:
            only &= self.spelled.given
        await self._observe_next(only, "observe")
        self._write_tokens()

    def _write_tokens(self) -> None:
        """Put the likeliest tokens into the contexts, for what counts them; nothing is charged."""
        spelled = self.spelled
        found = spelled.scored.whole(None) if spelled is not None else []
        if spelled is not None and found:
            best = max(found, key=lambda pair: pair[1])[0]
            self._put_tokens(best.after(spelled.scored.begin))

    def _put_tokens(self, tokens: Iterable[int]) -> None:
        self.lost_before, self.spelled = self.lost_mass, None
        for token in tokens:  # the masks have had these characters
            self.masks.tokens = self.masks.tokens.then(token)
            self.context.append(token)
            if self.prior is not None:
                self.prior.append(token)

    async def _settle(self) -> None:
        """Choose the tokens of the characters, by their probability: a verb over tokens follows.

        That a token ends here is observed, for no longer token can be continued.
        """
        spelled = self.spelled
        if spelled is None:
            if self.preface_rest:
                blank, self.preface_rest = self.preface_rest, ""
                self._put_preface(blank)
            return
        given = spelled.given
        scored, _ = await spelled.scored.following(
            np.ones(END + 1, np.bool_) if given is None else given
        )
        found = scored.whole(given)
        log_mass = log_sum([log for _, log in found])
        if log_mass == -math.inf:
            self._die("impossible_mask", "no token of the model ends where the characters do")
        self._charge("observe", log_mass - spelled.charged)
        shares = [math.exp(log - log_mass) for _, log in found]
        chosen, log = found[self.random.choose(shares)]
        tokens = chosen.after(scored.begin)
        self.spelled = replace(spelled, lost=scored.lost(log_mass))
        self._put_tokens(tokens)
        if given is not None:
            own = next(h.log_tokens for h in scored.live if h.prefix is chosen)
            self._narrow(_begins_within(self.context.follower.vocabulary, given), log - own)

    def _allowed_bytes(self, begun: bytes) -> BoolArray:
        """What the next byte may be, shape (257,); never the end of text."""
        allowed = np.zeros(END + 1, np.bool_)
        allowed[:END] = valid_bytes(begun)
        if self.spelled is not None and self.spelled.given is not None:
            allowed &= self.spelled.given
        for mask in self.masks.masks:
            some = mask.allowed_bytes(begun)
            if some is not None:
                allowed[:END] &= some
        return allowed


def _place(chars: Iterable[str]) -> BoolArray:
    chars = frozenset(chars)
    if any(len(char) != 1 or not char.isascii() for char in chars):
        raise ValueError("spell() takes sets of single ASCII characters")
    return bytes_of(chars, b"")


def _shares(
    logs: NDArray[np.float64], allowed: BoolArray, proposal: Spelling
) -> NDArray[np.float64] | None:
    """In which proportion to draw what comes next; None where nothing can come.

    What only open hypotheses may know of shares the mass of these evenly: whatever has some
    probability can be drawn, and the weight says how likely it is.
    """
    top = float(logs[allowed].max(initial=-math.inf))
    if top == -math.inf:
        return None
    shares = np.where(allowed, np.exp(logs - top), 0.0)
    unknown = allowed & (shares == 0.0)
    lost = proposal.lost(log_sum(logs[allowed]))
    if lost > 0.0 and unknown.any():
        shares[unknown] = shares.sum() * lost / unknown.sum()
    return shares


async def _looked_ahead(
    spelling: Spelling,
    places: Sequence[BoolArray],
    after: BoolArray,
    requests: int,
    boldness: float,
) -> Mapping[bytes, float]:
    """What :func:`look_ahead` finds; particles at the same place share one search."""
    sets = tuple(array.tobytes() for array in (*places, after))
    key = (spelling.begin, spelling.data, spelling.temperature, requests, boldness, sets)
    shared = _SEARCHES.setdefault(asyncio.get_running_loop(), OrderedDict())
    search = shared.get(key)
    if search is None:
        work = look_ahead(spelling, places, after, requests, boldness)
        search = shared[key] = asyncio.ensure_future(work)
        while len(shared) > _SEARCHES_KEPT:
            shared.popitem(last=False)
    return await asyncio.shield(search)


_SEARCHES_KEPT = 16
_SEARCHES: WeakKeyDictionary[Any, OrderedDict[Any, asyncio.Future[Mapping[bytes, float]]]] = (
    WeakKeyDictionary()
)


@lru_cache(maxsize=1)
def _no_letter() -> BoolArray:
    """The bytes that begin no letter, and the end of text; beyond ASCII all begin one."""
    array = np.ones(END + 1, np.bool_)
    array[0x80:END] = False
    array[[byte for byte in range(0x80) if chr(byte).isalpha()]] = False
    return array


def _begins_within(vocabulary: Any, given: BoolArray) -> TokenMask:
    """The tokens that begin with one of these bytes, and those that end a text."""

    def build() -> BoolArray:
        array = np.array([bool(t) and bool(given[t[0]]) for t in vocabulary.tokens])
        if given[END]:
            array |= vocabulary.eos_mask.array
        return array

    key = ("begins within", given.tobytes())
    mask: TokenMask = vocabulary.mask(key, "what was narrowed to", build)
    return mask
