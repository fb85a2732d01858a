"""``--trace`` and ``disciple view``; and what the live view says."""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from disciple_ext.cli.main import run as run_command
from disciple_ext.cli.progress import Progress
from disciple_ext.records.events import RunStarted, StepDone
from disciple_ext.trace.record import Record, Recorder

LEVEL = "process" if hasattr(os, "fork") else "none"
PROGRAM = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_word()
        if len(self.words) == 3:
            LAST
"""
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def disciple(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Command]:
    """Run a command in this process: exit code, standard output, standard error."""
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setattr("warnings.showwarning", warnings.showwarning)
    handler = signal.getsignal(signal.SIGINT)

    def run(*args: str) -> tuple[int, str, str]:
        code = run_command(list(args))
        return (code, *capsys.readouterr())

    yield run
    signal.signal(signal.SIGINT, handler)


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    def write(last: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.replace("LAST", last))
        return str(path)

    return write


def execute(disciple: Command, program: str, trace: Path) -> tuple[int, str, str]:
    return disciple("exec", program, "-n", "3", "--sandbox", LEVEL, "--trace", str(trace))


@pytest.mark.parametrize("name", ["run.json", "run.html"])
def test_a_trace_is_written_and_viewed(
    name: str, disciple: Command, program: Callable[[str], str], tmp_path: Path
) -> None:
    code, out, err = execute(disciple, program("self.finish()"), tmp_path / name)
    assert code == 0 and f"trace: {tmp_path / name}" in err
    record = Record.load(tmp_path / name)
    assert record.data["answer"]["text"] == out.rstrip("\n")
    assert [len(s["rows"]["add"]) for s in record.data["runs"][0]["steps"]] == [3, 3, 3]
    page = tmp_path / "page.html"
    code, out, _ = disciple("view", str(tmp_path / name), "--out", str(page))
    assert (code, out.strip()) == (0, str(page))
    assert Record.load(page).data == record.data


def test_a_run_that_fails_is_traced_with_its_error(
    disciple: Command, program: Callable[[str], str], tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    code, out, _ = execute(disciple, program("1 / 0"), path)
    assert code == 3 and out == ""
    data = Record.load(path).data
    assert data["attempts"][0]["outcome"] == "ProgramCrashed"
    assert "ZeroDivisionError" in data["attempts"][0]["traceback"]
    assert len(data["runs"][0]["steps"]) == 2 and data["answer"] is None


@pytest.mark.parametrize("name", ["run.txt", "none/run.html"])
def test_a_name_that_will_not_do_is_refused_before_the_run(
    name: str, disciple: Command, program: Callable[[str], str], tmp_path: Path
) -> None:
    code, out, err = execute(disciple, program("self.finish()"), tmp_path / name)
    assert code == 2 and out == "" and name.split("/")[-1] in err


def saved(path: Path, task: str) -> str:
    recorder = Recorder()
    recorder.about(task=task)
    recorder.record().save(path)
    return str(path)


def test_two_traces_make_one_page(disciple: Command, tmp_path: Path) -> None:
    one, two = saved(tmp_path / "one.json", "first"), saved(tmp_path / "two.html", "second")
    code, out, _ = disciple("view", one, two, "--out", str(tmp_path / "both.html"))
    assert code == 0
    page = Path(out.strip()).read_text()
    names = ('{"name":"one"', '{"name":"two"', '"task":"first"', '"task":"second"')
    assert all(text in page for text in names)


def test_view_opens_the_browser_or_says_where_the_page_is(
    disciple: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    found = True

    def browser(url: str) -> bool:
        asked.append(url)
        return found

    monkeypatch.setattr("webbrowser.open", browser)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    page = saved(tmp_path / "run.html", "t")
    assert disciple("view", page) == (0, f"{page}\n", "")
    assert asked == [Path(page).as_uri()]
    found = False
    code, out, err = disciple("view", saved(tmp_path / "run.json", "t"))
    assert code == 0 and "open this file" in err
    assert Record.load(out.strip()).data["task"] == "t"
    assert asked[-1] == Path(out.strip()).as_uri()


def test_what_is_no_trace_is_a_mistake_in_usage(disciple: Command, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps({"schema": 1, "text": "a"}))
    for name in ("result.json", "none.json"):
        code, out, err = disciple("view", str(tmp_path / name))
        assert code == 2 and out == "" and "error:" in err
    code, _, err = disciple("view", saved(tmp_path / "a.json", "t"), "--out", "page.json")
    assert code == 2 and "name.html" in err


def test_the_live_view_says_pace_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("disciple_ext.cli.progress.time.monotonic", lambda: now)
    progress = Progress("embedded")
    progress(RunStarted(4, "smc", 60.0))
    now = 110.0
    progress(StepDone(3, 2, 1, 2.5, "The best so far", 500))
    shown: list[Any] = list(progress._view().renderables)
    said = [text.plain for text in shown]
    assert "step 3: 2 running, 1 ended, ESS 2.5, 500 tokens, 50 a second" in said[0]
    assert "at most 50 s left" in said[0] and said[1] == "The best so far"
