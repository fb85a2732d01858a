"""A chat model, whoever computes it: messages in, one answer out.

Chats are wrapped in one another: a cache or a recorder is a chat around another chat.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ...records.result import Usage

__all__ = ["Answer", "Chat", "Messages", "digest"]

Messages = Sequence[Mapping[str, str]]
"""A conversation, oldest message first: each has a ``role`` (system, user, assistant) and its
``content``."""


@dataclass(frozen=True)
class Answer:
    """What a chat model answered.

    Attributes:
        text: the answer.
        finish_reason: ``stop`` for a whole answer, ``length`` where it was cut off at its token
            limit, ``content_filter``, or the empty string where the endpoint stopped without
            saying why (the connection broke).
        refusal: the model's own words where it refused, or None.
        usage: planner tokens of the call that gave the answer, or None where nobody counted them.
        cost: US dollars of that call, or None where the tokens or their price are unknown.
        model: the model that answered, by its own account where it gives one.
        origin: ``model`` for a call just made, ``cache`` or ``recording`` for one made before.
    """

    text: str
    finish_reason: str
    refusal: str | None = None
    usage: Usage | None = None
    cost: float | None = None
    model: str = ""
    origin: Literal["model", "cache", "recording"] = "model"

    @property
    def whole(self) -> bool:
        """Whether the model said all that it wanted to, and did not refuse."""
        return self.finish_reason == "stop" and not self.refusal

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-safe data, without its origin."""
        return {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "refusal": self.refusal,
            "usage": None if self.usage is None else _planner_tokens(self.usage),
            "cost": self.cost,
            "model": self.model,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, origin: Literal["cache", "recording"]) -> Answer:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            ValueError: the data are no answer.
        """
        try:
            # Read with [] and not get(): a file without a field is of another version, and no
            # answer.
            usage = data["usage"]
            return cls(
                text=_text(data["text"]),
                finish_reason=_text(data["finish_reason"]),
                refusal=None if data["refusal"] is None else _text(data["refusal"]),
                usage=None if usage is None else Usage(**{k: int(v) for k, v in usage.items()}),
                cost=None if data["cost"] is None else float(data["cost"]),
                model=_text(data["model"]),
                origin=origin,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no answer: {type(error).__name__}: {error}") from error


class Chat(Protocol):
    """A chat model.

    Attributes:
        name: such as ``"openai:gpt-4o"``.
        model: the model's own name, such as ``"gpt-4o"``.
        identity: what an answer depends on beside the conversation: model, endpoint, parameters.
            JSON-safe.
    """

    name: str
    model: str
    identity: Mapping[str, Any]

    def quote(self, messages: Messages, *, retry: int) -> float | None:
        """US dollars that a call may cost at most, or None where a price is unknown."""
        ...

    def limited(self, tokens: int) -> Chat:
        """The same model with answers of at most so many tokens, thinking included.

        A smaller limit that it has already stays.
        """
        ...

    async def ask(self, messages: Messages, *, retry: int) -> Answer:
        """Answer a conversation.

        Args:
            messages: the conversation.
            retry: how many programs were tried before, so that the same question asked again
                may get another answer.

        Raises:
            PlannerError: there is no answer to be had.
        """
        ...


def digest(messages: Messages, retry: int, identity: Mapping[str, Any] | None = None) -> str:
    """The key of a call: SHA-256 of everything that its answer depends on, in hexadecimal.

    The messages hold the tutorial whole, so that another tutorial gives another key.
    """
    named = {
        "messages": [dict(message) for message in messages],
        "retry": retry,
        "identity": dict(identity or {}),
    }
    # Sorted and compact, so that one call has one key whoever made the dictionaries.
    data = json.dumps(named, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    # A task from the command line may hold surrogates, which plain UTF-8 refuses.
    return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()


def _planner_tokens(usage: Usage) -> dict[str, int]:
    names = ("planner_input", "planner_cached", "planner_output")
    return {name: getattr(usage, name) for name in names}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} in place of a text")
    return value
