"""A new plugin's package: written whole, tidy, and with tests that pass; and never over another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import disciple_ext
from disciple_ext.errors import UsageError
from disciple_ext.registry.hookspecs import PROJECT
from disciple_ext.scaffold import new_plugin
from disciple_ext.scaffold.new_plugin import LONGEST, Names, new_sampler, render
from disciple_ext.testing.installed import check_installed

ROOT = Path(disciple_ext.__file__).parents[1]
NAMES = ("x", "tempered-smc-2", "class")
LONG = "very-long-name-for-one-sampler-2"


def run(directory: Path, *command: str, path: tuple[Path, ...] = ()) -> str:
    """Run a Python module in a directory, with this disciple-ext and what is in ``path``."""
    where = os.pathsep.join(map(str, (ROOT, *path)))
    environment = {**os.environ, "PYTHONPATH": where, "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-m", *command]
    done = subprocess.run(words, cwd=directory, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def distribution(made: new_plugin.NewPlugin, place: Path) -> Path:
    """What an editable installation leaves, so that the plugin is found by its entry point."""
    names = made.names
    info = place / f"{names.module}-0.1.0.dist-info"
    info.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {names.distribution}\nVersion: 0.1.0\n"
    (info / "METADATA").write_text(head)
    points = f"[{PROJECT}]\n{names.name} = {names.module}\n"
    (info / "entry_points.txt").write_text(points)
    return place


@pytest.mark.parametrize(
    ("name", "module", "cls"),
    [
        ("x", "disciple_x", "XSampler"),
        ("tempered-smc-2", "disciple_tempered_smc_2", "TemperedSmc2Sampler"),
        ("none", "disciple_none", "NoneSampler"),
    ],
)
def test_names(name: str, module: str, cls: str) -> None:
    names = Names(name)
    assert (names.distribution, names.module, names.cls) == (f"disciple-{name}", module, cls)


@pytest.mark.parametrize(
    "name", ["", "My", "1x", "a_b", "a b", "a--b", "-a", "a-", "a:b", "a,b", "../a", "é", "x" * 33]
)
def test_names_that_no_distribution_may_have_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot name a sampler and a distribution"):
        new_sampler(name, tmp_path / "out")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("smc", "a sampler 'smc' already, of the plugin 'builtin'"),
        ("builtin", "a plugin 'builtin' already"),
        ("ext", "a Python module 'disciple_ext' already"),
    ],
)
def test_names_that_are_taken_are_refused(name: str, match: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=match):
        new_sampler(name, tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = new_sampler("mine")
    assert made.directory == Path("disciple-mine")
    sampler = tmp_path / "disciple-mine" / "disciple_mine" / "sampler.py"
    sampler.write_text("changed")
    (tmp_path / "file").write_text("here")
    (tmp_path / "empty").mkdir()
    for out in (None, "file"):
        with pytest.raises(UsageError, match="is there already .*--out"):
            new_sampler("mine", out)
    with pytest.raises(UsageError, match="cannot be written to file/below"):
        new_sampler("mine", "file/below")
    assert sampler.read_text() == "changed" and (tmp_path / "file").read_text() == "here"
    assert new_sampler("mine", "empty").files == made.files


def test_the_package_says_what_it_is() -> None:
    made = render(Names("my-smc"))
    assert set(made) == {
        *("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"),
        *("disciple_my_smc/__init__.py", "disciple_my_smc/sampler.py", "disciple_my_smc/py.typed"),
        "tests/test_my_smc.py",
    }
    assert made["LICENSE"] == (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert not [place for place, text in made.items() if "$" in text]
    assert '\nmy-smc = "disciple_my_smc"\n' in made["pyproject.toml"]
    body = made["disciple_my_smc/sampler.py"].partition('natural logs throughout."""\n')[2]
    assert 10 < len(body.splitlines()) <= 20


@pytest.mark.parametrize(
    ("version", "range_"),
    [("0.1.0", ">=0.1,<0.2"), ("0.9.3", ">=0.9,<0.10"), ("2.3.1", ">=2.3,<3")],
)
def test_it_wants_a_compatible_disciple_ext(
    version: str, range_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_plugin, "__version__", version)
    assert f'dependencies = ["disciple-ext{range_}"]' in render(Names("x"))["pyproject.toml"]


@pytest.mark.parametrize("name", [*NAMES, LONG])
def test_the_package_is_tidy(name: str, tmp_path: Path) -> None:
    assert len(LONG) == LONGEST
    directory = new_sampler(name, tmp_path / "new").directory
    run(directory, "ruff", "check", "--no-cache", ".")
    run(directory, "ruff", "format", "--no-cache", "--check", ".")


@pytest.mark.slow
def test_the_package_is_typed(tmp_path: Path) -> None:
    directory = new_sampler(LONG, tmp_path / "new").directory
    run(directory, "mypy", "--cache-dir", str(tmp_path / "cache"))


def test_its_sampler_is_found_and_runs_in_the_sandbox(tmp_path: Path) -> None:
    made = new_sampler("tempered-smc-2", tmp_path / "new")
    path = (made.directory, distribution(made, tmp_path / "site"))
    said = run(made.directory, "pytest", "-q", "-rs", "-k", "not word", path=path)
    assert "2 passed, 1 deselected" in said, said


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_its_tests_pass(name: str, tmp_path: Path) -> None:
    made = new_sampler(name, tmp_path / "new")
    said = run(made.directory, "pytest", "-q", path=(distribution(made, tmp_path / "site"),))
    assert "3 passed" in said, said


@pytest.mark.slow
def test_installed_used_in_the_sandbox_and_gone(tmp_path: Path) -> None:
    made = new_sampler("tempered-smc", tmp_path / "new")
    for work in ("right", "wrong"):
        (tmp_path / work).mkdir()
    check_installed(made.directory, {"tempered-smc": "weighted"}, tmp_path / "right")
    with pytest.raises(AssertionError, match="of kind 'search', is listed as .*'weighted'"):
        check_installed(made.directory, {"tempered-smc": "search"}, tmp_path / "wrong")
