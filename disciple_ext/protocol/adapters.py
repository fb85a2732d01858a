"""Followers made of others: one that stands before another, and one that is given as any object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import UsageError
from .follower import BaseFollower
from .measure import PLAIN, BaseMeasure
from .requests import Call, Request, Tokens
from .waiting import Deliver, TaskWaiting, Waiting

__all__ = ["AskedFollower", "FollowerProxy", "MeasuredFollower", "measured"]


class FollowerProxy(BaseFollower):
    """A follower before another one: everything goes through to it but what a subclass changes.

    Attributes:
        inner: the follower behind.
    """

    def __init__(self, inner: BaseFollower) -> None:
        self.inner = inner
        self.name = inner.name
        self.vocabulary = inner.vocabulary
        self.base_measure = inner.base_measure
        self.measure = inner.measure
        self.takes_measures = inner.takes_measures

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
        # By `__dict__`: where `inner` is not set yet, `self.inner` would call this without end.
        return getattr(self.__dict__.get("inner"), name)


class MeasuredFollower(FollowerProxy):
    """A follower whose answers are under a base measure, whatever a program asks.

    Its distributions are changed where they are computed: no program needs to know.
    """

    def __init__(self, inner: BaseFollower, measure: BaseMeasure) -> None:
        super().__init__(inner)
        self.measure = measure

    def submit(self, request: Request, deliver: Deliver) -> Waiting:
        """Answer one request under the measure."""
        return self.inner.submit(self._under(request), deliver)

    def answers_at_once(self, request: Request) -> bool:
        """Whether a request can be answered without a forward pass."""
        return self.inner.answers_at_once(self._under(request))

    def _under(self, request: Request) -> Request:
        # A program may ask for anything; what is no request fails where it is answered.
        if not isinstance(request, Request) or isinstance(request, Call):
            return request
        under: Request = replace(request, measure=self.measure)  # type: ignore[type-var]
        return under


def measured(follower: BaseFollower, measure: BaseMeasure) -> BaseFollower:
    """The follower under a base measure: itself where that changes nothing.

    Raises:
        UsageError: the follower cannot be put under one.
    """
    if measure == PLAIN:
        return follower
    if not follower.takes_measures:
        raise UsageError(
            f"the follower {follower.name!r} answers requests by itself and cannot be put under a "
            f"base measure ({measure}): leave it out, or give a follower whose logits the host has "
            "(disciple_ext.follower.host.HostFollower, hf:, gguf:, vllm:)"
        )
    return MeasuredFollower(follower, measure)


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
        # What it says of itself, for an object that stands before a follower of ours.
        self.base_measure = getattr(given, "base_measure", PLAIN)
        self.measure = getattr(given, "measure", PLAIN)
        self.takes_measures = getattr(given, "takes_measures", False)

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
        # By `__dict__`, as in `FollowerProxy`.
        return getattr(self.__dict__.get("given"), name)
