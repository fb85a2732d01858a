"""Commands in the docs: each one parses, and pages that show outputs show real ones."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from disciple_ext.cli.main import app

from .test_docs import DOCS, PAGES, ROOT, load_script

PLUGINS = {"keywords", "long-words", "plain-style"}  # commands and suites of plugins in the docs
CODE = re.compile(
    r"^```(?:sh|bash|console)\n(.*?)^```|((?:^(?: {4}.*)?\n)+)", re.DOTALL | re.MULTILINE
)
OPERATORS = {"|", "||", "&&", ";", ">", ">>", "<", "&", "#"}
TUTORIAL = [DOCS / "tutorial" / name for name in ("first-run.md", "first-program.md", "weights.md")]
SHOWN = [*TUTORIAL, DOCS / "how-to" / "write-a-program.md"]


def commands(page: Path) -> list[str]:
    """The calls of ``disciple`` in a page's blocks of code, in one line each."""
    text = re.sub(
        r"^```(?!sh|bash|console)\w[^\n]*\n.*?^```", "", page.read_text("utf-8"), flags=re.S | re.M
    )
    found = []
    for match in CODE.finditer(text):
        line = ""
        for part in (match[1] or match[2]).replace("\\\n", " ").splitlines():
            line += part.strip() + "\n"
            if line.count("'") % 2 == 0 and line.count('"') % 2 == 0:  # no string goes on
                found += [line.strip()] if "disciple " in line else []
                line = ""
    return found


def calls(line: str) -> list[list[str]]:
    """The arguments of each call of ``disciple`` in a line of a shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    made: list[list[str]] = []
    words: list[str] | None = None
    begins = True
    everything = [*lexer]
    for word, after in zip(everything, [*everything[1:], ""], strict=True):
        if word == "2" and after.startswith(">"):
            continue
        if word in OPERATORS or set(word) <= set("|&;<>"):
            words, begins = None, word not in {">", ">>", "<", ">&"}
        elif begins and word == "disciple":
            words = []
            made.append(words)
            begins = False
        elif words is not None:
            words.append(word)
        elif "=" not in word:  # another command; a variable before a command is none
            begins = False
    return made


def parse(group: Any, words: list[str]) -> None:
    """Have the command line read the words, and run nothing."""
    context = group.make_context("disciple", list(words), resilient_parsing=False)
    while hasattr(group, "commands"):
        if group.invoke_without_command and not context._protected_args + context.args:
            return
        name, group, words = group.resolve_command(context, context._protected_args + context.args)
        context = group.make_context(name, list(words), parent=context)


SHOW = [(page, line) for page in PAGES for line in commands(page)]


def test_commands_are_found() -> None:
    assert len(SHOW) > 60
    assert calls("cat x | disciple check - && disciple run 'a b' -n 3 > f 2>&1  # why") == [
        ["check", "-"],
        ["run", "a b", "-n", "3"],
    ]
    assert calls("docker build -t disciple . && KEY=x disciple plan a") == [["plan", "a"]]


def test_every_command_in_the_docs_parses() -> None:
    command = typer.main.get_command(app)
    wrong = []
    for page, line in SHOW:
        for words in calls(line):
            if not PLUGINS & set(words[:2]):
                try:
                    parse(command, words)
                except Exception as error:
                    wrong.append(f"{page.relative_to(ROOT)}: {line}: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_wrong_option_does_not_parse() -> None:
    command = typer.main.get_command(app)
    with pytest.raises(Exception, match="--sampelr"):
        parse(command, ["run", "a task", "--sampelr", "smc"])
    with pytest.raises(Exception, match="No such command"):
        parse(command, ["eval", "nothing"])


def shape(text: str) -> list[str]:
    """What has to be equal on every machine: not the words of a model, and not its numbers."""
    kept = []
    for line in text.splitlines():
        if line.startswith(
            ("check:", "error:", "broken.py:", "no findings", "class", " ", "{", "}")
        ):
            kept.append(re.sub(r"-?\d+(\.\d+)?", "0", line))
    return [re.sub(r'"text": ".*"', '"text": ""', line) for line in kept]


@pytest.mark.slow
def test_the_tutorial_shows_what_its_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    runner = load_script(DOCS / "run_commands.py")
    seen: list[str] = []

    def compare(command: str, shown: str, printed: str) -> None:
        seen.append(command)
        again = f"{command}run `python docs/run_commands.py PAGE`"
        assert shape(shown) == shape(printed), again
        assert len(shown.splitlines()) == len(printed.splitlines()), again

    for page in SHOWN:
        runner.run(page.read_text(encoding="utf-8"), tmp_path, compare)
    assert len(seen) >= 12


def test_blocks_are_written_run_and_replaced(tmp_path: Path) -> None:
    runner = load_script(DOCS / "run_commands.py")
    page = '```python title="x.py"\nprint(1)\n```\n\n```sh\ncat x.py\n```\n\n```text\nold\n```\n'
    assert runner.run(page, tmp_path) == page.replace("old", "print(1)")
