"""What a program asks of the host's services: replies, weights of the text, and tokens.

A potential gives a text a weight as a beginning (``prefix``) and as a whole (``complete``). A
particle is charged the difference to what it was charged before, so that in the end each text has
paid its whole weight once, however often it was weighed on the way.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, NoReturn

from ..protocol.requests import Call
from .distributions import Token
from .particle import Particle

__all__ = ["ServiceMethods"]


class ServiceMethods(Particle):
    """The services of :class:`BaseModel`."""

    async def ask(self, name: str, payload: Any = None) -> Any:
        """Ask the host's service ``name``; it gets and returns JSON data.

        Raises:
            ValueError: the run was given no such service, or the payload is no JSON.
            ServiceError: the service failed.
        """
        return await self.context.follower.ask(Call(name, payload))

    async def weigh(self, name: str, about: str = "", twist: bool = False) -> float:
        """Multiply the weight by what the potential ``name`` gives the text so far.

        Weighing again charges the difference, and ``end`` the weight of the whole text, so weigh
        before a text may end. With ``twist=True`` it counts until the next step: a look ahead.

        Args:
            name: a service that the run was given.
            about: what the text is about, for the service: a problem, a question.
            twist: whether the weight is taken back at the next step. To keep it for good, weigh
                the text once more, without, after ``end``.

        Returns:
            Natural log of the potential's weight of the text.

        Raises:
            ValueError: the run was given no such service.
            TypeError: the service gives no weight.
            ServiceError: the service failed.
        """
        # The service is told tokens, so that characters without one need theirs first.
        await self._settle()
        log_weight = await self._log_weight(name, about)
        if twist:
            # A twist of minus infinity could not be taken back.
            if log_weight == -math.inf:
                self._die_of_weight(name)
            self.twist(log_weight)
        else:
            self._weigh(name, about, log_weight)
        return log_weight

    async def draw_with(self, name: str) -> Token | None:
        """Draw the next token with the token sampler of the potential ``name``.

        It draws under the proposal and the potential at once, and evaluates the potential on few
        tokens; the weight is corrected. The text may end here: then the result is None, and the
        particle is finished.

        Raises:
            ValueError: the run was given no such service.
            TypeError: the service draws no tokens.
            ServiceError: the service failed.
        """
        await self._settle()
        self._room_for(1)
        ctx, prior = self.context, self.prior
        payload = {
            # The service draws by this number, so that the run's seed decides its draws, too.
            "draw": self.random.getrandbits(60),
            "prompt": list(ctx.prompt),
            "prior": None if prior is None else list(prior.prompt),
            "tokens": ctx.generated,
            "temperature": ctx.temp,
        }
        match await self.ask(name, payload):
            case {
                "token": token,
                "before": before,
                "after": after,
                "log_weight": log_weight,
                "log_p": log_p,
                "log_q": log_q,
            }:
                pass
            case reply:
                raise TypeError(
                    f"the service {name!r} draws no tokens, but gave {reply!r:.80}; it takes a "
                    "PotentialService, or use `await self.weigh(name)`"
                )
        self._weigh(name, "", before)
        if log_weight == -math.inf:
            self._die("impossible_mask", f"{name!r} leaves no next token")
        pending = ctx.pending
        if token is None:
            ruled_out = pending is not None and not ctx.follower.vocabulary.eos & pending
            if ruled_out or self.masks.may_end is False:
                self._die_of_mask(None, "the end of the text")
        else:
            allowed = self._allowed(None)
            if allowed is not None and token not in allowed:
                self._die_of_mask(None, f"{ctx.token(token)!r}, drawn with {name!r},")
        self._charge("draw", log_weight - (prior or ctx).log_pending)
        self.log_prior += log_p
        self.log_proposal += log_q
        # What was drawn has paid for the potential already.
        self.weighed[name, ""] = after
        if token is not None:
            self._append(token)
            return ctx.token(token)
        self.finish_reason = "ended"
        await self._charge_whole()
        self.finish()
        return None

    async def _charge_whole(self) -> None:
        """Charge every potential that the text was weighed by the weight of the whole text."""
        if not self.weighed:
            return
        keys = list(self.weighed)
        logs = await asyncio.gather(*(self._log_weight(*key) for key in keys))
        for (name, about), log_weight in zip(keys, logs, strict=True):
            self._weigh(name, about, log_weight)

    def _weigh(self, name: str, about: str, log_weight: float) -> None:
        if log_weight == -math.inf:
            self._die_of_weight(name)
        self._charge("weigh", log_weight - self.weighed.get((name, about), 0.0), name)
        self.weighed[name, about] = log_weight

    def _die_of_weight(self, name: str) -> NoReturn:
        self._die("condition_false", f"{name!r} gives the text a weight of zero")

    async def _log_weight(self, name: str, about: str) -> float:
        eos = self.context.follower.vocabulary.eos
        payload = {
            "text": self.text,
            # A drawn end of text is no part of the text: `ended` says it.
            "tokens": [token for token in self.context.generated if token not in eos],
            "ended": self.finished or self.finish_reason == "ended",
            "about": about,
        }
        reply = await self.ask(name, payload)
        # A bool is an int, and a yes or no is no log weight.
        if isinstance(reply, bool) or not isinstance(reply, int | float):
            raise TypeError(
                f"the service {name!r} gives no log weight of a text, but {reply!r:.80}; ask it by "
                f"`await self.ask({name!r}, ...)`"
            )
        if math.isnan(reply) or reply == math.inf:
            raise ValueError(f"the service {name!r} gives a log weight of {reply}")
        return float(reply)
