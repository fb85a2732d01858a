"""A generation in progress: one prompt, the tokens after it, and what is pending.

A drop-in for LLaMPPL's ``LMContext``: ``next_token()`` and ``mask_dist()`` are LLaMPPL
distributions, so a plain ``llamppl.Model`` can use it, by one changed import. The logits stay with
the follower; a context is a few values that its copies share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from llamppl.distributions.lmcontext import LMContext
from numpy.typing import NDArray

from ..protocol.follower import Follower
from ..protocol.measure import Role
from ..protocol.prefix import Prefix
from ..protocol.requests import LogProbs, Mass, Tokens
from ..protocol.stream import Stream
from ..protocol.vocabulary import TokenMask, intersect, unfinished
from .distributions import MaskDist, NextToken, Token, renormalise

__all__ = ["FollowerContext"]


class FollowerContext(LMContext):  # type: ignore[misc]  # llamppl ships no types
    """A text in progress under one prompt.

    Attributes:
        follower: the model.
        prefix: the prompt and everything after it, as requests name it.
        temp: temperature of every request; it multiplies the base measure's.
        role: ``PLAIN``: draws and scores are of one distribution. A particle's own contexts are
            ``PRIOR``, which the base measure's proposal and power are for.
        pending: tokens not ruled out by mask draws that no token has consumed yet, or None.
        log_pending: log of this context's own mass of ``pending`` (0 where it is None).
        random: source of this context's draws.
    """

    def __init__(
        self,
        lm: Any,
        prompt: str | Tokens,
        temp: float = 1.0,
        show_prompt: bool = False,
        show_eos: bool = True,
        *,
        random: Stream | None = None,
    ) -> None:
        """Open a context; no request is made before the first one is needed.

        Args:
            lm: the model: a :class:`Follower`, or a :class:`~disciple_ext.FollowerLM` over one,
                with which the context reads and shows text as ``LMContext`` does.
            prompt: a user message, which a follower puts into its chat format and a
                ``FollowerLM`` encodes as it is; or ready token ids.
            temp: temperature, above 0.
            show_prompt: whether ``str`` includes the prompt (with a ``FollowerLM``).
            show_eos: whether ``str`` includes the end of text (with a ``FollowerLM``).
            random: stream of the draws; where it is None, one that numpy's global generator
                seeds, so that ``np.random.seed`` repeats a run as it does with ``LMContext``.
        """
        inner = getattr(lm, "follower", None)
        self.follower: Follower = lm if inner is None else inner
        self._lm = None if inner is None else lm
        self.user = prompt if isinstance(prompt, str) else ""
        if not isinstance(prompt, str):
            ids: Tokens = tuple(prompt)
        else:
            ids = self.follower.prompt(prompt) if inner is None else lm.tokenizer.encode(prompt)
        self._start = Prefix.of(ids)
        self.prefix = self._start
        self.show_prompt = show_prompt
        self.show_eos = show_eos
        # The text of the tokens up to a node, and the bytes at its end that are no text yet.
        self._decoded = (self._start, "", b"")
        self.temp = temp
        self.role = Role.PLAIN
        self.pending: TokenMask | None = None
        self.log_pending = 0.0
        self.random = random if random is not None else Stream(np.random.randint(2**31))

    @classmethod
    async def create(cls, *args: Any, **kwargs: Any) -> FollowerContext:
        """Open a context, as ``LMContext.create`` does; there is nothing to wait for."""
        return cls(*args, **kwargs)

    # What LLaMPPL's code reads ------------------------------------------------------------

    @property
    def lm(self) -> Any:
        """The model as it was given."""
        return self.follower if self._lm is None else self._lm

    @property
    def prompt_token_count(self) -> int:
        """Tokens of the prompt."""
        return len(self._start)

    @property
    def prompt_string_length(self) -> int:
        """Characters of the prompt as ``lm.tokenizer`` decodes it."""
        return len(self.lm.tokenizer.decode(list(self._start.tokens)))

    @property
    def model_mask(self) -> TokenMask:
        """What has not been ruled out as the next token."""
        within, vocabulary = self.drawable, self.follower.vocabulary
        if within is None:
            within = vocabulary.mask("every id", "all", lambda: np.ones(vocabulary.size, np.bool_))
        return within

    @property
    def next_token_logprobs(self) -> NDArray[np.float32]:
        """The next-token distribution given what is pending, natural logs; a copy.

        It makes the caller wait for a request of its own, and needs a ``FollowerLM``; where a
        coroutine can wait, ``await logprobs()`` is the better way.
        """
        vector = self.lm.next_token_logprobs_unbatched(self.tokens) / self.temp
        return renormalise(vector, self.model_mask)

    @property
    def tokens(self) -> list[int]:
        """Token ids of the prompt and of everything after it (a copy)."""
        return list(self.prefix.tokens)

    @property
    def token_count(self) -> int:
        """Tokens after the prompt."""
        return len(self.prefix) - len(self._start)

    @property
    def generated(self) -> list[int]:
        """Token ids after the prompt, forced ones and a drawn end of text included (a copy)."""
        return list(self.prefix.after(self._start))

    @property
    def prompt(self) -> Tokens:
        """Token ids of the prompt; setting them puts another prompt before the same text."""
        return self._start.tokens

    @prompt.setter
    def prompt(self, tokens: Tokens) -> None:
        # The text's tokens stay as they are; the nodes that were decoded belong to the old prompt.
        generated = self.generated
        self._start = Prefix.of(tokens)
        self.prefix = self._start.extend(generated)
        self._decoded = (self._start, "", b"")

    def next_token(self) -> NextToken:
        """Distribution of the next token, end of text included."""
        return NextToken(self)

    def mask_dist(self, mask: AbstractSet[int]) -> MaskDist:
        """Distribution of whether the next token is in ``mask``.

        The outcome stays pending: the token that follows is drawn and scored given it.
        """
        return MaskDist(self, mask)

    def __str__(self) -> str:
        if self._lm is not None:
            return str(super().__str__())
        # A text is read at every step: only what came since the last time is decoded.
        node, text, rest = self._decoded
        if node is not self.prefix:
            tokens = self.follower.vocabulary.tokens
            data = rest + b"".join(tokens[i] for i in self.prefix.after(node))
            rest = unfinished(data)
            text += data[: len(data) - len(rest)].decode("utf-8", errors="replace")
            self._decoded = (self.prefix, text, rest)
        return text

    def __deepcopy__(self, memo: dict[int, Any]) -> FollowerContext:
        clone = memo[id(self)] = type(self).__new__(type(self))
        # Prefixes and masks are immutable, so a clone shares them; only its randomness is its own.
        clone.__dict__.update(self.__dict__)
        clone.random = (
            self.random.__deepcopy__(memo) if id(self.random) not in memo else memo[id(self.random)]
        )
        return clone

    # State changes ------------------------------------------------------------------------

    @property
    def drawable(self) -> TokenMask | None:
        """What may come next: the pending mask and the ids the tokenizer knows."""
        exists = self.follower.vocabulary.exists
        if exists is None or self.pending is None:
            return exists if self.pending is None else self.pending
        return intersect(exists, self.pending)

    def append(self, token: int) -> None:
        """Add a token; whatever was pending is consumed by it."""
        self.prefix = self.prefix.then(token)
        self.pending, self.log_pending = None, 0.0

    def narrow(self, mask: TokenMask, log_mass: float) -> None:
        """Rule out every token outside ``mask``, whose mass with what is pending is given."""
        self.pending = mask if self.pending is None else intersect(self.pending, mask)
        self.log_pending = log_mass

    async def log_given(self) -> float:
        """Log mass of what may come next, on which a draw of this context is conditioned."""
        exists = self.follower.vocabulary.exists
        if self.pending is not None or exists is None:
            return self.log_pending
        # Ids that the tokenizer lacks have mass, too: undivided, the others' sum would be below 1.
        return float(await self.follower.ask(Mass(self.prefix, exists, self.temp, Role.PLAIN)))

    async def logprobs(self) -> NDArray[np.float32]:
        """The whole next-token distribution, shape (vocabulary,), natural logs.

        Pending masks are not applied; ids that the tokenizer lacks are -inf. Ask for it only
        where a mask will not do: it copies a vector of the vocabulary's size.
        """
        vector = await self.follower.ask(LogProbs(self.prefix, self.temp, Role.PLAIN))
        return renormalise(vector, self.follower.vocabulary.exists)

    def coerce(self, mask: AbstractSet[int]) -> TokenMask:
        """``mask`` as a :class:`TokenMask` over this follower's vocabulary."""
        if isinstance(mask, TokenMask):
            return mask
        vocabulary = self.follower.vocabulary
        remembered: Any = getattr(mask, "as_mask", None)  # a drop-in lm's own set
        if remembered is not None:
            return remembered(vocabulary.size)  # type: ignore[no-any-return]
        # One mask for equal sets, since masks are told apart by identity.
        array = np.zeros(vocabulary.size, dtype=np.bool_)
        try:
            ids = np.fromiter(map(int, mask), np.int64, len(mask))
        except ValueError as error:
            raise TypeError(
                "mask_dist() takes ids of tokens, not texts; for marks write "
                "'await self.wants(\".!?\")' or a PunctuationMask"
            ) from error
        array[ids[(ids >= 0) & (ids < len(array))]] = True
        # Found by a digest: with the bytes themselves each key would be as long as the vocabulary.
        return vocabulary.mask(
            ("ids", hashlib.blake2b(array.data).digest()), "tokens", lambda: array
        )

    def token(self, token_id: int) -> Token:
        """The token with this id, as its text."""
        data = self.follower.vocabulary.tokens[token_id]
        return Token(data.decode("utf-8", errors="replace"), token_id, self._lm)
