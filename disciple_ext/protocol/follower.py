"""The base class of followers, and the ways to stand before one.

Whoever only asks takes any :class:`~disciple_ext.protocol.requests.Follower`. The host, which
answers many runs at once, takes :class:`BaseFollower`: it has one door, ``submit``, and says what
the host must know to batch, to measure and to repeat a run.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..errors import UsageError
from .requests import Reply, Request, Tokens
from .vocabulary import Vocabulary

__all__ = ["AskedFollower", "BaseFollower", "Deliver", "FollowerProxy", "TaskWaiting", "Waiting"]

Deliver = Callable[[Reply, BaseException | None], None]
"""Takes (reply, None), or (None, error); a service's reply may be None, too."""


class Waiting:
    """A request that waits for its answer.

    Attributes:
        request: the request.
        loop: the event loop in which it is answered.
        over: whether it was answered or dropped.
    """

    __slots__ = ("_deliver", "loop", "over", "request")

    def __init__(self, request: Request, deliver: Deliver) -> None:
        self.request = request
        self.loop = asyncio.get_running_loop()
        self.over = False
        self._deliver = deliver

    def drop(self) -> None:
        """Forget the request: nothing is delivered any more."""
        self.over = True

    def give(self, reply: Reply, error: BaseException | None = None) -> None:
        """Deliver the answer, unless the request is over."""
        if self.over:
            return
        self.over = True
        try:
            self._deliver(reply, error)
        except Exception as failure:  # the others of the round still want their answers
            self.loop.call_exception_handler(
                {"message": "an answer could not be delivered", "exception": failure}
            )


class BaseFollower(ABC):
    """A follower as the host runs it.

    An author writes ``name``, ``vocabulary``, :meth:`submit` and :meth:`prompt`; the rest says what
    else a follower may know, and is right as it is for one that knows nothing of it. Who would
    rather write a coroutine ``ask`` gives an object with that in place of ``submit``, and needs no
    base class: see :class:`AskedFollower`.

    Attributes:
        name: such as ``"embedded"`` or ``"hf:gpt2"``.
        vocabulary: its tokens.
    """

    name: str
    vocabulary: Vocabulary

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


class FollowerProxy(BaseFollower):
    """A follower before another one: everything goes through to it but what a subclass changes.

    Attributes:
        inner: the follower behind.
    """

    def __init__(self, inner: BaseFollower) -> None:
        self.inner = inner
        self.name = inner.name
        self.vocabulary = inner.vocabulary

    def submit(self, request: Request, deliver: Deliver) -> Waiting:
        """Answer one request (see :meth:`BaseFollower.submit`)."""
        return self.inner.submit(request, deliver)

    def prompt(self, user: str, hint: str = "") -> Tokens:
        """Token ids of a user message."""
        return self.inner.prompt(user, hint)

    @property
    def max_context(self) -> int | None:
        """Tokens that a context may have, or None for no limit."""
        return self.inner.max_context

    @property
    def forwards(self) -> int:
        """Forward passes made so far."""
        return self.inner.forwards

    @property
    def computing(self) -> bool:
        """Whether it computes at this moment."""
        return self.inner.computing

    def answers_at_once(self, request: Request) -> bool:
        """Whether a request can be answered without a forward pass."""
        return self.inner.answers_at_once(request)

    def forget(self) -> None:
        """Drop all that was computed."""
        self.inner.forget()

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> Tokens:
        """Token ids of a conversation."""
        return self.inner.conversation(messages)

    def __getattr__(self, name: str) -> Any:
        # What a follower has beside the contract, such as the backend of ours.
        return getattr(self.__dict__.get("inner"), name)


class TaskWaiting(Waiting):
    """A request that a task of its own answers."""

    __slots__ = ("_task",)

    def __init__(self, request: Request, deliver: Deliver, answer: Any) -> None:
        """Begin the task.

        Args:
            request: the request.
            deliver: takes the answer.
            answer: coroutine function of the request.
        """
        super().__init__(request, deliver)
        self._task = self.loop.create_task(self._run(answer))

    async def _run(self, answer: Any) -> None:
        try:
            reply = await answer(self.request)
        except Exception as error:  # third-party code: it fails its caller alone
            self.give(None, error)
        else:
            self.give(reply)

    def drop(self) -> None:
        """Forget the request, and end its task."""
        if not self.over:
            self.over = True
            self._task.cancel()


class AskedFollower(BaseFollower):
    """An object that keeps to the protocol ``Follower``, as the host runs it.

    It has ``name``, ``vocabulary``, ``prompt`` and a coroutine ``ask``. What else of
    :class:`BaseFollower` it happens to have counts, too.

    Attributes:
        given: the object.
    """

    def __init__(self, given: Any) -> None:
        self.given = given
        self.name = getattr(given, "name", type(given).__name__)
        self.vocabulary = given.vocabulary

    def submit(self, request: Request, deliver: Deliver) -> Waiting:
        """Answer one request in a task of its own."""
        return TaskWaiting(request, deliver, self.given.ask)

    def prompt(self, user: str, hint: str = "") -> Tokens:
        """Token ids of a user message."""
        ids: Tokens = self.given.prompt(user, hint)
        return ids

    @property
    def max_context(self) -> int | None:
        """Tokens that a context may have, or None where the object does not say."""
        return getattr(self.given, "max_context", None)

    @property
    def forwards(self) -> int:
        """Forward passes, where the object counts them."""
        return int(getattr(self.given, "forwards", 0))

    @property
    def computing(self) -> bool:
        """Whether it computes at this moment, where the object says so."""
        return bool(getattr(self.given, "computing", False))

    def forget(self) -> None:
        """Drop all that was computed, where the object can."""
        forget = getattr(self.given, "forget", None)
        if forget is not None:
            forget()

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> Tokens:
        """Token ids of a conversation, where the object has a chat template."""
        template = getattr(self.given, "conversation", None)
        if template is None:
            return super().conversation(messages)
        ids: Tokens = template(messages)
        return ids

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__.get("given"), name)
