"""The services of a run: where calls wait, go out as one batch, and are remembered."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ServiceError, UsageError
from ..protocol.adapters import FollowerProxy
from ..protocol.follower import BaseFollower
from ..protocol.requests import Call, Reply, Request
from ..protocol.waiting import Deliver, TaskWaiting, Waiting
from .base import Service, service_of

__all__ = ["LONGEST", "Served", "ServiceQueue", "Services"]

LONGEST = 2**20
"""Characters of JSON that a payload or a reply may have."""


class Services:
    """What a user gave to a run, by name; replies are remembered from run to run.

    Args:
        given: name to service.

    Raises:
        UsageError: a name is no text, or what it names is no service.
    """

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self._services: dict[str, Service] = {}
        for name, service in dict(given or {}).items():
            if not isinstance(name, str) or not 0 < len(name) <= 200:
                raise UsageError(f"a service's name is a text of up to 200 characters: {name!r}")
            self._services[name] = service_of(name, service)
        # By name: the follower that the service is bound to, if it depends on one, and its queue.
        self._queues: dict[str, tuple[BaseFollower | None, ServiceQueue]] = {}

    def serve(self, follower: BaseFollower) -> Served:
        """The follower as programs see it, with these services behind ``call``."""
        return Served(follower, {name: self._queue(name, follower) for name in self._services})

    def paragraphs(self) -> tuple[str, ...]:
        """What planners are told of them: one paragraph each."""
        named = sorted(self._services.items())
        return tuple(f"the service `{name}`: {_purpose(service)}" for name, service in named)

    def rehearsing(self) -> Services:
        """Those for a dry run: what can stand in for itself does."""
        return Services({name: service.rehearsing() for name, service in self._services.items()})

    def _queue(self, name: str, follower: BaseFollower) -> ServiceQueue:
        known = self._queues.get(name)
        if known is None or known[0] not in (None, follower):
            service = self._services[name]
            bound = service_of(name, service.bind(follower))
            owner = None if bound is service else follower
            known = self._queues[name] = (owner, ServiceQueue(name, bound))
        return known[1]


class Served(FollowerProxy):
    """A follower whose calls go to the services of a run."""

    def __init__(self, follower: BaseFollower, queues: Mapping[str, ServiceQueue]) -> None:
        super().__init__(follower)
        self._queues = queues

    @property
    def computing(self) -> bool:
        """Whether the host computes at this moment, so that it is not the program that hangs."""
        return self.inner.computing or any(queue.computing for queue in self._queues.values())

    def submit(self, request: Request, deliver: Deliver) -> Waiting:
        """Answer one request: a call in a task of its own, all else by the follower."""
        if isinstance(request, Call):
            return TaskWaiting(request, deliver, self._call)
        return self.inner.submit(request, deliver)

    async def _call(self, call: Call) -> Reply:
        """The reply to a call.

        Raises:
            ValueError: there is no such service, or the payload is too long or no JSON.
            ServiceError: the service failed.
        """
        queue = self._queues.get(call.name)
        if queue is None:
            there = ", ".join(map(repr, sorted(self._queues))) or "none"
            raise ValueError(f"no service {call.name!r} was given to this run; there are: {there}")
        try:
            # Sorted: equal payloads are one text, by which replies are remembered.
            payload = json.dumps(call.payload, sort_keys=True)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"the payload of a call is not JSON: {error}") from error
        if len(payload) > LONGEST:
            raise ValueError(
                f"the payload for the service {call.name!r} has {len(payload)} characters of "
                f"JSON; at most {LONGEST} are allowed"
            )
        # Remembered as text, so that each caller has data of its own to change.
        return json.loads(await queue.ask(payload))


class ServiceQueue:
    """One service: the calls that wait for its next batch, and what it replied before.

    Attributes:
        name: what programs call it.
        service: the service.
        computing: whether it is being asked at this moment.
    """

    def __init__(self, name: str, service: Service) -> None:
        self.name = name
        self.service = service
        self.computing = False
        self._known: OrderedDict[str, str] = OrderedDict()
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._under_way: dict[str, asyncio.Future[str]] = {}
        self._task: asyncio.Task[None] | None = None

    async def ask(self, payload: str) -> str:
        """The reply to a payload, both as JSON."""
        known = self._known.get(payload)
        if known is not None:
            self._known.move_to_end(payload)
            return known
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            # Futures of a loop that has ended are never set.
            self._waiting, self._under_way = {}, {}
            self._task = loop.create_task(self._collect())
        # A service that must be asked each time shares what is not sent yet, and nothing else.
        future = self._under_way.get(payload) if self.service.remembered else None
        future = future or self._waiting.get(payload)
        if future is None:
            future = self._waiting[payload] = loop.create_future()
            # Who asked may be gone: an error that nobody takes is not asyncio's to report.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(future)  # others may wait for the same

    async def _collect(self) -> None:
        while self._waiting:
            seen = -1
            while seen != len(self._waiting):  # until a pass over the loop adds no call
                seen = len(self._waiting)
                await asyncio.sleep(0)
            batch, self._waiting = self._waiting, {}
            self._under_way = batch
            # Parsed anew: the service has data of its own, too.
            replies = await self._replies([json.loads(payload) for payload in batch])
            for (payload, future), reply in zip(batch.items(), replies, strict=True):
                if future.done():
                    continue
                if isinstance(reply, ServiceError):
                    future.set_exception(reply)
                else:
                    self._remember(payload, reply)
                    future.set_result(reply)
            self._under_way = {}

    def _remember(self, payload: str, reply: str) -> None:
        if self.service.remembered:
            self._known[payload] = reply
            while len(self._known) > self.service.remembered:
                self._known.popitem(last=False)

    async def _replies(self, payloads: Sequence[Any]) -> list[str | ServiceError]:
        self.computing = True
        try:
            async with asyncio.timeout(self.service.timeout):
                replies = list(await self.service.replies(payloads))
            if len(replies) != len(payloads):
                raise ValueError(f"{len(replies)} replies to {len(payloads)} payloads")
        except TimeoutError:
            late = f"gave no reply within {self.service.timeout:g} s"
            return [self._error(late)] * len(payloads)
        except Exception as error:  # third-party code
            return [self._failed(error)] * len(payloads)
        finally:
            self.computing = False
        return [self._spelt(reply) for reply in replies]

    def _spelt(self, reply: Any) -> str | ServiceError:
        if isinstance(reply, BaseException):
            return self._failed(reply)
        try:
            text = json.dumps(reply, default=_number)
        except (TypeError, ValueError, RecursionError) as error:
            return self._error(f"gave a reply that is no JSON: {error}")
        if len(text) > LONGEST:
            return self._error(f"gave {len(text)} characters of JSON; at most {LONGEST} are taken")
        return text

    def _failed(self, error: BaseException) -> ServiceError:
        made = self._error(f"failed: {type(error).__name__}: {error}")
        made.__cause__ = error
        return made

    def _error(self, what: str) -> ServiceError:
        return ServiceError(f"the service {self.name!r} {what}", service=self.name)


def _purpose(service: Service) -> str:
    said = service.purpose or inspect.getdoc(service) or "no more is known of it"
    return " ".join(str(said).partition("\n\n")[0].split())[:500]


def _number(value: Any) -> Any:
    """What numpy and torch give where a number or a list is meant."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} in a reply")
