"""The plugin as installed: a wheel, found and used in the sandbox, and gone once uninstalled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import disciple_ext

ROOT = Path(__file__).parents[1]
TASK = "Please generate a sentence with exactly 6 words."


def call(*command: str | Path, cwd: Path, ok: bool = True) -> str:
    # The core is put on the path, so that the one under test is used; the plugin is not.
    environment = {**os.environ, "PYTHONPATH": str(Path(disciple_ext.__file__).parents[1])}
    environment.pop("DISCIPLE_PLUGINS", None)
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, cwd=cwd, env=environment
    )
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout if ok else done.stderr


@pytest.mark.slow
def test_the_wheel_works_in_the_sandbox_and_leaves_nothing(tmp_path: Path) -> None:
    pip = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
    call(sys.executable, *pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("disciple_mcts-*.whl")
    call(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    # The environment of this test lies below the new one, as if it were its system.
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    below = [p for p in sys.path if p.endswith("site-packages")]
    (site / "below.pth").write_text("\n".join(below) + "\n")
    run = (python, "-W", "error::RuntimeWarning", "-m", "disciple_ext")
    assert "mcts" not in call(*run, "samplers", cwd=tmp_path)
    call(python, *pip, "install", "--no-deps", "--force-reinstall", wheel, cwd=tmp_path)

    listed = json.loads(call(*run, "samplers", "--json", cwd=tmp_path))
    (entry,) = [s for s in listed if s["name"] == "mcts"]
    assert (entry["kind"], entry["plugin"]) == ("search", "mcts")
    assert "disciple-mcts" in call(*run, "plugins", "--json", cwd=tmp_path)
    answer = call(*run, "run", "--sampler", "mcts", "-n", "4", "--json", TASK, cwd=tmp_path)
    result = json.loads(answer)
    assert result["check"] is True and len(result["text"].split()) == 6
    assert result["sandbox"]["witnessed"] != "none"

    call(python, *pip, "uninstall", "--yes", "disciple-mcts", cwd=tmp_path)
    assert "mcts" not in call(*run, "samplers", cwd=tmp_path)
    refused = call(*run, "run", "--sampler", "mcts", "-n", "4", TASK, cwd=tmp_path, ok=False)
    assert "unknown sampler 'mcts'" in refused
