"""The text by the byte: the next-byte distribution of a language model over tokens.

A string of bytes has the probability of all token sequences that begin with it, each counted at
the token that reaches its end. A *hypothesis* is a token sequence that ends within the string and
the bytes that a next token must begin with; the trie of the vocabulary gives the mass of these
tokens, and how it parts by the next byte. Tokens that end exactly here begin further hypotheses.

These are *open* until the model is asked about them, which costs a forward pass. Of an open one it
is known only that it adds at most its own probability. So the likeliest are asked about until the
rest is at most ``tolerance`` of the whole, and what is left open is the mass that may be lost: the
probability of the string lies in [P, P / (1 - lost)]. With a tolerance of 0 all are asked about,
and the probability is exact.

Under a base measure with a power, each token sequence has its own probability to that power. With a
power below 1 these may sum to more than they would whole: what an open hypothesis adds is bounded
by the number of sequences that may follow it (:attr:`BaseMeasure.slack`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...protocol.follower import Follower
from ...protocol.measure import Role
from ...protocol.prefix import Prefix
from ...protocol.requests import Mass, NextBytes
from ...protocol.trie import TrieNode
from ...protocol.vocabulary import TokenMask, intersect
from ..context import FollowerContext

__all__ = ["END", "Hypothesis", "Spelling", "log_fsum"]

END = 256
"""Where the end of text stands among the next bytes."""

_MOST = 256
"""Hypotheses that the model is asked about for one byte at most, unless nothing may be lost."""
_KEPT = 512
"""Open hypotheses that are kept; the mass of further ones is lost for good."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A token sequence, and the bytes of the string past it, with which a token must begin.

    Attributes:
        prefix: the tokens, prompt included.
        start: bytes of the string that they spell.
        log_tokens: log-probability of the tokens.
        log_mass: the same together with that of a longer token that begins with the rest.
    """

    prefix: Prefix
    start: int
    log_tokens: float
    log_mass: float


@dataclass(frozen=True, slots=True)
class _Reply:
    """What the model said of a hypothesis: log masses by segment of the trie."""

    node: TrieNode
    logs: NDArray[np.float64]
    log_end: float


@dataclass(frozen=True, eq=False)
class Spelling:
    """A string of bytes after a context, with its hypotheses. Immutable: particles share it.

    Attributes:
        follower: the model.
        temperature: of its requests.
        begin: the text in tokens before the string.
        pending: what the first token was already narrowed to, or None.
        tolerance: share of the probability that may be lost.
        role: of its requests.
        data: the string.
        live: hypotheses that the model was asked about.
        open: those that it was not asked about.
        log_dropped: log of the probability of those that were forgotten.
    """

    follower: Follower
    temperature: float
    begin: Prefix
    pending: TokenMask | None
    tolerance: float
    role: Role = Role.PRIOR
    data: bytes = b""
    live: tuple[Hypothesis, ...] = ()
    open: tuple[Hypothesis, ...] = ()
    log_dropped: float = -math.inf
    replies: dict[Hypothesis, _Reply] = field(default_factory=dict, repr=False)

    @classmethod
    def after(cls, context: FollowerContext, tolerance: float, role: Role = Role.PRIOR) -> Spelling:
        """The empty string after a context, in a role."""
        follower, temperature, begin = context.follower, context.temp, context.prefix
        first = Hypothesis(begin, 0, 0.0, 0.0)
        pending = context.drawable
        return cls(follower, temperature, begin, pending, tolerance, role, open=(first,))

    def __deepcopy__(self, memo: object) -> Spelling:
        return self

    # Probabilities ------------------------------------------------------------------------

    async def following(self, allowed: NDArray[np.bool_]) -> tuple[Spelling, NDArray[np.float64]]:
        """What comes next: the log-probability of the string with each further byte.

        Args:
            allowed: what may come, shape (257,), the end of text last: what is lost will be small
                beside the probability of this.

        Returns:
            This string with as many hypotheses as it takes, and natural logs, shape (257,).
        """
        spelling, asked = self, 0
        while True:
            await spelling._ask()
            logs = spelling._logs()
            log_goal = log_fsum(logs[allowed])
            if asked >= _MOST and self.tolerance > 0.0 and log_goal > -math.inf:
                return spelling, logs
            chosen = spelling._likeliest(log_goal)
            if not chosen:
                return spelling, logs
            asked += len(chosen)
            spelling = await spelling._expanded(chosen)

    def _likeliest(self, log_goal: float) -> list[Hypothesis]:
        """The open hypotheses without which the rest is a small share; none where it is one."""
        if log_goal == -math.inf or self.tolerance == 0.0:
            return list(self.open)
        ranked = sorted(self.open, key=self._log_most, reverse=True)
        most = self.tolerance / (1.0 - self.tolerance)
        # What was forgotten cannot be asked about: it takes at most half of what may be lost.
        share, keep = min(math.exp(min(0.0, self.log_dropped - log_goal)), most / 2), 0
        # From the unlikeliest on, so that as many as can be stay open.
        for h in reversed(ranked):
            # Bounded: an open one may exceed all that is known by far, and `exp` would overflow.
            share += math.exp(min(1.0, self._log_most(h) - log_goal))
            if share > most:
                break
            keep += 1
        return ranked[: len(ranked) - keep]

    def lost(self, log_goal: float) -> float:
        """The share of a probability that may be lost, in [0, 1]: what is open beside it."""
        log_open = log_fsum([self.log_dropped, *map(self._log_most, self.open)])
        if log_open == -math.inf:
            return 0.0
        return math.exp(log_open - log_fsum([log_open, log_goal]))

    def _log_most(self, h: Hypothesis) -> float:
        """Log of what an open hypothesis can add at most."""
        if not self._slack:
            return h.log_tokens
        # What may follow it is no more than the ways to cut the rest, each with any last token.
        rest = len(self.data) - h.start
        ways = rest * math.log(2.0) + math.log(self.follower.vocabulary.size)
        return h.log_tokens + self._slack * ways

    @property
    def _slack(self) -> float:
        return self.follower.measure.slack if self.role == Role.PRIOR else 0.0

    # Hypotheses ---------------------------------------------------------------------------

    async def _expanded(self, chosen: list[Hypothesis]) -> Spelling:
        """Ask the model about open hypotheses, and follow the string from each of them."""
        walked = await asyncio.gather(*(self._walk(h) for h in chosen))
        live, new = list(self.live), []
        for remains, spawned in walked:
            live += remains
            new += spawned
        gone = set(map(id, chosen))
        left = [h for h in self.open if id(h) not in gone]
        return self._with(live, [*left, *new], self.data)

    async def _walk(self, h: Hypothesis) -> tuple[list[Hypothesis], list[Hypothesis]]:
        """What becomes of a hypothesis on the way from its start to the end of the string."""
        rest = self.data[h.start :]
        trie = self.follower.vocabulary.trie
        steps = min(len(rest), trie.longest)
        # All at once: one forward pass answers them.
        nodes = []
        for length in range(steps):
            node = trie.node(rest[:length])
            if not len(node.starts):
                break
            nodes.append((length, node))
        replies = await asyncio.gather(*(self._next_bytes(h, rest[:k]) for k, _ in nodes))
        spawned: list[Hypothesis] = []
        log_mass = h.log_tokens
        for (length, node), logs in zip(nodes, replies, strict=True):
            reply = _Reply(node, logs, -math.inf)
            exact, log_mass = _follow(h, reply, rest[length], h.start + length + 1)
            spawned += exact
            if log_mass == -math.inf:
                return [], spawned
        if len(nodes) < len(rest):
            return [], spawned
        return [replace(h, log_mass=log_mass)], spawned

    async def _ask(self) -> None:
        """Get what is not known yet of the live hypotheses: their next bytes, and their ends."""
        unknown = [h for h in self.live if h not in self.replies]
        begun = [self.data[h.start :] for h in unknown]
        asked = (self._next_bytes(h, b) for h, b in zip(unknown, begun, strict=True))
        ends = (self._end(h) for h in unknown)
        logs, log_ends = await asyncio.gather(asyncio.gather(*asked), asyncio.gather(*ends))
        for h, b, some, log_end in zip(unknown, begun, logs, log_ends, strict=True):
            # In place: the answers are the same for all particles that share this string.
            self.replies[h] = _Reply(self.follower.vocabulary.trie.node(b), some, log_end)

    async def _next_bytes(self, h: Hypothesis, begun: bytes) -> NDArray[np.float64]:
        pending = self.pending if h.prefix is self.begin else None
        return await self.follower.ask(
            NextBytes(h.prefix, begun, pending, self.temperature, self.role)
        )

    async def _end(self, h: Hypothesis) -> float:
        if h.start < len(self.data):
            return -math.inf
        eos = self.follower.vocabulary.eos_mask
        if self.pending is not None and h.prefix is self.begin:
            eos = intersect(eos, self.pending)
        return await self.follower.ask(Mass(h.prefix, eos, self.temperature, self.role))

    def _logs(self) -> NDArray[np.float64]:
        """Log-probability of the string with each further byte, and with the end of text."""
        top = max((h.log_mass for h in self.live), default=0.0)
        sums = np.zeros(END + 1)
        for h in self.live:
            reply, scale = self.replies[h], h.log_tokens - top
            # Not `+=`: one byte has several segments, and only the last of them would count.
            np.add.at(sums, reply.node.bytes, np.exp(reply.logs + scale))
            sums[END] += math.exp(reply.log_end + scale)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(sums) + top)

    def then(self, byte: int) -> Spelling:
        """The string with one byte more, of which :meth:`following` has told."""
        data = self.data + bytes([byte])
        live: list[Hypothesis] = []
        new: list[Hypothesis] = []
        for h in self.live:
            exact, log_mass = _follow(h, self.replies[h], byte, len(data))
            new += exact
            if log_mass > -math.inf:
                live.append(replace(h, log_mass=log_mass))
        return self._with(live, [*self.open, *new], data)

    def _with(self, live: list[Hypothesis], new: list[Hypothesis], data: bytes) -> Spelling:
        dropped = self.log_dropped
        # With slack none is: what one may add would grow with the bytes that it has to spell.
        if self.tolerance > 0.0 and len(new) > _KEPT and not self._slack:
            new.sort(key=lambda h: -h.log_tokens)
            dropped = log_fsum([dropped, *(h.log_tokens for h in new[_KEPT:])])
            new = new[:_KEPT]
        return replace(
            self,
            data=data,
            live=tuple(live),
            open=tuple(new),
            log_dropped=dropped,
            # Replies are about what comes after the string, so that another string has none yet.
            replies=self.replies if data == self.data else {},
        )

    def whole(self, allowed: NDArray[np.bool_] | None) -> list[tuple[Prefix, float]]:
        """The tokens that spell exactly the string, and the log of their probability.

        Args:
            allowed: what the byte after them may be, shape (257,), or None for anything. With it
                only hypotheses that the model was asked about are given.
        """
        if allowed is None:
            every = (*self.live, *self.open)
            return [(h.prefix, h.log_tokens) for h in every if h.start == len(self.data)]
        found = []
        for h in self.live:
            if h.start == len(self.data):
                reply = self.replies[h]
                logs = [*reply.logs[allowed[reply.node.bytes]], reply.log_end]
                found.append(
                    (h.prefix, h.log_tokens + log_fsum(logs if allowed[END] else logs[:-1]))
                )
        return found


def _follow(h: Hypothesis, reply: _Reply, byte: int, end: int) -> tuple[list[Hypothesis], float]:
    """The hypotheses that end with this byte, and the log mass of the tokens that go on."""
    first, last = np.searchsorted(reply.node.bytes, [byte, byte + 1])
    exact, log_mass = [], -math.inf
    for segment in range(first, last):
        log = float(reply.logs[segment]) + h.log_tokens
        token = reply.node.tokens[segment]
        if token < 0:
            log_mass = log
        elif log > -math.inf:
            exact.append(Hypothesis(h.prefix.then(token), end, log, log))
    return exact, log_mass


def log_fsum(logs: Sequence[float] | NDArray[np.float64]) -> float:
    """Log of the sum of the exponentials, exactly rounded; minus infinity for none.

    Unlike the sum of log weights in :mod:`disciple_ext.samplers.weights` it does not depend on the
    order: hypotheses of one string come in the order in which they were found, and the string has
    one probability.
    """
    top = max(logs, default=-math.inf)
    if top == -math.inf:
        return -math.inf
    return float(top + math.log(math.fsum(math.exp(log - top) for log in logs)))
