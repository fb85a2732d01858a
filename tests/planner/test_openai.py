"""The OpenAI-compatible planner against a scripted endpoint in a process of its own."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from disciple_ext.errors import PlannerError, UsageError
from disciple_ext.planner.base import Feedback
from disciple_ext.planner.chat.openai import OpenAIPlanner
from disciple_ext.planner.chat.openai_chat import OpenAIChat
from disciple_ext.planner.events import observed_by
from disciple_ext.records.events import PlannerWaiting, PlannerWriting
from disciple_ext.records.program import Program
from disciple_ext.records.result import Usage
from disciple_ext.records.task import Task

TASK = Task("Write a sentence with exactly 12 words.")
COUNTED = Usage(planner_input=36, planner_cached=64, planner_output=20)
NO_WAIT = {"Retry-After-Ms": "1"}


async def plan(model: str = "m", **options: Any) -> Any:
    return await OpenAIPlanner(model, cache=False, **options).plan(TASK, ())


async def failure(says: str, **options: Any) -> PlannerError:
    with pytest.raises(PlannerError, match=says) as caught:
        await plan(**options)
    return caught.value


# Answers --------------------------------------------------------------------------------------


async def test_a_program_its_usage_and_its_cost_come_back(endpoint: Any) -> None:
    endpoint.script(endpoint.program())
    made = await plan("gpt-4o")
    assert made.program == Program(endpoint.code, planner="openai:gpt-4o", trusted=False)
    assert made.usage == COUNTED and not made.cached_answer
    assert made.cost == pytest.approx((36 * 5.00 + 64 * 2.50 + 20 * 20.00) / 1e6)
    (request,) = endpoint.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["headers"]["authorization"] == "Bearer sk-secret"
    body = request["body"]
    assert body["model"] == "gpt-4o"
    assert body["stream"] is True and body["stream_options"] == {"include_usage": True}
    assert set(body) == {"model", "messages", "stream", "stream_options"}
    assert body["messages"][0]["role"] == "system"
    assert "InferenceModel" in body["messages"][0]["content"]
    assert TASK.instruction in body["messages"][-1]["content"]


async def test_options_are_sent_where_they_are_given(endpoint: Any) -> None:
    endpoint.script(endpoint.program())
    await plan(temperature=0.3, seed=7, effort="low", max_output_tokens=900, organization="org-1")
    (request,) = endpoint.requests
    assert request["headers"]["openai-organization"] == "org-1"
    given = {"temperature": 0.3, "seed": 7, "reasoning_effort": "low"}
    assert given.items() <= request["body"].items()
    assert request["body"]["max_tokens"] == 900


def test_the_limit_of_an_answer_has_the_name_that_the_server_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    names = {
        None: "max_completion_tokens",
        "https://mine.openai.azure.com/openai/v1": "max_completion_tokens",
        "http://localhost:8000/v1": "max_tokens",
        "https://notopenai.com/v1": "max_tokens",
    }
    for base_url, name in names.items():
        chat = OpenAIChat("m", base_url=base_url, max_output_tokens=5)
        assert chat.identity["parameters"] == {name: 5}


async def test_failed_attempts_are_told(endpoint: Any) -> None:
    endpoint.script(endpoint.program())
    failed = Feedback(Program(endpoint.code), "NameError: nope", "line 3, in step", attempt=1)
    await OpenAIPlanner("m").plan(TASK, [failed])
    told = endpoint.requests[0]["body"]["messages"]
    assert "NameError: nope" in told[-1]["content"]


@pytest.mark.parametrize("form", ["rejected", "ignored", "switched off"])
async def test_a_server_that_cannot_stream(endpoint: Any, form: str) -> None:
    planner = OpenAIPlanner("gpt-4o", cache=False, stream=form != "switched off")
    whole = endpoint.plain(f"```\n{endpoint.code}```")
    no = endpoint.failure(400, "unknown field stream_options")
    endpoint.script(*([no] if form == "rejected" else []), whole, whole)
    for _ in range(2):  # the second time it is not tried again
        made = await planner.plan(TASK, ())
        assert made.program.source == endpoint.code and made.usage == COUNTED
    streams = [r["body"].get("stream") for r in endpoint.requests]
    assert (
        streams
        == {
            "rejected": [True, None, None],
            "ignored": [True, True],
            "switched off": [None, None],
        }[form]
    )


async def test_a_stream_without_usage_has_no_known_cost(endpoint: Any) -> None:
    endpoint.script(endpoint.program(usage=None))
    made = await plan("gpt-4o")
    assert made.program.source == endpoint.code
    assert (made.usage, made.cost) == (Usage(), None)


async def test_thinking_aloud_is_no_program(endpoint: Any) -> None:
    wrong = endpoint.code.replace("end", "hint")
    answer = f"```python\n{endpoint.code}```"
    for thought in (
        endpoint.stream(f"<think>\n```python\n{wrong}```\n", f"no.</think>\n{answer}"),
        endpoint.stream(f"so:\n```python\n{wrong}```\nno.</think>\n", answer),
        endpoint.plain(answer, reasoning_content=f"```python\n{wrong}```"),
    ):
        endpoint.script(thought)
        assert (await plan()).program.source == endpoint.code
    # A server whose parser takes everything for thinking.
    endpoint.script(endpoint.stream(answer, key="reasoning_content"))
    assert (await plan()).program.source == endpoint.code


async def test_content_in_parts_is_joined(endpoint: Any) -> None:
    endpoint.script(endpoint.plain([{"type": "text", "text": f"```\n{endpoint.code}"}]))
    assert (await plan()).program.source == endpoint.code


async def test_progress_is_told_while_it_streams(endpoint: Any) -> None:
    endpoint.script(endpoint.program(pause=0.11))
    heard: list[Any] = []
    with observed_by(heard.append):
        await plan()
    counts = [event.characters for event in heard if isinstance(event, PlannerWriting)]
    assert counts and counts == sorted(counts) and counts[-1] <= len(endpoint.code) + 20


# Answers without a program --------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("I cannot help with that.", {}, "holds no program"),
        ("", {}, "empty answer"),
        ("", {"finish": "content_filter"}, "refused the task"),
        ("```python\nclass InferenceModel(BaseModel):\n    x = 1\n", {"finish": "length"}, "cut"),
        ("<think>let me see", {"finish": "length"}, "cut off"),
    ],
)
async def test_answers_without_a_program(
    endpoint: Any, stream: bool, text: str, options: Any, says: str
) -> None:
    make = endpoint.stream if stream else endpoint.plain
    endpoint.script(make(text, **options))
    error = await failure(says, model="gpt-4o")
    assert error.exit_code == 3
    assert error.usage == COUNTED and error.cost == pytest.approx(0.00074)  # it was paid for


async def test_a_refusal_is_told(endpoint: Any) -> None:
    endpoint.script(endpoint.plain(None, refusal="I will not"))
    await failure("refused the task.*I will not")
    endpoint.script(endpoint.stream("I will", " not", key="refusal"))
    await failure("refused the task.*I will not")


async def test_a_cut_off_answer_with_a_whole_program_is_taken(endpoint: Any) -> None:
    endpoint.script(endpoint.stream(f"```python\n{endpoint.code}```\nThis wor", finish="length"))
    assert (await plan()).program.source == endpoint.code


async def test_an_answer_without_choices(endpoint: Any) -> None:
    endpoint.script({"json": {"object": "list"}})
    await failure("without choices")


# Faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "says", "code", "requests"),
    [
        (401, "refused the key.*OPENAI_API_KEY", 4, 1),
        (403, "refused the key", 4, 1),
        (404, "knows no model 'm'", 4, 1),
        (400, "failed: too many words", 3, 2),  # the second without streaming
    ],
)
async def test_refused_requests(
    endpoint: Any, status: int, says: str, code: int, requests: int
) -> None:
    endpoint.script(*[endpoint.failure(status, "too many words for sk-secret")] * 2)
    error = await failure(says)
    assert (error.exit_code, error.cost) == (code, 0.0)
    assert "sk-secret" not in str(error)
    assert len(endpoint.requests) == requests


@pytest.mark.parametrize("status", [429, 500])
async def test_the_client_retries_and_then_says_so(endpoint: Any, status: int) -> None:
    endpoint.script(endpoint.failure(status), endpoint.failure(status), endpoint.program())
    assert (await plan()).program.source == endpoint.code
    endpoint.script(*[endpoint.failure(status)] * 3)
    error = await failure("busy")
    assert (error.exit_code, error.cost) == (3, 0.0)
    assert len(endpoint.requests) == 3


async def test_retry_after_is_honoured_and_shown(endpoint: Any) -> None:
    busy = endpoint.failure(429, headers={"Retry-After": "1"})
    endpoint.script(busy, endpoint.program())
    heard: list[Any] = []
    with observed_by(heard.append):
        assert (await plan()).program.source == endpoint.code
    first, second = (r["time"] for r in endpoint.requests)
    assert 1.0 <= second - first < 4.0
    waits = [event for event in heard if isinstance(event, PlannerWaiting)]
    assert waits[0] == PlannerWaiting(1.0, "HTTP 429")
    assert waits[1].why == "asking again, try 2 of 3"


async def test_a_wait_that_is_too_long_is_an_error_at_once(endpoint: Any) -> None:
    endpoint.script(endpoint.failure(429, "come back", headers={"Retry-After": "3600"}))
    heard: list[Any] = []
    with observed_by(heard.append):
        await failure("limits its use.*come back")
    assert not [event for event in heard if isinstance(event, PlannerWaiting)]


async def test_answers_that_are_none(endpoint: Any) -> None:
    endpoint.script({"raw": "<html>hello</html>"})
    assert (await failure("sent what is no answer")).cost is None
    endpoint.script({"events": ["{not json"]})
    await failure("sent what is no answer")
    endpoint.script({"json": ["a", "list"]})
    await failure("without choices")
    endpoint.script({"events": [{"error": {"message": "out of memory"}}]})
    await failure("out of memory")


async def test_a_server_that_never_answers(endpoint: Any) -> None:
    endpoint.script({"fault": "stall"})
    begun = time.monotonic()
    await failure(r"no answer within 0.3 s", timeout=0.3, max_retries=0)
    assert time.monotonic() - begun < 5.0


async def test_a_stream_that_stalls(endpoint: Any) -> None:
    endpoint.script(endpoint.program(finish=None, usage=None, end="stall"))
    error = await failure("stopped in the middle", timeout=0.4)
    assert error.cost is None and len(endpoint.requests) == 1  # paid for: not asked again


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [
        ("openai_chat._PATIENCE", 0.6, "did not come to an end"),
        ("openai_answer._MOST_CHARACTERS", 50, "more than 50"),
    ],
)
async def test_a_stream_without_end(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, says: str
) -> None:
    monkeypatch.setattr(f"disciple_ext.planner.chat.{limit}", value)
    endpoint.script(endpoint.stream(*["and so on "] * 100, pause=0.05))
    assert (await failure(says, timeout=5.0)).cost is None


async def test_a_draft_in_cut_off_thinking_is_no_program(endpoint: Any) -> None:
    draft = f"maybe\n```python\n{endpoint.code}```\nor"
    endpoint.script(endpoint.stream(draft, key="reasoning_content", finish="length"))
    await failure("cut off")


@pytest.mark.parametrize("end", ["close", "quiet"])
async def test_a_stream_that_breaks_off(endpoint: Any, end: str) -> None:
    half = "```python\nclass InferenceModel(BaseModel):\n    x = 1\n"
    endpoint.script(endpoint.stream(half, finish=None, usage=None, end=end))
    error = await failure("broke before|stopped before")
    assert (error.exit_code, error.cost) == (3, None)


async def test_a_connection_that_is_closed_is_tried_again(endpoint: Any) -> None:
    endpoint.script({"fault": "close"}, endpoint.program())
    assert (await plan()).program.source == endpoint.code
    endpoint.script({"fault": "close"})
    await failure("broke before its answer was whole", max_retries=0)


async def test_no_server_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    error = await failure("cannot reach http://127", base_url=url, max_retries=0)
    assert (error.exit_code, error.cost) == (4, 0.0)


# Keys and names -------------------------------------------------------------------------------


async def test_a_local_server_needs_no_key(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    endpoint.script(endpoint.program())
    assert (await plan()).program.source == endpoint.code


async def test_no_key_and_no_server_names_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert (await failure("OPENAI_API_KEY", model="gpt-4o")).exit_code == 4


async def test_a_password_in_the_address_is_not_shown() -> None:
    error = await failure("cannot reach http://127", base_url="http://me:secret@127.0.0.1:9/v1")
    assert "secret" not in str(error)
    chat = OpenAIChat("m", base_url="http://me:secret@127.0.0.1:9/v1")
    assert chat.identity["endpoint"] == "http://127.0.0.1:9/v1"


def test_a_planner_needs_a_model() -> None:
    with pytest.raises(UsageError, match="openai:gpt-4o"):
        OpenAIPlanner(" ")
