"""A scripted endpoint, for planners that are chat models."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CODE = "class InferenceModel(BaseModel):\n    async def step(self):\n        await self.end()\n"
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 64},
}


class Endpoint:
    """The test's end of ``server.py``: sets its script, and reads what it was asked."""

    code = CODE
    usage = USAGE

    def __init__(self, port: int) -> None:
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"

    def script(self, *replies: dict[str, Any]) -> None:
        data = json.dumps(replies).encode()
        urllib.request.urlopen(urllib.request.Request(f"{self.root}/script", data)).close()

    @property
    def requests(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.root}/requests") as reply:
            asked: list[dict[str, Any]] = json.load(reply)
            return asked

    def plain(
        self,
        text: Any,
        *,
        finish: str | None = "stop",
        refusal: str | None = None,
        **message: Any,
    ) -> dict[str, Any]:
        """A completion in one piece."""
        said = {"role": "assistant", "content": text, "refusal": refusal, **message}
        choice = {"index": 0, "finish_reason": finish, "message": said}
        return {"json": {**self._head("chat.completion"), "choices": [choice], "usage": USAGE}}

    def stream(
        self,
        *texts: str,
        finish: str | None = "stop",
        usage: Any = USAGE,
        key: str = "content",
        **reply: Any,
    ) -> dict[str, Any]:
        """A completion in pieces."""
        events = [self._chunk({"role": "assistant", "content": ""})]
        events += [self._chunk({key: text}) for text in texts]
        if finish is not None:
            events.append(self._chunk({}, finish))
        if usage is not None:
            events.append({**self._head("chat.completion.chunk"), "choices": [], "usage": usage})
        return {"events": events, **reply}

    def program(self, source: str = CODE, **reply: Any) -> dict[str, Any]:
        """A program, streamed line by line."""
        lines = f"```python\n{source}```".splitlines(keepends=True)
        return self.stream(*lines, **reply)

    def failure(
        self, status: int, message: str = "busy", headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        error = {"error": {"message": message, "type": "error", "code": None}}
        quick = {"Retry-After-Ms": "1"} if headers is None else headers
        return {"status": status, "json": error, "headers": quick}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": "1", "object": kind, "created": 1, "model": "gpt-4o-2024-08-06"}


@pytest.fixture(scope="session")
def running_endpoint() -> Iterator[Endpoint]:
    command = [sys.executable, str(Path(__file__).with_name("server.py"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield Endpoint(int(process.stdout.readline()))
        process.kill()


@pytest.fixture
def endpoint(running_endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """A fresh script; the environment names the endpoint."""
    running_endpoint.script()
    monkeypatch.setenv("OPENAI_BASE_URL", running_endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    return running_endpoint
