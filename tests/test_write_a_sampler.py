"""The page on writing a sampler runs from its first block to its last."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from disciple_ext.scaffold.new_plugin import Names, render
from disciple_ext.testing.installed import Environment

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "write-a-sampler.md"
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
BLOCKS = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def test_the_page_shows_the_sampler_that_is_written() -> None:
    shown = {title: text for _, title, text in BLOCKS if title}
    place = "disciple_my_smc/sampler.py"
    assert shown[place] == render(Names("my-smc"))[place]


def test_no_block_is_left_out() -> None:
    assert len(BLOCKS) == PAGE.read_text(encoding="utf-8").count("\n```") / 2
    kinds = [kind for kind, _, _ in BLOCKS]
    assert set(kinds) == {"sh", "python", "text"}
    assert all(title for kind, title, _ in BLOCKS if kind == "python")
    assert all(kinds[i - 1] == "sh" for i, kind in enumerate(kinds) if kind == "text")


def commands(environment: Environment) -> None:
    """What is on the path of somebody who has activated the environment."""
    python = environment.python
    called = {
        "disciple": f"{python} -m disciple_ext",
        "pytest": f"{python} -m pytest",
        "pip": f"{sys.executable} -m pip --python {python}",
    }
    for name, command in called.items():
        script = python.with_name(name)
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_page_runs(tmp_path: Path) -> None:
    home = tmp_path / "environment"
    environment = Environment(home)
    commands(environment)
    hidden = ("PYTHONPATH", "DISCIPLE_PLUGINS")
    kept = {k: v for k, v in os.environ.items() if k not in hidden}
    kept |= {"PATH": f"{home / 'bin'}:{kept['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    package = tmp_path / "disciple-my-smc"
    said = ""
    for kind, title, text in BLOCKS:
        if kind == "python":
            (package / title).write_text(text, encoding="utf-8")
        elif kind == "sh":
            done = subprocess.run(
                ["bash", "-e", "-c", text],
                cwd=package if package.exists() else tmp_path,
                env=kept,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            said = done.stdout
            assert done.returncode == 0, f"{text}\n{said}"
        else:
            for line in text.splitlines():
                assert line in said, said
