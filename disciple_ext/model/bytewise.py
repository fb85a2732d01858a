"""Text by the byte on a particle: what it knows of characters that are not tokens yet.

The text's probability is that of its characters, the sum over all token sequences that spell them
(see :mod:`disciple_ext.model.spelling.spelling`); prior and proposal each have their own sum. The
weight always holds the prior's probability of what is fixed so far, ``charged``; each verb charges
the ratio of the new one to the old one, so that nothing is counted twice.

A verb over tokens may follow. It needs one token sequence, for contexts hold tokens: one is chosen
by its probability, and that it ends where the characters do is observed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..protocol.measure import Role
from ..protocol.utf8 import valid_bytes
from ..protocol.vocabulary import TokenMask
from .particle import Particle
from .spelling.spelled import BoolArray, Spelled
from .spelling.spelling import END, Spelling, log_fsum

__all__ = ["BytewiseText", "shares_of"]


class BytewiseText(Particle):
    """A particle part of whose text may be characters without tokens, for :class:`BaseModel`."""

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

    async def _spell(self) -> Spelled:
        """The characters so far; the first verb that needs them begins them."""
        self._room_for(1)
        if self.spelled is None:
            tolerance, prior = self.char_tolerance, None
            if self.prior is not None:
                proposal = Spelling.after(self.context, tolerance, Role.PROPOSAL)
                prior = Spelling.after(self.prior, tolerance)
            elif self.context.follower.measure.split:
                # One context, but two distributions.
                proposal = Spelling.after(self.context, tolerance, Role.SHARED)
                prior = Spelling.after(self.context, tolerance)
            else:
                proposal = Spelling.after(self.context, tolerance)
            charged = (self.prior or self.context).log_pending
            spelled = Spelled(proposal, prior, charged, charged)
            # The blank at the end of a preface joins the first token of the text.
            blank, self.preface_rest = self.preface_rest, ""
            self.healed += len(blank)
            for byte in blank.encode():
                spelled = await self._then(spelled, byte)
            self.spelled = spelled
        return self.spelled

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
        # Together, so that prior and proposal share their forward passes.
        found = await asyncio.gather(*(s.following(only) for s in both))
        # The last is what is scored: the prior, or the proposal where there is none.
        log_text = float(found[-1][1][byte])
        if log_text == -math.inf:
            what = f"the model gives {chr(byte)!r} no probability here{self._under_measure}"
            self._die("impossible_mask", what)
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
        log_mass = log_fsum(logs[allowed])
        if log_mass == -math.inf:
            what = "nothing that may come next has any probability"
            self._die("impossible_mask", f"{what}{self._under_measure}")
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
        both = np.array([logs[END], log_fsum(logs[:END])])
        may = np.array([given[END], given[:END].any()])
        shares = shares_of(both, may, proposal)
        if shares is None:
            what = "nothing that may come next has any probability"
            self._die("impossible_mask", f"{what}{self._under_measure}")
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
            # The likeliest will do: the text is at its end, and no draw depends on its tokens.
            best = max(found, key=lambda pair: pair[1])[0]
            self._put_tokens(best.after(spelled.scored.begin))

    def _put_tokens(self, tokens: Iterable[int]) -> None:
        # First what may be lost, which is read from the characters; then they are gone.
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
            self._settle_preface()
            return
        given = spelled.given
        scored, _ = await spelled.scored.following(
            np.ones(END + 1, np.bool_) if given is None else given
        )
        found = scored.whole(given)
        log_mass = log_fsum([log for _, log in found])
        if log_mass == -math.inf:
            self._die("impossible_mask", "no token of the model ends where the characters do")
        self._charge("observe", log_mass - spelled.charged)
        shares = [math.exp(log - log_mass) for _, log in found]
        # Drawn, not the likeliest: the weight holds the sum of all, and more is drawn after it.
        chosen, log = found[self.random.choose(shares)]
        tokens = chosen.after(scored.begin)
        self.spelled = replace(spelled, lost=scored.lost(log_mass))
        self._put_tokens(tokens)
        if given is not None:
            # What was observed of the next byte goes on as a mask over tokens, whose mass with the
            # chosen tokens is known, without another request.
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


def shares_of(
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
    lost = proposal.lost(log_fsum(logs[allowed]))
    if lost > 0.0 and unknown.any():
        shares[unknown] = shares.sum() * lost / unknown.sum()
    return shares


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
