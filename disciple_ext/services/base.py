"""The contract of services, and the one adapter of the plain forms that a user may give."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import UsageError
from ..protocol.follower import Follower

__all__ = ["Service", "service_of"]


class Service(ABC):
    """What programs may ask of the host beside the follower.

    An author writes :meth:`batch`; all else has a default. Who needs no default may give a plain
    function or an object with ``batch`` instead: :func:`service_of` makes this of it.

    Attributes:
        timeout: seconds for a batch.
        remembered: replies kept; 0 for a service that must be asked each time.
        purpose: a sentence for planners; where it is empty, the docstring's first paragraph.
    """

    timeout: float = 60.0
    remembered: int = 4096
    purpose: str = ""

    @abstractmethod
    def batch(self, payloads: Sequence[Any]) -> Any:
        """One reply for each payload; where a reply is an exception, that call alone fails.

        It may be a coroutine function; else it runs in a thread of its own.
        """

    def rehearsing(self) -> Any:
        """The service that stands in for this one in a dry run; by default this one."""
        return self

    def bind(self, follower: Follower) -> Any:
        """The service to use with this follower; by default this one."""
        return self

    async def replies(self, payloads: Sequence[Any]) -> Sequence[Any]:
        """The replies of :meth:`batch`, whichever kind of function it is."""
        return await _called(self.batch, payloads)


class _Object(Service):
    """An object with ``batch``, and with what else of a service it happens to have."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self.timeout = float(getattr(given, "timeout", self.timeout))
        self.remembered = int(getattr(given, "remembered", self.remembered))
        self.purpose = getattr(given, "purpose", None) or inspect.getdoc(given) or _UNKNOWN

    def batch(self, payloads: Sequence[Any]) -> Any:
        return self._given.batch(payloads)

    async def replies(self, payloads: Sequence[Any]) -> Sequence[Any]:
        return await _called(self._given.batch, payloads)

    def rehearsing(self) -> Any:
        return getattr(self._given, "rehearse", None) or self._given

    def bind(self, follower: Follower) -> Any:
        bind = getattr(self._given, "bind", None)
        return self if bind is None else bind(follower)


class _Function(_Object):
    """A function of one payload."""

    def batch(self, payloads: Sequence[Any]) -> list[Any]:
        replies: list[Any] = []
        for payload in payloads:
            try:
                replies.append(self._given(payload))
            except Exception as error:  # it fails its caller alone
                replies.append(error)
        return replies

    async def replies(self, payloads: Sequence[Any]) -> Sequence[Any]:
        # A coroutine function runs on the loop, a plain one in a thread: it may compute or wait.
        if _awaits(self._given):
            asked = (self._given(payload) for payload in payloads)
            return await asyncio.gather(*asked, return_exceptions=True)
        return await asyncio.to_thread(self.batch, payloads)


_UNKNOWN = "no more is known of it"


def service_of(name: str, given: Any) -> Service:
    """A service from whatever form it was given in.

    Args:
        name: what programs call it, for the message.
        given: a :class:`Service`, an object with a method ``batch(payloads)``, or a function of one
            payload.

    Raises:
        UsageError: it is none of these.
    """
    if isinstance(given, Service):
        return given
    if callable(getattr(given, "batch", None)):
        return _Object(given)
    if callable(given):
        return _Function(given)
    raise UsageError(
        f"the service {name!r} is a {type(given).__name__}: give a function of one payload, or an "
        "object with a method batch(payloads); a potential of genlm-control goes into "
        "disciple_ext.control.PotentialService"
    )


async def _called(batch: Callable[[Sequence[Any]], Any], payloads: Sequence[Any]) -> Sequence[Any]:
    if inspect.iscoroutinefunction(batch):
        return await batch(payloads)  # type: ignore[no-any-return]
    # A thread, since third-party code that computes must not hold the loop that all runs share.
    replies: Sequence[Any] = await asyncio.to_thread(batch, payloads)
    return replies


def _awaits(function: Any) -> bool:
    method = type(function).__call__  # an object with ``async def __call__``
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(method)
