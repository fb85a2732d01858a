"""The protocol against real model servers on this machine, which serve the embedded weights."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from disciple_ext.errors import PlannerError
from disciple_ext.follower.hf import EMBEDDED
from disciple_ext.planner.chat.openai_chat import OpenAIChat

CONVERSATION = [
    {"role": "system", "content": "You write plain sentences."},
    {"role": "user", "content": "Write a sentence."},
]
SERVE = {
    "transformers": ["-m", "transformers.cli.transformers", "serve", str(EMBEDDED)],
    "vllm": [
        *("-m", "vllm.entrypoints.openai.api_server", "--model", str(EMBEDDED)),
        *("--dtype", "float32", "--enforce-eager"),
    ],
}
NEEDS = {"transformers": ("fastapi", "uvicorn"), "vllm": ("vllm",)}


@pytest.fixture(params=["transformers", pytest.param("vllm", marks=pytest.mark.vllm)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a server in a process of its own."""
    kind: str = request.param
    missing = [name for name in NEEDS[kind] if find_spec(name) is None]
    if missing:
        pytest.skip(f"the server of {kind} needs {' and '.join(missing)}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, *SERVE[kind], "--host", "127.0.0.1", "--port", str(port)]
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "NO_COLOR": "1"}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **offline}, stdout=log, stderr=log, start_new_session=True
        )
    try:
        up, until = False, time.monotonic() + 500
        while not up and process.poll() is None and time.monotonic() < until:
            time.sleep(0.5)
            with socket.socket() as probe:
                up = probe.connect_ex(("127.0.0.1", port)) == 0
        assert up, (tmp_path / "log").read_text()[-2000:]
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # vLLM's engine is a process of its own
        process.wait()


@pytest.mark.slow
async def test_a_real_server_answers(url: str) -> None:
    for stream in (True, False):
        options: dict[str, Any] = {"base_url": url, "stream": stream, "timeout": 120.0}
        chat = OpenAIChat(str(EMBEDDED), max_output_tokens=40, temperature=0.0, **options)
        answer = await chat.ask(CONVERSATION, retry=0)
        assert answer.finish_reason == "stop" and answer.text.strip().endswith(".")
        assert answer.usage is not None and answer.usage.planner_output > 3
        cut = OpenAIChat(str(EMBEDDED), max_output_tokens=3, **options)
        assert (await cut.ask(CONVERSATION, retry=0)).finish_reason == "length"
        with pytest.raises(PlannerError):
            await OpenAIChat("no-such/model", max_retries=0, **options).ask(CONVERSATION, retry=0)
