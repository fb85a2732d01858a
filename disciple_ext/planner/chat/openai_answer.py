"""The answer in what an OpenAI-compatible endpoint sent: as a stream, or in one piece.

Servers differ: whatever may be missing is looked for, and nothing is taken to be there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ...errors import PlannerError
from ...records.events import PlannerWriting
from ...records.result import Usage
from ..events import emit
from .base import Answer

__all__ = ["gathered", "read"]

_MOST_CHARACTERS = 4_000_000
"""Characters of an answer, thinking included: a server that never ends is stopped there."""


async def gathered(stream: Any) -> Answer:
    """The answer that a stream of chunks makes."""
    parts: dict[str, list[str]] = {"content": [], "refusal": [], "thinking": []}
    finish, model, used = "", "", None
    characters, told = 0, time.monotonic()
    async with stream:
        async for chunk in stream:
            model = getattr(chunk, "model", None) or model
            used = getattr(chunk, "usage", None) or used
            choices = getattr(chunk, "choices", None)
            # The last chunk of a stream has the usage, and no choice.
            for choice in choices[:1] if isinstance(choices, list) else ():
                finish = getattr(choice, "finish_reason", None) or finish
                for name, text in _texts(getattr(choice, "delta", None)).items():
                    parts[name].append(text)
                    characters += len(text)
            if characters > _MOST_CHARACTERS:
                raise ValueError(f"an answer of more than {_MOST_CHARACTERS:,} characters")
            # A chunk is often one token: an event for each would cost more than it tells.
            if time.monotonic() - told > 0.2:
                told = time.monotonic()
                emit(PlannerWriting(characters))
    return _answer({name: "".join(part) for name, part in parts.items()}, finish, model, used)


def read(name: str, data: Any) -> Answer:
    """The answer in a completion that came in one piece."""
    from openai.types.chat import ChatCompletion

    # `construct` does not validate: servers leave out fields that OpenAI's own answers have.
    completion = ChatCompletion.construct(**data) if isinstance(data, dict) else None
    choices = getattr(completion, "choices", None)
    choices = choices if isinstance(choices, list) else None
    message = getattr(choices[0], "message", None) if choices else None
    if completion is None or not choices or message is None:
        raise PlannerError(
            f"the endpoint of {name} sent an answer without choices; "
            "is OPENAI_BASE_URL the address of an OpenAI-compatible server (ending in /v1)?"
        )
    finish = getattr(choices[0], "finish_reason", None) or "stop"
    model, used = getattr(completion, "model", None), getattr(completion, "usage", None)
    return _answer(_texts(message), finish, model or "", used)


def _answer(parts: Mapping[str, str], finish: str, model: str, used: Any) -> Answer:
    if finish not in ("", "content_filter"):
        # Other words, such as tool_calls, come with a text that is whole.
        finish = "length" if finish in ("length", "max_tokens") else "stop"
    # A server that takes the whole answer for thinking leaves the content empty.
    text = parts.get("content", "")
    if not text.strip() and finish == "stop":
        text = parts.get("thinking", "")
    text = text.encode(errors="replace").decode()  # JSON may spell half of a character
    return Answer(text, finish, parts.get("refusal") or None, _usage(used), model=model)


def _texts(message: Any) -> dict[str, str]:
    """The texts of a message, or of a piece of one."""
    found = {
        "content": _joined(getattr(message, "content", None)),
        "refusal": _joined(getattr(message, "refusal", None)),
        # Two names are in use for it among servers; neither is OpenAI's.
        "thinking": _joined(getattr(message, "reasoning_content", None))
        or _joined(getattr(message, "reasoning", None)),
    }
    return {name: text for name, text in found.items() if text}


def _joined(content: Any) -> str:
    """A content that is a text, or a list of parts with texts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def _usage(used: Any) -> Usage | None:
    """The tokens by price class: input that was not cached, cached input, output."""
    read, written = getattr(used, "prompt_tokens", None), getattr(used, "completion_tokens", None)
    if not isinstance(read, int) or not isinstance(written, int) or min(read, written) < 0:
        return None
    details = getattr(used, "prompt_tokens_details", None)
    cached = getattr(details, "cached_tokens", None)
    cached = min(max(0, cached), read) if isinstance(cached, int) else 0
    # `prompt_tokens` includes the cached ones, which have a price of their own.
    return Usage(planner_input=read - cached, planner_cached=cached, planner_output=written)
