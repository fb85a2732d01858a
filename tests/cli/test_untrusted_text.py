"""No text of a program steers a terminal, passes for ours, or gets into the JSON."""

from __future__ import annotations

import io
import json
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from disciple_ext import cli
from disciple_ext.cli.progress import Progress
from disciple_ext.records.events import AttemptFailed, Event, ProgramPrinted, RunStarted, StepDone

EVIL = "\x1b]0;owned\x07 \u202e \x9b2J"
SHOWN = "\\x1b]0;owned\\x07 \\u202e \\x9b2J"
RAW = ("\x1b]", "\x07", "\u202e", "\x9b")
LEVELS = ("process", "none") if hasattr(os, "fork") else ("none",)

Command = Callable[..., tuple[int, str, str]]


class Terminal(io.StringIO):
    """A terminal that remembers what it was sent."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Run the command on a terminal; returns exit code, standard output and standard error."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setattr("warnings.showwarning", warnings.showwarning)
    handler = signal.getsignal(signal.SIGINT)

    def run(*args: str) -> tuple[int, str, str]:
        out, err = Terminal(), Terminal()
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", err)
        return cli.run(list(args)), out.getvalue(), err.getvalue()

    yield run
    signal.signal(signal.SIGINT, handler)


def program(tmp_path: Path, step: str, rest: str = "") -> str:
    body = "\n".join("        " + line for line in step.split("\n"))
    path = tmp_path / "program.py"
    path.write_text(
        f"EVIL = {EVIL!r}\n"
        f"class InferenceModel(BaseModel):\n    async def step(self):\n{body}\n{rest}\n"
    )
    return str(path)


ANSWERS = "await self.next_token()\nawait self.end()"
NAMED = "    def __str__(self):\n        return EVIL"


def harmless(*texts: str) -> bool:
    return not any(raw in text for raw in RAW for text in texts)


@pytest.mark.parametrize("level", LEVELS)
def test_an_answer_and_printed_lines(terminal: Command, tmp_path: Path, level: str) -> None:
    path = program(tmp_path, f"print(EVIL)\nprint('error: not ours')\n{ANSWERS}", NAMED)
    code, out, err = terminal("exec", path, "-n", "1", "--sandbox", level)
    assert code == 0, err
    assert harmless(out, err)
    assert out == SHOWN + "\n"
    assert f"program: {SHOWN}" in err
    assert "\nerror: not ours" not in err and "program: error: not ours" in err


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("debug", [False, True])
def test_an_error_message_and_its_traceback(
    terminal: Command, tmp_path: Path, level: str, debug: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISCIPLE_DEBUG", "1" if debug else "")
    path = program(tmp_path, "raise ValueError(EVIL + '\\nerror: not ours')")
    code, out, err = terminal("exec", path, "-n", "1", "--sandbox", level)
    assert code == 3, err
    assert out == "" and harmless(err)
    assert SHOWN in err and ("Traceback" in err) == debug
    if not debug:
        assert "\nerror: not ours" not in err


@pytest.mark.parametrize("level", LEVELS)
def test_a_reason(terminal: Command, tmp_path: Path, level: str) -> None:
    path = program(tmp_path, "self.condition(False)", NAMED)
    code, out, err = terminal("exec", path, "-n", "1", "--sandbox", level)
    assert code == 3, err
    assert out == "" and harmless(err)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("quiet", [False, True])
def test_printing_leaves_the_json_alone(
    terminal: Command, tmp_path: Path, level: str, quiet: bool
) -> None:
    path = program(tmp_path, f"print(EVIL)\nprint('{{}}')\n{ANSWERS}", NAMED)
    flags = ["--json", "-q"] if quiet else ["--json"]
    code, out, err = terminal("exec", path, "-n", "1", "--sandbox", level, *flags)
    assert code == 0, err
    assert out.count("\n") == 1 and out.isascii()
    assert json.loads(out)["text"] == EVIL
    assert ("program: {}" in err) != quiet
    assert harmless(err)


def test_a_program_is_printed_escaped(terminal: Command, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(f"import x{chr(0x202E)}y\n# \x1b]0;owned\x07\n", encoding="utf-8")
    _, out, err = terminal("check", str(path))
    assert out and harmless(out, err)


@pytest.mark.parametrize(
    "event",
    [
        AttemptFailed(1, EVIL, "ProgramCrashed"),
        ProgramPrinted(EVIL),
        StepDone(1, 1, 0, 1.0, EVIL, 3),
    ],
    ids=lambda event: type(event).__name__,
)
@pytest.mark.parametrize("interactive", [False, True])
def test_events(event: Event, interactive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    err = Terminal() if interactive else io.StringIO()
    monkeypatch.setattr("sys.stderr", err)
    with Progress("embedded") as progress:
        progress(RunStarted(1, "smc", 1.0))
        progress(event)
    assert harmless(err.getvalue())
    if interactive or not isinstance(event, StepDone):
        assert "\\u202e" in err.getvalue()


def test_a_flood_of_printed_lines_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    err = io.StringIO()
    monkeypatch.setattr("sys.stderr", err)
    with Progress("embedded") as progress:
        for _ in range(100):
            progress(ProgramPrinted("x" * 1000))
    assert len(err.getvalue()) < 25_000
    assert err.getvalue().count("printed more than is shown") == 1
