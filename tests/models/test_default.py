"""Which follower writes where nobody names one, and what is said of it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from disciple_ext.doctor import _default
from disciple_ext.models import default
from disciple_ext.models.default import Default, default_follower, named_follower
from disciple_ext.models.fetch import add
from disciple_ext.models.store import find, remove

from .test_models import start

PROGRAM = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        if self.context.token_count == 3:
            await self.end()
"""


@pytest.fixture(autouse=True)
def nobody_names_one(listed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISCIPLE_FOLLOWER")
    monkeypatch.setattr(default, "BETTER", "tiny")
    monkeypatch.setattr(default, "_told", set())
    monkeypatch.setattr(default, "_found", set())


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "three.py"
    path.write_text(PROGRAM)
    return str(path)


def test_the_better_one_where_it_is_usable(wheel: Path, listed: Path) -> None:
    missing = Default("embedded", "tiny is not on this machine", "disciple models add tiny")
    assert default_follower() == missing
    assert _default().detail == "embedded: tiny is not on this machine"
    add("tiny")
    assert default_follower() == Default("tiny", "it was added")
    assert named_follower(None) == "tiny"
    assert _default().ok and _default().detail == "tiny: it was added"
    path = find("tiny")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    damaged = default_follower()
    assert damaged.spec == "embedded" and "damaged" in damaged.why and damaged.fix
    remove("tiny")
    assert default_follower() == missing


def test_a_name_goes_first(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add("tiny")
    assert named_follower("hf:somewhere") == "hf:somewhere"
    monkeypatch.setenv("DISCIPLE_FOLLOWER", "gguf:./mine.gguf")
    assert named_follower(None) == "gguf:./mine.gguf"
    assert "DISCIPLE_FOLLOWER" in default_follower().why
    assert named_follower("embedded") == "embedded"


def test_it_is_said_once_and_only_where_nobody_named_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert named_follower("embedded") == "embedded" and not caplog.records
    with monkeypatch.context() as named:
        named.setenv("DISCIPLE_FOLLOWER", "embedded")
        assert named_follower(None) == "embedded" and not caplog.records
    for _ in range(3):
        assert named_follower(None) == "embedded"
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("disciple_ext", logging.WARNING)
    said = record.getMessage()
    assert "disciple models add tiny" in said and "DISCIPLE_FOLLOWER=embedded" in said
    assert "\n" not in said


def test_the_weights_are_read_once_a_process(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add("tiny")
    looked: list[Any] = []
    real = default.holding
    monkeypatch.setattr(default, "holding", lambda model: looked.append(model) or real(model))
    assert [named_follower(None) for _ in range(3)] == ["tiny"] * 3
    assert len(looked) == 1


def ran(listed: Path, *args: str) -> tuple[str, list[str]]:
    """What a command printed, and its lines on standard error."""
    process = start(listed, "none", *args)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out, err.splitlines()


def test_the_command_line_says_it_beside_the_answer(listed: Path, program: str) -> None:
    command = ("exec", program, "-n", "2", "--sandbox", "none")
    out, err = ran(listed, *command, "--json")
    assert json.loads(out)["text"] is not None
    (line,) = err
    assert "the embedded follower writes" in line and "disciple models add tiny" in line
    assert ran(listed, *command, "--quiet")[1] == []
    assert "models add" not in "".join(ran(listed, *command, "--follower", "embedded")[1])


def test_the_command_line_takes_what_was_added(wheel: Path, listed: Path, program: str) -> None:
    add("tiny")
    trace = listed.with_name("trace.json")
    command = ("exec", program, "-n", "2", "--sandbox", "none", "--trace", str(trace))
    _, err = ran(listed, *command)
    assert json.loads(trace.read_text())["follower"] == "tiny"
    assert "models add" not in "".join(err)


def test_python_says_it_once_on_standard_error(program: str) -> None:
    code = (
        "from pathlib import Path; from disciple_ext import run_program; import sys\n"
        "for _ in range(2):\n"
        "    print(run_program(Path(sys.argv[1]).read_text(), n=2, sandbox='none').text is None)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, program],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "False\nFalse\n"
    assert done.stderr.count("disciple models add smollm2") == 1, done.stderr
