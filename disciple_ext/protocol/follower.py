"""What a follower is: to programs, which only ask, and to the host, which runs it.

Whoever only asks takes any :class:`Follower`. The host, which answers many runs at once, takes a
:class:`BaseFollower`: it has one door, ``submit``, and says what the host must know to batch, to
measure and to repeat a run.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .measure import PLAIN, BaseMeasure
from .requests import (
    Branch,
    Branched,
    Call,
    Draw,
    Drawn,
    LogProbs,
    Mass,
    NextBytes,
    Reply,
    Request,
    Score,
    Tokens,
)
from .vocabulary import Vocabulary
from .waiting import Deliver, Waiting

__all__ = ["BaseFollower", "Follower"]


class Follower(Protocol):
    """A language model as programs and samplers see it.

    Attributes:
        name: such as ``"embedded"`` or ``"hf:gpt2"``.
        vocabulary: its tokens.
        measure: the base measure that its answers are under.
    """

    name: str
    vocabulary: Vocabulary
    measure: BaseMeasure

    @property
    def max_context(self) -> int | None:
        """Tokens that a context may have, prompt included, or None for no limit."""
        ...

    @overload
    async def ask(self, request: Draw) -> Drawn: ...
    @overload
    async def ask(self, request: Branch) -> Branched: ...
    @overload
    async def ask(self, request: Mass) -> float: ...
    @overload
    async def ask(self, request: Score) -> tuple[float, ...]: ...
    @overload
    async def ask(self, request: NextBytes) -> NDArray[np.float64]: ...
    @overload
    async def ask(self, request: LogProbs) -> NDArray[np.float32]: ...
    @overload
    async def ask(self, request: Call) -> Any: ...
    async def ask(self, request: Request) -> Reply:
        """Answer one request; requests that wait together are evaluated as one batch.

        Raises:
            FollowerError: the request names tokens or services that do not exist, or the model
                failed on it.
        """
        ...

    def prompt(self, user: str, hint: str = "") -> Tokens:
        """Token ids of a user message in the model's chat format, ready for the answer's text.

        Args:
            user: the message.
            hint: a note put last, directly before the text.
        """
        ...


class BaseFollower(ABC):
    """A follower as the host runs it.

    An author writes ``name``, ``vocabulary``, :meth:`submit` and :meth:`prompt`; the rest says what
    else a follower may know, and is right as it is for one that knows nothing of it. Who would
    rather write a coroutine ``ask`` gives an object with that in place of ``submit``, and needs no
    base class: see :class:`~disciple_ext.protocol.adapters.AskedFollower`.

    Attributes:
        name: such as ``"embedded"`` or ``"hf:gpt2"``.
        vocabulary: its tokens.
        base_measure: what runs take its texts to be distributed by where nobody says otherwise.
        measure: what its answers are under now; who serves a run puts it there
            (:class:`~disciple_ext.protocol.adapters.MeasuredFollower`).
        takes_measures: whether it heeds a request's ``measure``.
    """

    name: str
    vocabulary: Vocabulary
    base_measure: BaseMeasure = PLAIN
    measure: BaseMeasure = PLAIN
    takes_measures: bool = False

    @abstractmethod
    def submit(self, request: Request, deliver: Deliver) -> Waiting:
        """Answer one request together with all others that wait, to a callback.

        Args:
            request: the request.
            deliver: called once, in the loop's thread, with the reply or with the error; never
                before this method returns. What it raises goes to the loop's exception handler.

        Returns:
            The handle by which to drop the request.

        Raises:
            RuntimeError: no event loop is running.
        """

    @abstractmethod
    def prompt(self, user: str, hint: str = "") -> Tokens:
        """Token ids of a user message in the model's chat format, ready for the answer's text.

        Args:
            user: the message.
            hint: a note put last, directly before the text.
        """

    async def ask(self, request: Request) -> Reply:
        """Answer one request together with all others that wait.

        Raises:
            FollowerError: the request names tokens or services that do not exist, or the model
                failed on it.
        """
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        waiting = self.submit(request, partial(_settle, future))
        try:
            return await future
        finally:
            # Where the asker was cancelled nobody takes the answer; after one, this does nothing.
            waiting.drop()

    @property
    def max_context(self) -> int | None:
        """Tokens that a context may have, prompt included, or None for no limit."""
        return None

    @property
    def forwards(self) -> int:
        """Forward passes made so far."""
        return 0

    @property
    def tokens(self) -> int:
        """Tokens asked for so far, where somebody counts them."""
        return 0

    @property
    def computing(self) -> bool:
        """Whether it computes at this moment, so that it is not the program that hangs."""
        return False

    def answers_at_once(self, request: Request) -> bool:
        """Whether a request can be answered without a forward pass."""
        return False

    def forget(self) -> None:  # noqa: B027  # most have nothing to drop
        """Drop all that was computed, so that what comes is computed as in a new process."""

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> Tokens:
        """Token ids of a conversation, ready for the answer's text.

        Raises:
            UsageError: the model has no chat template.
            FollowerError: its chat template fails on these messages.
        """
        raise UsageError(f"the follower {self.name!r} has no chat template")

    def __deepcopy__(self, memo: object) -> BaseFollower:
        return self  # all clones of a particle ask the same one


def _settle(future: asyncio.Future[Reply], reply: Reply, error: BaseException | None) -> None:
    if future.done():  # cancelled, and the asker has not run since
        return
    if error is None:
        future.set_result(reply)
    else:
        future.set_exception(error)
