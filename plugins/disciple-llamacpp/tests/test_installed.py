"""The plugin as installed: a wheel, found, used in the sandbox, and gone once uninstalled."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from disciple_ext.testing.installed import Environment

HAS_NONE = (
    "from importlib.util import find_spec; "
    "print(not any(map(find_spec, ('llama_cpp', 'xllamacpp'))))"
)
HERE = Path(__file__).parents[1]
RUN = ("run", "Please generate a sentence with exactly 3 words.", "-n", "4", "--json")


@pytest.mark.slow
def test_installed_used_in_the_sandbox_and_gone(write: Callable[..., Path], tmp_path: Path) -> None:
    spec = f"llamacpp:{write(tmp_path / 'tiny.gguf')},threads=1"
    environment = Environment(tmp_path / "environment")
    said = environment.disciple(*RUN, "--follower", spec, code=2)
    assert "unknown follower 'llamacpp:" in said

    wheels = tmp_path / "wheels"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    environment.run(*pip, "wheel", "--no-deps", "--wheel-dir", wheels, HERE.resolve())
    (wheel,) = wheels.glob("*.whl")
    environment.pip("install", "--no-index", wheel)
    if environment.run(environment.python, "-c", HAS_NONE).strip() == "True":
        said = environment.disciple(*RUN, "--follower", spec, code=4)
        assert "pip install 'xllamacpp==" in said
    else:
        result = json.loads(environment.disciple(*RUN, "--follower", spec))
        assert result["sandbox"]["witnessed"] not in ("none", "process")
        assert len(result["particles"]) == 4

    environment.pip("uninstall", "--yes", "disciple-llamacpp")
    said = environment.disciple(*RUN, "--follower", spec, code=2)
    assert "unknown follower 'llamacpp:" in said
