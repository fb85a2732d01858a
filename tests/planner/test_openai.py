"""The OpenAI-compatible planner against a real local HTTP server with scripted answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from disciple_ext.errors import PlannerError, UsageError
from disciple_ext.planner.base import Feedback
from disciple_ext.planner.openai import OpenAIPlanner
from disciple_ext.planner.prompt import messages
from disciple_ext.program import Program
from disciple_ext.result import Usage
from disciple_ext.task import Task

CODE = "class InferenceModel(BaseModel):\n    async def step(self):\n        await self.end()\n"
TASK = Task("Write a sentence with exactly 12 words.")
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 64},
}


class Server(ThreadingHTTPServer):
    """Answers from a script, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[tuple[int, Any]] = []
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.release = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(
            (self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        )
        status, answer = self.server.script.pop(0)
        if status == 0:  # never answers
            self.server.release.wait(10)
            return
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Retry-After-Ms", "1")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        yield server
        server.release.set()
        server.shutdown()
        thread.join()


def completion(text: str | None, *, finish: str = "stop", refusal: str | None = None) -> Any:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": USAGE,
    }


def failure(message: str) -> Any:
    return {"error": {"message": message, "type": "error", "code": None}}


async def test_a_program_and_its_usage_come_back(server: Server) -> None:
    server.script = [(200, completion(f"Sure:\n```python\n{CODE}```"))]
    plan = await OpenAIPlanner("gpt-4o").plan(TASK, ())
    assert plan.program == Program(CODE, planner="openai:gpt-4o", trusted=False)
    assert plan.usage == Usage(planner_input=36, planner_cached=64, planner_output=20)
    path, headers, body = server.requests[0]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer sk-secret"
    assert body["model"] == "gpt-4o"
    assert [m["role"] for m in body["messages"]] == ["system", "user"]
    assert "InferenceModel" in body["messages"][0]["content"]
    assert TASK.instruction in body["messages"][1]["content"]


async def test_failed_attempts_are_told(server: Server) -> None:
    server.script = [(200, completion(CODE))]
    failed = Feedback(Program(CODE), "NameError: nope", "line 3, in step\n    nope", attempt=1)
    await OpenAIPlanner("m").plan(TASK, [failed])
    told = server.requests[0][2]["messages"]
    assert [m["role"] for m in told] == ["system", "user", "assistant", "user"]
    assert CODE.strip() in told[2]["content"]
    complaint = told[3]["content"]
    assert "Attempt 1 failed: NameError: nope" in complaint
    assert "   3          await self.end()" in complaint
    assert "line 3, in step" in complaint


def test_a_long_traceback_keeps_its_end() -> None:
    failed = Feedback(Program(CODE), "deep", "x" * 100_000 + "the end", attempt=1)
    complaint = str(messages(TASK, [failed])[-1])
    assert len(complaint) < 6000
    assert "the end" in complaint


async def test_a_local_server_needs_no_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    server.script = [(200, completion(CODE))]
    assert (await OpenAIPlanner("m").plan(TASK, ())).program.source == CODE


async def test_no_key_and_no_server_names_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(PlannerError, match="OPENAI_API_KEY") as caught:
        await OpenAIPlanner("m").plan(TASK, ())
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (completion("I cannot help with that."), "holds no program"),
        (completion(""), "empty answer"),
        (completion(None), "empty answer"),
        (completion(None, refusal="I will not"), "refused the task.*I will not"),
        (completion("", finish="content_filter"), "refused the task"),
        (completion(f"```python\n{CODE}    async def", finish="length"), "cut off"),
        (completion("<think>let me see", finish="length"), "cut off"),
        ({"object": "list"}, "without choices"),
    ],
)
async def test_answers_without_a_program(server: Server, answer: Any, says: str) -> None:
    server.script = [(200, answer)]
    with pytest.raises(PlannerError, match=says) as caught:
        await OpenAIPlanner("m").plan(TASK, ())
    assert caught.value.exit_code == 3


async def test_a_cut_off_answer_with_a_whole_program_is_taken(server: Server) -> None:
    server.script = [(200, completion(f"```python\n{CODE}```\nThis wor", finish="length"))]
    assert (await OpenAIPlanner("m").plan(TASK, ())).program.source == CODE


@pytest.mark.parametrize(
    ("status", "says", "code"),
    [
        (401, "refused the key.*OPENAI_API_KEY", 4),
        (403, "refused the key", 4),
        (404, "knows no model 'm'", 4),
        (400, "failed: too many words", 3),
    ],
)
async def test_refused_requests(server: Server, status: int, says: str, code: int) -> None:
    server.script = [(status, failure("too many words for sk-secret"))]
    with pytest.raises(PlannerError, match=says) as caught:
        await OpenAIPlanner("m").plan(TASK, ())
    assert caught.value.exit_code == code
    assert "sk-secret" not in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 500])
async def test_the_client_retries_and_then_says_so(server: Server, status: int) -> None:
    server.script = [(status, failure("busy")), (200, completion(CODE))]
    assert (await OpenAIPlanner("m", max_retries=1).plan(TASK, ())).program.source == CODE
    server.script = [(status, failure("busy"))] * 2
    with pytest.raises(PlannerError, match="busy"):
        await OpenAIPlanner("m", max_retries=1).plan(TASK, ())
    assert len(server.requests) == 4


async def test_an_answer_that_is_not_json(server: Server) -> None:
    server.script = [(200, b"<html>hello</html>")]
    with pytest.raises(PlannerError):
        await OpenAIPlanner("m", max_retries=0).plan(TASK, ())


async def test_a_server_that_never_answers(server: Server) -> None:
    server.script = [(0, None)]
    with pytest.raises(PlannerError, match=r"no answer within 0.2 s \(1 tries\)"):
        await OpenAIPlanner("m", timeout=0.2, max_retries=0).plan(TASK, ())


async def test_no_server_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as gone:
        url = f"http://127.0.0.1:{gone.server_address[1]}/v1"
    with pytest.raises(PlannerError, match="cannot reach http://127") as caught:
        await OpenAIPlanner("m", base_url=url, max_retries=0).plan(TASK, ())
    assert caught.value.exit_code == 4


def test_a_planner_needs_a_model() -> None:
    with pytest.raises(UsageError, match="openai:gpt-4o"):
        OpenAIPlanner(" ")
