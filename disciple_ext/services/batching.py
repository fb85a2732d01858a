"""The services of a run: where calls wait, go out as one batch, and are remembered."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ServiceError, UsageError
from ..protocol.requests import Call, Follower, Reply, Request

__all__ = ["LONGEST", "Served", "Services"]

LONGEST = 2**20
"""Characters of JSON that a payload or a reply may have."""
_SECONDS = 60.0
_REMEMBERED = 4096


class Services:
    """What a user gave to a run, by name; replies are remembered from run to run.

    Args:
        given: name to service.

    Raises:
        UsageError: a name is no text, or what it names is no service.
    """

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self.given = dict(given or {})
        for name, service in self.given.items():
            if not isinstance(name, str) or not 0 < len(name) <= 200:
                raise UsageError(f"a service's name is a text of up to 200 characters: {name!r}")
            if not (callable(service) or callable(getattr(service, "batch", None))):
                raise UsageError(
                    f"the service {name!r} is a {type(service).__name__}: give a function of one "
                    "payload, or an object with a method batch(payloads); a potential of "
                    "genlm-control goes into disciple_ext.control.PotentialService"
                )
        self._counters: dict[str, tuple[object, Counter]] = {}

    def serve(self, follower: Follower) -> Served:
        """The follower as programs see it, with these services behind ``call``."""
        # A follower may bring services of its own.
        own: Mapping[str, Any] = getattr(follower, "services", {})
        named = {**own, **self.given}
        return Served(follower, {n: self._counter(n, s, follower) for n, s in named.items()})

    def paragraphs(self) -> tuple[str, ...]:
        """What planners are told of them: one paragraph each."""
        return tuple(f"the service `{n}`: {_purpose(self.given[n])}" for n in sorted(self.given))

    def rehearsing(self) -> Services:
        """Those for a dry run: what can stand in for itself does."""
        standing = {n: getattr(s, "rehearse", None) or s for n, s in self.given.items()}
        return Services(standing)

    def _counter(self, name: str, service: Any, follower: Follower) -> Counter:
        bind = getattr(service, "bind", None)
        owner = service if bind is None else (id(service), id(follower))
        known = self._counters.get(name)
        if known is None or known[0] != owner:
            made = Counter(name, service if bind is None else bind(follower))
            known = self._counters[name] = (owner, made)
        return known[1]


class Served:
    """A follower whose calls go to the services of a run."""

    def __init__(self, follower: Follower, counters: Mapping[str, Counter]) -> None:
        self._follower = follower
        self._counters = counters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._follower, name)

    def __deepcopy__(self, memo: object) -> Served:
        return self

    @property
    def computing(self) -> bool:
        """Whether the host computes at this moment, so that it is not the program that hangs."""
        busy = any(counter.computing for counter in self._counters.values())
        return busy or bool(getattr(self._follower, "computing", False))

    async def ask(self, request: Request) -> Reply:
        """Answer one request (see the protocol).

        Raises:
            ValueError: there is no such service, or the payload is too long or no JSON.
            ServiceError: the service failed.
        """
        if not isinstance(request, Call):
            return await self._follower.ask(request)
        counter = self._counters.get(request.name)
        if counter is None:
            there = ", ".join(map(repr, sorted(self._counters))) or "none"
            raise ValueError(
                f"no service {request.name!r} was given to this run; there are: {there}"
            )
        try:
            payload = json.dumps(request.payload, sort_keys=True)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"the payload of a call is not JSON: {error}") from error
        if len(payload) > LONGEST:
            raise ValueError(
                f"the payload for the service {request.name!r} has {len(payload)} characters of "
                f"JSON; at most {LONGEST} are allowed"
            )
        return json.loads(await counter.ask(payload))


class Counter:
    """One service: the calls that wait for its next batch, and what it replied before."""

    def __init__(self, name: str, service: Any) -> None:
        self.name = name
        self.service = service
        self.computing = False
        self._timeout = float(getattr(service, "timeout", _SECONDS))
        self._most = int(getattr(service, "remembered", _REMEMBERED))
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
            self._waiting, self._under_way = {}, {}
            self._task = loop.create_task(self._collect())
        future = self._under_way.get(payload) if self._most else None
        future = future or self._waiting.get(payload)
        if future is None:
            future = self._waiting[payload] = loop.create_future()
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
        if self._most:
            self._known[payload] = reply
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    async def _replies(self, payloads: Sequence[Any]) -> list[str | ServiceError]:
        self.computing = True
        try:
            async with asyncio.timeout(self._timeout):
                replies = list(await self._batch(payloads))
            if len(replies) != len(payloads):
                raise ValueError(f"{len(replies)} replies to {len(payloads)} payloads")
        except TimeoutError:
            late = f"gave no reply within {self._timeout:g} s"
            return [self._error(late)] * len(payloads)
        except Exception as error:  # third-party code
            return [self._failed(error)] * len(payloads)
        finally:
            self.computing = False
        return [self._spelt(reply) for reply in replies]

    async def _batch(self, payloads: Sequence[Any]) -> Sequence[Any]:
        batch = getattr(self.service, "batch", None)
        if batch is not None:
            if inspect.iscoroutinefunction(batch):
                return await batch(payloads)  # type: ignore[no-any-return]
            return await asyncio.to_thread(batch, payloads)
        if _awaits(self.service):
            asked = (self.service(payload) for payload in payloads)
            return await asyncio.gather(*asked, return_exceptions=True)
        return await asyncio.to_thread(_one_by_one, self.service, payloads)

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


def _purpose(service: Any) -> str:
    said = getattr(service, "purpose", None) or inspect.getdoc(service) or "no more is known of it"
    return " ".join(str(said).partition("\n\n")[0].split())[:500]


def _awaits(service: Any) -> bool:
    method = type(service).__call__  # an object with ``async def __call__``
    return inspect.iscoroutinefunction(service) or inspect.iscoroutinefunction(method)


def _one_by_one(service: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
    replies: list[Any] = []
    for payload in payloads:
        try:
            replies.append(service(payload))
        except Exception as error:  # it fails its caller alone
            replies.append(error)
    return replies


def _number(value: Any) -> Any:
    """What numpy and torch give where a number or a list is meant."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} in a reply")
