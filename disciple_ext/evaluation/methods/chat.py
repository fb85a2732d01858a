"""Ask a chat model for an answer, not for a program, within a budget."""

from __future__ import annotations

from typing import Any

from ...errors import DiscipleError, PlannerError, UsageError
from ...planner.base import PlannerLike, Runner, as_planner
from ...planner.chat.base import Answer, Chat, Messages
from ...planner.purse import Purse

__all__ = ["ask", "chat_of", "paid"]


def chat_of(planner: PlannerLike, follower: Any = None, run: Runner | None = None) -> Chat:
    """The chat model behind a planner.

    Args:
        planner: the planner.
        follower: what a planner is bound to that asks the follower itself.
        run: as for a planner's ``bind``.

    Raises:
        UsageError: there is none behind it.
    """
    chosen = as_planner(planner)
    if follower is not None:
        chosen = chosen.bind(follower, run)
    chat: Chat | None = chosen.chat
    if chat is None:
        raise UsageError(
            f"the planner {chosen.name!r} is no chat model that could be asked for a text; "
            "name one, such as openai:MODEL or replay:DIR"
        )
    return chat


async def ask(chat: Chat, messages: Messages, retry: int, purse: Purse | None) -> Answer:
    """Ask, unless that may cost more than the purse holds.

    Raises:
        LimitExceeded: it may; its kind is ``"cost"``.
        UsageError: there is a purse, and nobody knows what the call may cost.
        PlannerError: there is no answer to be had.
    """
    quote = 0.0
    if purse is not None:
        # Before the call: runs side by side must not count on the same dollars.
        quote = purse.reserve(chat.name, chat.quote(messages, retry=retry))
    try:
        answer = await chat.ask(messages, retry=retry)
    except DiscipleError as error:
        # Only a model that was asked leaves an unknown cost behind.
        cost = error.cost if isinstance(error, PlannerError) else error.cost or 0.0
        if purse is not None:
            purse.settle(quote, cost)
        raise
    if purse is not None:
        purse.settle(quote, paid(answer))
    return answer


def paid(answer: Answer) -> float | None:
    """US dollars that an answer cost just now: nothing where it was at hand."""
    return answer.cost if answer.origin == "model" else 0.0
