"""The host side of the follower protocol: requests that wait together are one batch.

Requests are collected until every runnable particle waits; then the contexts that are not yet
known go to the backend as one batch (:mod:`.remembered`), and all draws of the round are made in a
few vectorised operations on its logits (:mod:`.replies`). A bad request fails alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..errors import DiscipleError, FollowerError
from ..protocol.follower import BaseFollower
from ..protocol.requests import Request, Score, Tokens
from ..protocol.rounds import Rounds
from ..protocol.vocabulary import Vocabulary
from ..protocol.waiting import Deliver, Waiting
from .backend import Backend
from .chat_template import ChatPrompt
from .remembered import Remembered
from .replies import Replies

__all__ = ["Backend", "HostFollower"]


class HostFollower(BaseFollower):
    """A follower in this process.

    Attributes:
        name: spec it was loaded from.
        vocabulary: its tokens.
        computing: whether a batch is being answered at this moment.
    """

    computing = False
    takes_measures = True

    def __init__(
        self,
        backend: Backend,
        vocabulary: Vocabulary,
        prompt: Callable[[str, str], Tokens],
        *,
        name: str,
        remembered: int = 1024,
        threads: int | None = None,
    ) -> None:
        """Wrap a backend.

        Args:
            backend: what computes logits.
            vocabulary: the model's tokens.
            prompt: (user message, hint) to token ids.
            name: for results and messages.
            remembered: distributions kept for contexts that are asked about again.
            threads: CPU threads to compute with, or None for torch's own setting. A model of a
                few million parameters gains nothing from more than one, and loses everything
                (OpenMP's threads spin) where other programs want the cores too.
        """
        self.backend = backend
        self.vocabulary = vocabulary
        self.name = name
        self._prompt = prompt
        self._threads = threads
        self._waiting: list[Waiting] = []
        self._flush: asyncio.Task[None] | None = None
        # Some 128 MiB of logits: those of eight runs of 32 particles under two prompts.
        most = max(64, min(remembered, 2**27 // (4 * vocabulary.size)))
        self._known = Remembered(backend, most)
        self._replies = Replies(self._known, vocabulary)

    @property
    def forwards(self) -> int:
        """Forward passes of the backend so far."""
        return self.backend.forwards

    def forget(self) -> None:
        """Drop all that was computed, so that what comes is computed as in a new process.

        What is known of a text decides how the rest is batched, and so its rounding. Nothing may
        be under way.
        """
        self._known.forget()
        self.backend.forget()

    def prompt(self, user: str, hint: str = "") -> Tokens:
        """Token ids of a user message, ready for the answer's text (see the protocol)."""
        return self._prompt(user, hint)

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> Tokens:
        """Token ids of a conversation, ready for the answer's text.

        Raises:
            UsageError: the model has no chat template.
            FollowerError: its chat template fails on these messages.
        """
        if not isinstance(self._prompt, ChatPrompt):
            return super().conversation(messages)
        return self._prompt.conversation(messages)

    @property
    def max_context(self) -> int | None:
        """Tokens that a context may have, or None for no limit."""
        return self.backend.max_context

    def submit(self, request: Request, deliver: Deliver) -> Waiting:
        """Answer one request in the round that comes next (see the base class)."""
        waiting = Waiting(request, deliver)
        loop = waiting.loop
        self._waiting.append(waiting)
        if self._flush is None or self._flush.done() or self._flush.get_loop() is not loop:
            # Those of a loop that has ended can be told nothing any more.
            self._waiting = [w for w in self._waiting if w.loop is loop]
            self._flush = loop.create_task(self._collect())
        return waiting

    async def _collect(self) -> None:
        rounds = Rounds()
        while self._waiting:
            seen = -1
            while seen != len(self._waiting):  # until a pass over the loop adds no request
                seen = len(self._waiting)
                await asyncio.sleep(0)
            # Those who hear of an error at once may ask again: that is of the next round.
            waiting, self._waiting = self._waiting, []
            batch = [w for w in waiting if not w.over and self._sound(w)]
            batch, held = rounds.next(batch, lambda w: self.answers_at_once(w.request))
            self._waiting[:0] = held
            # The number of threads is the whole process's, so it is put back.
            threads = torch.get_num_threads()
            self.computing = True
            try:
                if self._threads is not None:
                    torch.set_num_threads(self._threads)
                await self._answer(batch)
            # Also where the round is cancelled: nobody may be left waiting.
            except BaseException as error:
                for w in batch:
                    w.give(None, _as_follower_error(error))
                if not isinstance(error, Exception):
                    raise
            finally:
                self.computing = False
                if self._threads is not None:
                    torch.set_num_threads(threads)

    async def _answer(self, good: list[Waiting]) -> None:
        await self._known.compute([w.request for w in good])
        kinds: dict[type, list[Waiting]] = {}
        for w in good:
            kinds.setdefault(type(w.request), []).append(w)
        for kind, answer in self._replies.kinds.items():
            chosen = kinds.get(kind)
            if chosen:
                replies = answer([w.request for w in chosen])
                for waiting, reply in zip(chosen, replies, strict=True):
                    waiting.give(reply)
        # Last, since it waits for the backend: all else has its answer by then.
        scores = kinds.get(Score)
        if scores:
            texts: list[Any] = [w.request for w in scores]
            for waiting, logs in zip(scores, await self._replies.score(texts), strict=True):
                waiting.give(logs)

    def answers_at_once(self, request: Request) -> bool:
        """Whether a request can be answered without a forward pass."""
        return self._known.answers(request)

    def _sound(self, waiting: Waiting) -> bool:
        """Whether a request can be answered at all; one that cannot fails alone."""
        try:
            problem = waiting.request.fault(self.vocabulary, self.backend.max_context)
        except Exception as error:  # tokens that are no integers, say
            problem = f"the request is malformed: {type(error).__name__}: {error}"
        if problem is not None:
            waiting.give(None, FollowerError(problem))
        return problem is None


def _as_follower_error(error: BaseException) -> BaseException:
    if isinstance(error, DiscipleError | asyncio.CancelledError):
        return error
    wrapped = FollowerError(f"the follower failed on a batch: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
