"""LLaMPPL's verbs, corrected and masked on the model's own context.

On anything else they are LLaMPPL's own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..protocol.requests import Mass
from ..protocol.stream import Stream
from ..protocol.vocabulary import intersect
from .context import FollowerContext
from .distributions import MaskDist, NextToken, token_id
from .tokens import TokenMethods

__all__ = ["VerbMethods"]


class VerbMethods(TokenMethods):
    """``sample``, ``observe`` and ``intervene`` of :class:`BaseModel`."""

    async def sample(self, dist: Any, proposal: Any = None) -> Any:
        """LLaMPPL's ``sample``; on this model's own context, corrected like :meth:`next_token`.

        ``context.next_token()`` keeps LLaMPPL's support, end of text included.
        """
        _need_distribution("sample", dist)
        if proposal is None and getattr(dist, "ctx", None) is self.context:
            await self._settle()
            if isinstance(dist, NextToken):
                token = await self._draw(None)
                if int(token) in self.context.follower.vocabulary.eos:
                    self.finish_reason = "ended"
                return token
            if isinstance(dist, MaskDist):
                return await self._branch(dist.mask, self._allowed(None))
        with _keyed_numpy(self.random, dist, proposal):
            return await super().sample(dist, proposal)

    async def observe(self, dist: Any, x: Any) -> Any:
        """LLaMPPL's ``observe``; on this model's own context, scored under the prior."""
        _need_distribution("observe", dist)
        if getattr(dist, "ctx", None) is not self.context:
            value = await super().observe(dist, x)
            # LLaMPPL lets it step on with weight zero; where all are so, its run never ends.
            if self.weight == -math.inf:
                self._die("condition_false", f"{x!r} was observed and has probability zero")
            return value
        if isinstance(dist, NextToken):
            token = token_id(self.context, x)
            if token in self.context.follower.vocabulary.eos:
                await self.end()
            else:
                what = str(self.context.token(token)) if self._explained else ""
                await self._observe_tokens((token,), "observe", what)
        else:
            await self._settle()
            await self._observe_mask(dist.mask if x else ~dist.mask)
        return x

    async def intervene(self, dist: Any, x: Any) -> Any:
        """LLaMPPL's ``intervene``: the value is put there, and the weight does not change."""
        _need_distribution("intervene", dist)
        if getattr(dist, "ctx", None) is not self.context:
            return await super().intervene(dist, x)
        await self._settle()
        if isinstance(dist, NextToken):
            self._room_for(1)
            self._append(token_id(self.context, x))
        else:
            mask = dist.mask if x else ~dist.mask
            scored = self.prior or self.context
            both = mask if scored.pending is None else intersect(scored.pending, mask)
            self._narrow(mask, await scored.follower.ask(Mass(scored.prefix, both, scored.temp)))
        return x


def _need_distribution(verb: str, dist: Any) -> None:
    if not hasattr(dist, "log_prob"):
        raise TypeError(
            f"{verb}() takes a distribution such as self.context.next_token(), not "
            f"{type(dist).__name__}; to draw text write 'await self.next_word()', to put text "
            "there 'await self.force(text)'"
        )


class _keyed_numpy:
    """LLaMPPL's own distributions draw from numpy's global state: key it, then put it back."""

    def __init__(self, stream: Stream, *dists: Any) -> None:
        keyed = (FollowerContext,)
        self.foreign = any(
            d is not None and not isinstance(getattr(d, "ctx", None), keyed) for d in dists
        )
        self.stream = stream

    def __enter__(self) -> None:
        if self.foreign:
            self.state = np.random.get_state()
            np.random.seed(self.stream.getrandbits(32))

    def __exit__(self, *exc: object) -> None:
        if self.foreign:
            np.random.set_state(self.state)
