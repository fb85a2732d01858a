"""The plugin as installed: a wheel, an environment with disciple-ext, the sandbox, and gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import disciple_ext

ROOT = Path(__file__).parents[1]
CORE = Path(disciple_ext.__file__).parents[1]
SAMPLERS = {"rejuvenate": "weighted", "edit": "search"}
TASK = "Please generate a sentence with exactly 6 words."


def call(*command: str | Path, cwd: Path) -> str:
    # The environment has nothing but what is installed in it, and disciple-ext.
    hidden = ("PYTHONPATH", "DISCIPLE_PLUGINS")
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd, env=environment
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert "skipped" not in done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--wheel", "--outdir", out, ROOT, cwd=out)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that sees the packages of this one, this disciple_ext first."""
    home = tmp_path_factory.mktemp("environment")
    call(sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", home, cwd=home)
    python = home / "bin" / "python"
    purelib = call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home)
    # An environment made from an environment sees the packages of neither: name them.
    lines = [str(CORE), f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"]
    (Path(purelib.strip()) / "shared.pth").write_text("\n".join(lines) + "\n")
    return python


def listed(python: Path, cwd: Path) -> dict[str, dict[str, str]]:
    rows = json.loads(call(python, "-m", "disciple_ext", "samplers", "--json", cwd=cwd))
    return {row["name"]: row for row in rows}


@pytest.mark.slow
def test_installed_used_in_the_sandbox_and_gone(wheel: Path, python: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--python", python]
    call(*pip, "install", "--no-deps", "--no-index", "--force-reinstall", wheel, cwd=tmp_path)
    script = "import disciple_rejuvenate, disciple_ext as d; print(disciple_rejuvenate.__file__)"
    assert str(python.parents[1]) in call(python, "-c", script, cwd=tmp_path)

    rows = listed(python, tmp_path)
    for name, kind in SAMPLERS.items():
        assert (rows[name]["kind"], rows[name]["plugin"]) == (kind, "rejuvenate")
        assert rows[name]["about"]

    run = [python, "-m", "disciple_ext", "run", TASK, "--follower", "embedded", "-n", "8", "--json"]
    run.append("--sampler")
    for name, kind in SAMPLERS.items():
        here = json.loads(call(*run, name, "--sandbox", "none", cwd=tmp_path))
        there = json.loads(call(*run, name, cwd=tmp_path))
        assert there["check"] is True
        assert there["sandbox"]["witnessed"] not in ("none", "process")
        assert [p["text"] for p in there["particles"]] == [p["text"] for p in here["particles"]]
        assert (there["log_evidence"] is None) == (kind == "search")

    call(*pip, "uninstall", "--yes", "disciple-rejuvenate", cwd=tmp_path)
    assert not SAMPLERS.keys() & listed(python, tmp_path).keys()
