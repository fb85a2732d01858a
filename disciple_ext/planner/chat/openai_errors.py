"""What went wrong at an endpoint, in words that say what to do: one table for all of it."""

from __future__ import annotations

from typing import Protocol

import openai

from ...errors import PlannerError
from ...text.shorten import one_line

__all__ = ["Endpoint", "explained", "no_key"]


class Endpoint(Protocol):
    """What the messages say of a chat at an endpoint.

    Attributes:
        name: ``openai:MODEL``.
        model: the model's name at the endpoint.
        address: of the endpoint, for people to read.
        api_key: the key, which no message shows, or None.
        timeout: seconds without a byte from the endpoint.
        tries: how often a request is made in all.
    """

    name: str
    model: str
    address: str
    api_key: str | None
    timeout: float
    tries: int


def no_key(chat: Endpoint) -> PlannerError:
    """The error where there is neither a key nor an address."""
    return _error(
        f"the planner {chat.name} needs a key: set OPENAI_API_KEY, or set OPENAI_BASE_URL to a "
        "local OpenAI-compatible server, or use --planner expert, which needs neither",
        exit_code=4,
        free=True,
    )


def explained(error: Exception, chat: Endpoint) -> PlannerError:
    """The client's error as one of ours.

    Its ``exit_code`` is 4 where the environment lacks something (a key, a server), and its
    ``cost`` is 0 where the endpoint refused the request before any work.
    """
    said, name = _said(error, chat), chat.name
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        return _error(
            f"the endpoint refused the key of planner {name} (HTTP {error.status_code}); "
            "check OPENAI_API_KEY",
            exit_code=4,
            free=True,
        )
    if isinstance(error, openai.NotFoundError):
        return _error(
            f"the endpoint knows no model {chat.model!r} ({said}); "
            "check the name and OPENAI_BASE_URL",
            exit_code=4,
            free=True,
        )
    # Before APIStatusError, of which it and the two above are kinds.
    if isinstance(error, openai.RateLimitError):
        return _error(
            f"the endpoint of {name} limits its use ({said}); wait, or check the account's quota",
            free=True,
        )
    if isinstance(error, openai.APIStatusError):
        later = f"it was asked {chat.tries} times; try again later, or look at the server's log"
        todo = later if error.status_code >= 500 else "check the model's limits and your options"
        return _error(
            f"the endpoint of {name} failed: {said} (HTTP {error.status_code}); {todo}", free=True
        )
    # Before APIConnectionError, of which it is a kind. Not free: the model may have been at work.
    if isinstance(error, openai.APITimeoutError):
        return _error(
            f"planner {name} gave no answer within {chat.timeout:g} s, or stopped in the middle of "
            f"one for so long (at most {chat.tries} tries); try a faster model or a longer timeout"
        )
    if isinstance(error, openai.APIConnectionError):
        # By name: these are the HTTP library's own, which we do not import.
        if type(error.__cause__).__name__ in ("RemoteProtocolError", "ReadError"):
            return _error(
                f"the connection to planner {name} broke before its answer was whole; try again, "
                "or look at the server's log"
            )
        return _error(
            f"cannot reach {chat.address} for planner {name}; "
            "is the server running, and OPENAI_BASE_URL right?",
            exit_code=4,
            free=True,
        )
    if isinstance(error, TimeoutError):
        return _error(f"planner {name} did not come to an end; use another model")
    if isinstance(error, ValueError):
        return _error(
            f"the endpoint of {name} sent what is no answer ({said}); is OPENAI_BASE_URL the "
            "address of an OpenAI-compatible server (ending in /v1)?"
        )
    return _error(f"the endpoint of {name} failed: {said}; try again, or look at its log")


def _error(message: str, *, exit_code: int = 3, free: bool = False) -> PlannerError:
    error = PlannerError(message)
    error.exit_code = exit_code
    # None is "unknown": a call that may have been billed must not count as free.
    error.cost = 0.0 if free else None
    return error


def _said(error: Exception, chat: Endpoint) -> str:
    """The endpoint's own message, one line, without the key."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    text = one_line(str(message or error) or type(error).__name__)
    # Servers quote the key in their refusals, and messages end in logs.
    return text.replace(chat.api_key, "***") if chat.api_key else text
