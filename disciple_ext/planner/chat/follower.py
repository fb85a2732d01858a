"""The follower as its own planner: one model writes the program, and runs under it.

This is the paper's self-steering in its plainest form. The model writes freely, token by token,
through the protocol that programs use, so every follower with a chat template can do it, and it
shares weights and cache with the run that follows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import PlannerError, UsageError
from ...protocol.follower import BaseFollower
from ...protocol.prefix import Prefix
from ...protocol.requests import Draw
from ...records.events import PlannerWriting
from ...records.result import Usage
from ...records.task import Task
from ..base import Feedback, Plan, Planner, Runner
from ..events import emit
from .base import Answer, Chat, Messages
from .planner import EXAMPLES, ChatPlanner
from .recording import RecordingChat

__all__ = ["FollowerChat", "FollowerPlanner"]


class FollowerChat:
    """A conversation with a follower.

    Args:
        follower: a follower with a chat template.
        run: where its work is done, or None for the loop that asks.
        temperature: divides the logits.
        max_output_tokens: limit of an answer.
    """

    name = "follower"

    def __init__(
        self,
        follower: BaseFollower,
        run: Runner | None = None,
        *,
        temperature: float = 0.7,
        max_output_tokens: int = 2048,
    ) -> None:
        self.model = follower.name
        parameters = {"temperature": temperature, "max_output_tokens": max_output_tokens}
        self.identity: Mapping[str, Any] = {"model": self.model, "parameters": parameters}
        self._follower = follower
        self._run = run
        self._temperature = temperature
        self._most = max_output_tokens

    def limited(self, tokens: int) -> FollowerChat:
        """The same follower with answers of at most so many tokens."""
        most = min(tokens, self._most)
        return FollowerChat(
            self._follower, self._run, temperature=self._temperature, max_output_tokens=most
        )

    def quote(self, messages: Messages, *, retry: int) -> float | None:
        """Nothing: it runs here."""
        return 0.0

    async def ask(self, messages: Messages, *, retry: int) -> Answer:
        """Draw an answer; the same conversation and retry give the same one.

        Raises:
            UsageError: the follower has no chat template.
            PlannerError: the conversation is too long for it.
            FollowerError: it failed.
        """
        work = self._write(messages, retry)
        answer: Answer = await (work if self._run is None else self._run(work))
        return answer

    async def _write(self, messages: Messages, retry: int) -> Answer:
        follower, vocabulary = self._follower, self._follower.vocabulary
        prompt = follower.conversation(messages)
        most, limit = self._most, follower.max_context
        if limit is not None and len(prompt) >= limit:
            error = PlannerError(
                f"what the planner is told takes {len(prompt):,} tokens, and the follower "
                f"{self.model!r} takes {limit:,}; use a model with a longer context as planner"
            )
            # Known to be nothing: an unknown cost would make that of the whole run unknown.
            error.cost = 0.0
            raise error
        if limit is not None:
            most = min(most, limit - len(prompt))
        context, written, finish = Prefix.of(prompt), [], "length"
        # Without a mask, special tokens could be drawn, which begin another role's message.
        allowed = vocabulary.text_mask | vocabulary.eos_mask
        # With the retry in the key: a second call must not write the same program again.
        uniform = np.random.default_rng([0x70_1A_4E, retry])
        for count in range(1, most + 1):
            u, temperature = float(uniform.random()), self._temperature
            drawn = await follower.ask(Draw(context, None, allowed, u, temperature))
            # Below 0: nothing could be drawn under the mask.
            if drawn.token < 0 or drawn.token in vocabulary.eos:
                finish = "stop"
                break
            written.append(drawn.token)
            context = context.then(drawn.token)
            # Not each time: to tell of it, the whole answer is decoded.
            if count % 16 == 0:
                emit(PlannerWriting(len(vocabulary.decode(written))))
        usage = Usage(planner_input=len(prompt), planner_output=len(written))
        return Answer(vocabulary.decode(written), finish, None, usage, 0.0, model=self.model)


class FollowerPlanner(Planner):
    """The planner ``follower``, which is bound to a follower before it is asked.

    Args:
        record: directory into which every answer is written, for ``replay:DIR``, or None.

    Attributes:
        examples: as for :class:`ChatPlanner`.
    """

    name = "follower"
    trusted = False
    needs_follower = True

    def __init__(self, *, record: str | os.PathLike[str] | None = None) -> None:
        self.examples: str = EXAMPLES[0]
        self._record = record

    def bind(self, follower: BaseFollower, run: Runner | None = None) -> ChatPlanner:
        """The planner that asks this follower."""
        chat: Chat = FollowerChat(follower, run)
        planner = ChatPlanner(chat if self._record is None else RecordingChat(chat, self._record))
        planner.examples = self.examples
        return planner

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        """Not without a follower.

        Raises:
            UsageError: always.
        """
        raise UsageError("the planner 'follower' plans with a follower: bind it to one first")
