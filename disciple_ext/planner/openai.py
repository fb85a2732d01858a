"""A planner behind an OpenAI-compatible endpoint: the OpenAI service or a local server.

The ``openai`` client reads ``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` itself and retries what is
worth retrying; there is no second layer of retries here. What the model writes is never trusted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ..errors import PlannerError, UsageError
from ..program import Program
from ..result import Usage
from ..task import Task
from .base import Feedback, Plan
from .extract import extract_program, parses
from .prompt import Message, messages

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

__all__ = ["OpenAIPlanner"]

_NO_KEY = (
    "the planner {name} needs a key: set OPENAI_API_KEY, or set OPENAI_BASE_URL to a local "
    "OpenAI-compatible server, or use --planner expert, which needs neither"
)


class OpenAIPlanner:
    """Asks a chat model for the program.

    Args:
        model: name of the model at the endpoint.
        timeout: seconds for one request (the client's own default of 600 is long).
        max_retries: how often the client repeats a request that failed on the way.
        max_output_tokens: limit of the answer, thinking included, or None for the endpoint's own.
        base_url: address of the endpoint; None for ``OPENAI_BASE_URL`` or the OpenAI service.
        api_key: None for ``OPENAI_API_KEY``.

    Raises:
        UsageError: the model has no name.
    """

    trusted = False
    paragraphs: Sequence[str] = ()

    def __init__(
        self,
        model: str,
        *,
        timeout: float = 120.0,
        max_retries: int = 2,
        max_output_tokens: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        if not model.strip():
            raise UsageError("the planner openai needs a model, for example openai:gpt-4o")
        self.name = f"openai:{model}"
        self._model = model
        self._timeout = timeout
        self._max_retries = max_retries
        self._max_output_tokens = max_output_tokens
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        self._api_key = api_key or os.environ.get("OPENAI_API_KEY") or None

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        """Ask for a program, with the failed attempts before it.

        Raises:
            PlannerError: no key, an endpoint that does not answer, a refusal, or an answer without
                a program. Its ``exit_code`` is 4 where the key or the endpoint is missing.
        """
        answer = await self._ask(messages(task, feedback, self.paragraphs))
        return Plan(Program(self._program(answer), planner=self.name), _usage(answer))

    async def _ask(self, conversation: list[Message]) -> ChatCompletion:
        import openai  # not at the top: it takes half a second, and the expert needs none of it

        if self._api_key is None and self._base_url is None:
            raise _lacking(_NO_KEY.format(name=self.name))
        limit: dict[str, Any] = {}
        if self._max_output_tokens is not None:
            limit["max_completion_tokens"] = self._max_output_tokens
        try:
            # A client for each request: its connections belong to one event loop, and the
            # synchronous API starts a new loop each time. Local servers ask for no key.
            async with openai.AsyncOpenAI(
                api_key=self._api_key or "none",
                base_url=self._base_url,
                timeout=self._timeout,
                max_retries=self._max_retries,
            ) as client:
                answer: ChatCompletion = await client.chat.completions.create(
                    model=self._model, messages=cast(Any, conversation), **limit
                )
                return answer
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise _lacking(
                f"the endpoint refused the key of planner {self.name} (HTTP {error.status_code}); "
                "check OPENAI_API_KEY"
            ) from error
        except openai.NotFoundError as error:
            raise _lacking(
                f"the endpoint knows no model {self._model!r} ({self._short(error)}); "
                "check the name and OPENAI_BASE_URL"
            ) from error
        except openai.RateLimitError as error:
            raise PlannerError(
                f"the endpoint of {self.name} limits its use ({self._short(error)}); "
                "wait, or check the account's quota"
            ) from error
        except openai.APITimeoutError as error:
            raise PlannerError(
                f"planner {self.name} gave no answer within {self._timeout:g} s "
                f"({1 + self._max_retries} tries); try a faster model or a longer timeout"
            ) from error
        except openai.APIConnectionError as error:
            where = self._base_url or "the OpenAI service"
            raise _lacking(
                f"cannot reach {where} for planner {self.name}; "
                "is the server running, and OPENAI_BASE_URL right?"
            ) from error
        except (openai.OpenAIError, ValueError) as error:
            raise PlannerError(
                f"the endpoint of {self.name} failed: {self._short(error)}"
            ) from error

    def _program(self, answer: ChatCompletion) -> str:
        if not getattr(answer, "choices", None):
            raise PlannerError(
                f"the endpoint of {self.name} sent an answer without choices; "
                "is OPENAI_BASE_URL the address of an OpenAI-compatible server (ending in /v1)?"
            )
        choice = answer.choices[0]
        text = choice.message.content or ""
        refusal = getattr(choice.message, "refusal", None)
        if refusal or choice.finish_reason == "content_filter":
            raise PlannerError(
                f"planner {self.name} refused the task ({_start(refusal or 'content filter')}); "
                "rephrase the task or use another planner"
            )
        source = extract_program(text)
        if choice.finish_reason == "length" and (source is None or not parses(source)):
            raise PlannerError(
                f"the answer of planner {self.name} was cut off at its token limit before the "
                "program was complete; allow more output tokens or use another model"
            )
        if not text.strip():
            raise PlannerError(
                f"planner {self.name} gave an empty answer; try again or use another model"
            )
        if source is None:
            raise PlannerError(
                f"the answer of planner {self.name} holds no program (it begins "
                f"{_start(text)!r}); try again or use another model"
            )
        return source

    def _short(self, error: Exception) -> str:
        """The endpoint's own message, one line, without the key."""
        body = getattr(error, "body", None)
        message = body.get("message") if isinstance(body, dict) else None
        text = _start(str(message or error))
        return text.replace(self._api_key, "***") if self._api_key else text


def _usage(answer: ChatCompletion) -> Usage:
    """The tokens by price class: input that was not cached, cached input, output."""
    used = answer.usage
    if used is None:
        return Usage()
    details = getattr(used, "prompt_tokens_details", None)
    cached = (getattr(details, "cached_tokens", None) or 0) if details else 0
    return Usage(
        planner_input=max(0, (used.prompt_tokens or 0) - cached),
        planner_cached=cached,
        planner_output=used.completion_tokens or 0,
    )


def _lacking(message: str) -> PlannerError:
    """An error of the environment (key, endpoint), not of the model."""
    error = PlannerError(message)
    error.exit_code = 4
    return error


def _start(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"
