"""Chat with an OpenAI-compatible endpoint: the OpenAI service or a local server.

The ``openai`` client retries what is worth retrying until an answer begins (timeouts, 408, 409,
429 with its ``Retry-After``, 5xx); there is no second layer of retries here. An answer that
breaks off later was paid for, and ends in an error.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from ...errors import UsageError
from ...records.events import PlannerWaiting
from ...records.result import Usage
from ..events import emit
from .base import Answer, Messages
from .openai_answer import gathered, read
from .prices import MOST_OUTPUT, Prices, known_prices

if TYPE_CHECKING:
    from httpx2 import Request, Response
    from openai import AsyncOpenAI

__all__ = ["OpenAIChat"]

_SERVICE = "https://api.openai.com/v1"
_PATIENCE = 1800.0
"""Seconds that one call may take in all, retries and waits included, if bytes keep coming."""
_LONGEST_WAIT = 120.0
"""Seconds of Retry-After up to which the client waits; beyond, it gives up at once."""


class OpenAIChat:
    """A chat model at an endpoint. See :class:`~disciple_ext.planner.chat.openai.OpenAIPlanner`.

    Attributes:
        name: ``openai:MODEL``.
        model: the model's name at the endpoint.
        identity: endpoint, model and parameters; never the key.
        base_url: address of the endpoint, or None for the OpenAI service.
        address: the same for people to read, without a password that may be in it.
        api_key: the key, or None.
        timeout: seconds without a byte from the endpoint.
        tries: how often a request is made in all.
    """

    def __init__(
        self,
        model: str,
        *,
        timeout: float = 120.0,
        max_retries: int = 2,
        max_output_tokens: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        organization: str | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        effort: str | None = None,
        stream: bool = True,
        prices: Prices | None = None,
    ) -> None:
        if not model.strip():
            raise UsageError("the planner openai needs a model, for example openai:gpt-4o")
        self.name = f"openai:{model}"
        self.model = model
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        self.address = _address(self.base_url or _SERVICE)
        self.api_key = api_key or os.environ.get("OPENAI_API_KEY") or None
        self.timeout = timeout
        self.tries = 1 + max_retries
        self._organization = organization
        self._streams = stream
        self._price = (prices or known_prices()).of(model)
        self._most_output = max_output_tokens
        given = {
            self._limit_name(): max_output_tokens,
            "temperature": temperature,
            "seed": seed,
            "reasoning_effort": effort,
        }
        self._parameters = {name: value for name, value in given.items() if value is not None}
        # The address without a password: recordings show the identity.
        self.identity: Mapping[str, Any] = {
            "endpoint": self.address.rstrip("/"),
            "model": model,
            "parameters": self._parameters,
        }

    def _limit_name(self) -> str:
        """OpenAI's own service wants the new name, and most other servers know the old one only."""
        host = urlsplit(self.base_url or _SERVICE).hostname or ""
        new = host.endswith((".openai.com", ".azure.com"))
        return "max_completion_tokens" if new else "max_tokens"

    def limited(self, tokens: int) -> OpenAIChat:
        """The same model with answers of at most so many tokens, thinking included."""
        # A copy: the chat is shared with the planner, whose programs have no such limit.
        chat = copy(self)
        chat._most_output = min(tokens, self._most_output or tokens)
        chat._parameters = {**self._parameters, self._limit_name(): chat._most_output}
        chat.identity = {**self.identity, "parameters": chat._parameters}
        return chat

    def quote(self, messages: Messages, *, retry: int) -> float | None:
        """US dollars that a call may cost at most, or None where the price is unknown.

        A token is taken to have three bytes (of English and code it has more), none of the
        conversation to be cached, and the answer to be as long as it may be.
        """
        if self._price is None:
            return None
        read = sum(len(message["content"].encode()) / 3 + 8 for message in messages)
        written = self._most_output or self._price.most_output or MOST_OUTPUT
        return self._price.cost(Usage(planner_input=int(read) + 1, planner_output=written))

    async def ask(self, messages: Messages, *, retry: int) -> Answer:
        """Answer a conversation.

        Raises:
            PlannerError: no key, or an endpoint that does not answer. Its ``exit_code`` is 4
                where the key or the endpoint is missing.
        """
        import openai  # not at the top: it takes half a second, and the expert needs none of it

        from .openai_errors import explained, no_key

        if self.api_key is None and self.base_url is None:
            raise no_key(self)
        try:
            # The client's timeout is for silence alone: a server that sends a byte a minute never
            # ends.
            async with asyncio.timeout(_PATIENCE), self._client() as client:
                return await self._answer(client, messages)
        except (openai.OpenAIError, TimeoutError, ValueError) as error:
            raise explained(error, self) from error

    def _client(self) -> AsyncOpenAI:
        """A client for one call: its connections belong to one event loop.

        The synchronous API starts a new loop each time. Local servers ask for no key.
        """
        import openai

        hooks: dict[str, list[Any]] = {"request": [self._asking], "response": [self._answered]}
        return openai.AsyncOpenAI(
            # The client does not start without a key, even where the server asks for none.
            api_key=self.api_key or "none",
            base_url=self.base_url,
            organization=self._organization,
            timeout=self.timeout,
            max_retries=self.tries - 1,
            # A client of our own, because only there can hooks tell of retries and waits.
            http_client=openai.DefaultAsyncHttpxClient(timeout=self.timeout, event_hooks=hooks),
        )

    async def _asking(self, request: Request) -> None:
        retry = _number(request.headers.get("x-stainless-retry-count"))
        if retry:
            emit(PlannerWaiting(0.0, f"asking again, try {retry + 1:.0f} of {self.tries}"))

    async def _answered(self, response: Response) -> None:
        """Tell of a wait; read what is no stream here, where the client retries what breaks."""
        retry = _number(response.request.headers.get("x-stainless-retry-count")) or 0.0
        status = response.status_code
        if (status in (408, 409, 429) or status >= 500) and retry + 1 < self.tries:
            millis = _number(response.headers.get("retry-after-ms"))
            wait = _number(response.headers.get("retry-after")) if millis is None else millis / 1e3
            if wait is None or wait <= _LONGEST_WAIT:
                emit(PlannerWaiting(wait, f"HTTP {status}"))
        if not _is_stream(response):
            # Here, inside the client's request, a connection that breaks is retried; later it is
            # not.
            await response.aread()

    async def _answer(self, client: AsyncOpenAI, messages: Messages) -> Answer:
        import openai

        create: Any = client.chat.completions.with_raw_response.create
        asked = {"model": self.model, "messages": list(messages), **self._parameters}
        if self._streams:
            try:
                raw = await create(**asked, stream=True, stream_options={"include_usage": True})
            except openai.APIStatusError as error:
                if error.status_code not in (400, 422, 501):
                    raise
                # Servers that know no streaming, or not this option, say so in as many ways as
                # there are servers: a request that is at fault otherwise fails again.
                raw = await create(**asked)
                # Only after it worked without: a request that is wrong otherwise says nothing of
                # streams.
                self._streams = False
        else:
            raw = await create(**asked)
        if _is_stream(raw.http_response):
            return self._priced(await gathered(raw.parse()))
        return self._priced(read(self.name, raw.http_response.json()))

    def _priced(self, answer: Answer) -> Answer:
        cost = None
        if answer.usage is not None and self._price is not None:
            cost = self._price.cost(answer.usage)
        return replace(answer, cost=cost, model=answer.model or self.model)


def _address(url: str) -> str:
    """An address without user, password and query, which may hold keys."""
    parts = urlsplit(url)
    # `hostname` would lose the port, and the case.
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _is_stream(response: Response) -> bool:
    return "event-stream" in response.headers.get("content-type", "")


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:  # Retry-After may be a date: the client reads it, we only tell of it
        return None
