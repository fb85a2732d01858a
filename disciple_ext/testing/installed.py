"""A sampler plugin as its users get it: a wheel, installed, found, run in the sandbox, and gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..samplers.base import Kind

__all__ = ["Environment", "check_installed"]

TASK = "Please generate a sentence with exactly 6 words."


class Environment:
    """A virtual environment that sees the packages of this one, this disciple-ext first.

    Attributes:
        python: its Python.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.run(sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", home)
        self.python = home / "bin" / "python"
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        purelib = Path(self.run(self.python, "-c", where).strip())
        # An environment made from an environment sees the packages of neither: name them.
        core = Path(__file__).parents[2]
        below = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
        (purelib / "shared.pth").write_text(f"{core}\n{below}\n", encoding="utf-8")

    def run(self, *command: str | Path, code: int = 0) -> str:
        """Run a command without what would show the plugin's source tree to it.

        Returns:
            Its standard output, or its standard error where ``code`` is not 0.

        Raises:
            AssertionError: it exits with another code, or a plugin is skipped.
        """
        hidden = ("PYTHONPATH", "DISCIPLE_PLUGINS")
        environment = {k: v for k, v in os.environ.items() if k not in hidden}
        words = [str(word) for word in command]
        done = subprocess.run(
            words, capture_output=True, text=True, cwd=self._home.parent, env=environment
        )
        if done.returncode != code or "is skipped" in done.stderr:
            raise AssertionError(
                f"{' '.join(words)} exits with {done.returncode}, not {code}\n"
                f"{done.stdout}\n{done.stderr}"
            )
        return done.stdout if code == 0 else done.stderr

    def disciple(self, *words: str, code: int = 0) -> str:
        """Run the command line of disciple-ext; see :meth:`run`."""
        return self.run(self.python, "-m", "disciple_ext", *words, code=code)

    def pip(self, *words: str | Path) -> None:
        """Run pip on this environment."""
        quiet = ("--disable-pip-version-check", "--quiet")
        self.run(sys.executable, "-m", "pip", *quiet, "--python", self.python, *words)

    def samplers(self) -> dict[str, dict[str, Any]]:
        """What ``disciple samplers`` lists, by name."""
        return {row["name"]: row for row in json.loads(self.disciple("samplers", "--json"))}


def check_installed(project: Path, samplers: Mapping[str, Kind], work: Path) -> None:
    """Build a plugin's wheel, install it, find and use its samplers in the sandbox, remove it.

    The wheel is installed into a fresh environment without an index, so that its requirements
    must be met by what this environment has. In the sandbox each sampler must give the texts that
    it gives in the host's process. Takes about half a minute for each sampler. Building wants the
    plugin's build backend, from an index or a folder that pip knows.

    Args:
        project: the plugin's directory, with its pyproject.toml.
        samplers: the samplers that it registers, with their kinds.
        work: an empty directory.

    Raises:
        AssertionError: one of these does not hold, or the plugin is installed here already.
    """
    environment = Environment(work / "environment")
    before = environment.samplers()
    for name in samplers:
        if name in before:
            raise AssertionError(f"{name!r} is installed here already; uninstall its plugin first")

    wheels = work / "wheels"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    environment.run(*pip, "wheel", "--no-deps", "--wheel-dir", wheels, project.resolve())
    (wheel,) = wheels.glob("*.whl")
    environment.pip("install", "--no-index", wheel)

    listed = environment.samplers()
    for name, kind in samplers.items():
        row = listed.get(name)
        if row is None or row["kind"] != kind or not row["about"]:
            raise AssertionError(f"{name!r}, of kind {kind!r}, is listed as {row}")
        _check_run(environment, name, kind)

    environment.pip("uninstall", "--yes", wheel.name.split("-")[0].replace("_", "-"))
    left = samplers.keys() & environment.samplers().keys()
    if left:
        raise AssertionError(f"{sorted(left)} are listed after the plugin was uninstalled")
    for name in samplers:
        said = environment.disciple("run", TASK, "--sampler", name, code=2)
        if "unknown sampler" not in said:
            raise AssertionError(
                f"{name!r} is not refused after the plugin was uninstalled: {said}"
            )


def _check_run(environment: Environment, name: str, kind: Kind) -> None:
    # Whatever else is on this machine, the check is the same, and quick.
    run = ("run", TASK, "--follower", "embedded", "-n", "8", "--json", "--sampler", name)
    here = json.loads(environment.disciple(*run, "--sandbox", "none"))
    there = json.loads(environment.disciple(*run))
    if there["sandbox"]["witnessed"] in ("none", "process"):
        raise AssertionError(f"{name!r} ran outside of the sandbox: {there['sandbox']}")
    texts = [[particle["text"] for particle in result["particles"]] for result in (here, there)]
    if texts[0] != texts[1]:
        raise AssertionError(f"{name!r} gives {texts[1]} in the sandbox, and {texts[0]} outside")
    if there["check"] is not True:
        raise AssertionError(f"{name!r} gives no answer that passes its check: {there['text']!r}")
    if (there["log_evidence"] is None) != (kind == "search"):
        raise AssertionError(f"{name!r} is {kind}, with log evidence {there['log_evidence']}")
