"""What is shown on a terminal cannot steer it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disciple_ext.cli import console
from disciple_ext.cli.progress import Progress
from disciple_ext.records.events import PlannerAnswered


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, naïve text\n\tand more", "plain, naïve text\n\tand more"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\rb\x07\x7f", "a\\x0db\\x07\\x7f"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202edef", "abc\\u202edef"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert console.escape(text) == shown


@given(st.text())
def test_nothing_that_is_left_controls_a_terminal(text: str) -> None:
    shown = console.escape(text)
    assert not any(ord(char) < 32 and char not in "\n\t" for char in shown)
    assert not any(0x7F <= ord(char) < 0xA0 for char in shown)
    assert "\n" not in console.visible(text)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class AsciiPipe(io.StringIO):
    encoding = "ascii"


def test_an_answer_is_escaped_on_a_terminal_and_left_alone_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, pipe = Terminal(), io.StringIO()
    monkeypatch.setattr("sys.stdout", terminal)
    console.answer("red \x1b[31m")
    monkeypatch.setattr("sys.stdout", pipe)
    console.answer("red \x1b[31m")
    assert terminal.getvalue() == "red \\x1b[31m\n"
    assert pipe.getvalue() == "red \x1b[31m\n"


def test_an_ascii_pipe_gets_escapes_rather_than_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = AsciiPipe()
    monkeypatch.setattr("sys.stdout", pipe)
    console.answer("café")
    assert pipe.getvalue() == "caf\\xe9\n"


def test_columns_are_as_wide_as_their_cells() -> None:
    shown = console.table([["a", "bb", "c"], ["long", "b", "d\x1b"]])
    assert shown == "a     bb  c\nlong  b   d\\x1b"


def test_an_interrupt_says_what_was_paid(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), Progress("embedded") as progress:
        progress(PlannerAnswered(1, "x = 1", 0.1, 0.25))
        progress(PlannerAnswered(2, "x = 2", 0.1, 0.5))
        raise KeyboardInterrupt
    assert "interrupted after 2 programs; cost: $0.7500" in capsys.readouterr().err
