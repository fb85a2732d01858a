"""A planner behind an OpenAI-compatible endpoint: the OpenAI service or a local server."""

from __future__ import annotations

import os
from typing import Any

from .base import Chat
from .cache import AnswerStore, CachedChat
from .openai_chat import OpenAIChat
from .planner import ChatPlanner
from .prices import known_prices
from .recording import RecordingChat

__all__ = ["OpenAIPlanner"]


class OpenAIPlanner(ChatPlanner):
    """Asks a chat model at an endpoint for the program.

    The ``openai`` client reads ``OPENAI_API_KEY``, ``OPENAI_BASE_URL`` and ``OPENAI_ORG_ID``.

    Args:
        model: name of the model at the endpoint.
        cache: keep whole answers, and give them again at no cost to the same question: True for
            the user's store (see :mod:`~disciple_ext.planner.chat.cache`), or a store, or False.
        record: directory into which every answer is written, for ``replay:DIR``, or None.
        prices: file of prices that go before those that ship with the package; None for what
            ``DISCIPLE_PRICES`` names.
        **options: further options of the endpoint. ``timeout``: seconds without a byte from the
            endpoint (120). ``max_retries``: how often the client repeats a request that failed on
            the way (2). ``max_output_tokens``: limit of an answer, thinking included; None for
            the endpoint's own. ``base_url``, ``api_key``, ``organization``: None for what the
            environment says. ``temperature``, ``seed``, ``effort`` (of reasoning): sent only
            where given. ``stream``: False to get answers in one piece.

    Raises:
        UsageError: the model has no name, or the prices cannot be read.
    """

    def __init__(
        self,
        model: str,
        *,
        cache: bool | AnswerStore = True,
        record: str | os.PathLike[str] | None = None,
        prices: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        chat: Chat = OpenAIChat(model, prices=known_prices(prices), **options)
        # The recorder is the outer one, so that answers from the cache are put on record, too.
        if cache is not False:
            chat = CachedChat(chat, cache if isinstance(cache, AnswerStore) else AnswerStore())
        if record is not None:
            chat = RecordingChat(chat, record)
        super().__init__(chat)
