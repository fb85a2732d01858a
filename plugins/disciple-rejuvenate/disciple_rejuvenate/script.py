"""A step's draws, noted and repeated: how a text keeps its suffix when a span before it changes.

A particle is a program in the middle of its run, so its text cannot be changed from outside. What
can be changed is the answer to its draws. For the length of one step a :class:`Script` stands
between the particle's context and the follower. It notes each outcome; and where outcomes of an
earlier step are given, it answers with them and asks the follower only for what they are worth, so
that the program's weight is that of the text it now has.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llamppl.modeling import Model

from disciple_ext import FollowerContext
from disciple_ext.protocol.measure import Role
from disciple_ext.protocol.prefix import Prefix
from disciple_ext.protocol.requests import (
    Branch,
    Branched,
    Draw,
    Drawn,
    Mass,
    Reply,
    Request,
    Score,
)

__all__ = ["Script"]

_HIGHEST = 1.0 - 2.0**-53


class Script:
    """The follower as a particle sees it during one step.

    An outcome is the token of a draw or the truth of a branch. From the first one that does not fit
    (another kind of request, a token that the masks rule out, none left), the rest of the step is
    drawn anew. Only draws of the particle's own context count: those of a judge that the program
    has opened pass through.

    Attributes:
        outcomes: what came of the step's draws, in order.
        log_q: log-probability of these outcomes under the proposal with its masks (nats).
    """

    def __init__(self, particle: Model, wanted: Sequence[int | bool] = ()) -> None:
        """Stand in for the follower of a particle, until :meth:`close`.

        Args:
            particle: the particle, about to be stepped; one without a context of ours draws as
                ever.
            wanted: outcomes to repeat.
        """
        self.outcomes: list[int | bool] = []
        self.log_q = 0.0
        self._wanted = list(wanted)
        self._context: FollowerContext | None = None
        context = getattr(particle, "context", None)
        if isinstance(context, FollowerContext):
            self._context, self._follower = context, context.follower
            context.follower = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._follower, name)

    def __deepcopy__(self, memo: object) -> Script:
        return self

    def close(self) -> None:
        """Put the follower back; contexts that were opened meanwhile get through to it."""
        if self._context is not None:
            self._context.follower = self._follower
            self._context = None

    async def ask(self, request: Request) -> Reply:
        """Answer as the follower does, with the outcome that is wanted where there is one."""
        if isinstance(request, Draw) and self._is_ours(request):
            drawn = await self._repeated_draw(request)
            if drawn is None:
                self._wanted.clear()
                drawn = await self._follower.ask(request)
            if drawn.token >= 0:  # else the masks leave nothing, and the particle dies
                self.outcomes.append(drawn.token)
                self.log_q += drawn.log_q - drawn.log_mass
            return drawn
        if isinstance(request, Branch) and self._is_ours(request):
            branched = await self._repeated_branch(request)
            if branched is None:
                self._wanted.clear()
                branched = await self._follower.ask(request)
            self.outcomes.append(branched.value)
            self.log_q += branched.log_q
            return branched
        return await self._follower.ask(request)

    def _is_ours(self, request: Draw | Branch) -> bool:
        return self._context is not None and request.proposal is self._context.prefix

    async def _repeated_branch(self, request: Branch) -> Branched | None:
        """The outcome that is wanted next, where the follower gives it; else None."""
        wanted = self._wanted.pop(0) if self._wanted else None
        if not isinstance(wanted, bool):
            return None
        # The smallest number draws what is possible of True, the largest of False.
        branched = await self._follower.ask(replace(request, u=0.0 if wanted else _HIGHEST))
        return branched if branched.value == wanted else None

    async def _repeated_draw(self, request: Draw) -> Drawn | None:
        """What a draw of the token wanted next is answered with; None where it cannot be drawn."""
        token = self._wanted.pop(0) if self._wanted else None
        mask = request.mask
        if token is None or isinstance(token, bool) or (mask is not None and token not in mask):
            return None
        # Asked at once, so that they are in one batch.
        log_q, log_mass, log_p = await asyncio.gather(
            self._log_prob(request.proposal, token, request.temperature, request.drawn_as),
            self._log_mass(request),
            # Of one context, too: the base measure may give it two distributions.
            self._log_prob(
                request.prior or request.proposal, token, request.temperature, request.role
            ),
        )
        if log_q == -math.inf:
            return None
        return Drawn(token, log_q, log_mass, log_p)

    async def _log_prob(self, context: Prefix, token: int, temperature: float, role: Role) -> float:
        (log_p,) = await self._follower.ask(Score(context, (token,), temperature, role))
        return log_p

    async def _log_mass(self, request: Draw) -> float:
        if request.mask is None:
            return 0.0
        asked = Mass(request.proposal, request.mask, request.temperature, request.drawn_as)
        return await self._follower.ask(asked)
