"""The examples run, and do what they say."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import disciple_ext
from disciple_ext import Program, run_program
from disciple_ext.sandbox.check.check import check

from .test_docs import DOCS, ROOT, load_script

EXAMPLES = ROOT / "examples"
PROGRAMS = sorted((EXAMPLES / "programs").glob("*.py"))
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))
SYLLABLES = {
    1: "the sea a house whole time times loved walked days friend through you fire eye years",
    2: "table little being flying quiet science wanted roses boxes people river winter lion "
    "tables famous ocean morning poem language building patient special nation marriage",
    3: "radio happier usual beautiful piano animal tourism remember video another genius",
    4: "experience society everybody January material education",
}


def from_program(name: str, wanted: str) -> Any:
    """A function at the top of a program."""
    source = (EXAMPLES / "programs" / f"{name}.py").read_text(encoding="utf-8")
    names: dict[str, Any] = {"re": re, "BaseModel": object}
    exec(compile(source, name, "exec"), names)
    return names[wanted]


@pytest.mark.parametrize("count", SYLLABLES)
def test_syllables(count: int) -> None:
    syllables = from_program("haiku", "syllables")
    assert {word: syllables(word) for word in SYLLABLES[count].split()} == dict.fromkeys(
        SYLLABLES[count].split(), count
    )


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_pass_the_static_check(path: Path) -> None:
    assert check(path.read_text(encoding="utf-8")) == []


# A program of a family is run by the script that has its tasks.
WHOLE = [p for p in PROGRAMS if "def arguments(" not in p.read_text(encoding="utf-8")]


@pytest.mark.slow
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_programs_write_what_they_say(path: Path) -> None:
    program = Program(path.read_text(encoding="utf-8"))
    result = run_program(program, n=48, seed=1)
    soft = path.stem == "tongue_twister"  # nothing is forbidden there, so nothing is promised
    assert result.check is True or soft and result.text, result.text
    if path.stem == "product_description":
        assert len(result.text or "") <= 200 and result.text.endswith("Flavour may vary.")


@pytest.mark.parametrize("rule", ["banned", "required", "longest"])
def test_the_description_is_held_to_each_rule(rule: str) -> None:
    model = from_program("product_description", "InferenceModel")
    right = "This is a tea from the hills. It is good with some milk. Flavour may vary."
    wrong = {
        "banned": right.replace("good", "Healthy"),
        "required": right.replace("vary", "change"),
        "longest": right.replace("hills", "hills" + " and hills" * 20),
    }[rule]
    from disciple_ext.text import units

    model.check.__globals__["units"] = units
    assert model.check(model, right) and not model.check(model, wrong)


def test_every_example_is_listed() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.rglob("*"):
        parts = path.relative_to(EXAMPLES).parts
        package = parts[0] in ("plugin", "sampler_plugin")
        if path.suffix in (".py", ".ipynb") and not package:
            assert f"({path.relative_to(EXAMPLES).as_posix()})" in page, path
    assert "(plugin/)" in page and "(sampler_plugin/)" in page


def test_notebooks_hold_what_they_showed() -> None:
    assert len(NOTEBOOKS) == 2
    for path in NOTEBOOKS:
        assert path.stat().st_size < 100_000
        cells = json.loads(path.read_text("utf-8"))["cells"]
        counts = [c["execution_count"] for c in cells if c["cell_type"] == "code"]
        assert counts == list(range(1, len(counts) + 1))
        assert sum(bool(c.get("outputs")) for c in cells) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path) -> None:
    execute = load_script(EXAMPLES / "notebooks" / "execute.py")
    notebook = json.loads(path.read_text("utf-8"))
    kinds = [[o["output_type"] for o in c.get("outputs", [])] for c in notebook["cells"]]
    asyncio.run(execute.run(notebook))
    assert [[o["output_type"] for o in c.get("outputs", [])] for c in notebook["cells"]] == kinds


def test_cells_show_what_they_print_and_what_they_are() -> None:
    execute = load_script(EXAMPLES / "notebooks" / "execute.py")
    names: dict[str, Any] = {}
    source = "import asyncio\nawait asyncio.sleep(0)\nx = 1\nprint(x)\nx + 1"
    printed, value = asyncio.run(execute.run_cell(source, names))
    assert printed["text"] == ["1\n"] and value["data"] == {"text/plain": ["2"]}
    assert asyncio.run(execute.run_cell("x;", names)) == []


def installed(project: Path, place: Path) -> dict[str, str]:
    """An environment in which a project is found, as an editable installation leaves it."""
    about = (project / "pyproject.toml").read_text(encoding="utf-8")
    _, _, point = about.partition("[project.entry-points.disciple_ext]\n")
    name = re.search(r'^name = "(.*)"', about, re.MULTILINE)
    assert name
    info = place / f"{name[1].replace('-', '_')}-0.1.0.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {name[1]}\nVersion: 0.1.0\n"
    (info / "METADATA").write_text(head)
    (info / "entry_points.txt").write_text(
        "[disciple_ext]\n" + point.partition("\n")[0].replace('"', "") + "\n"
    )
    root = Path(disciple_ext.__file__).parents[1]
    paths = os.pathsep.join(map(str, (root, project, place)))
    return {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}


def disciple(environment: dict[str, str], *words: str, cwd: Path) -> str:
    command = [sys.executable, "-m", "disciple_ext", *words]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_on_plugins_shows_the_plugin() -> None:
    page = (DOCS / "how-to" / "write-a-plugin.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', page, re.DOTALL | re.MULTILINE))
    names = ("pyproject.toml", "plain_style_rules.py", "plain_style.py", "quiet.py")
    assert shown == {name: (EXAMPLES / "plugin" / name).read_text("utf-8") for name in names}


@pytest.mark.slow
def test_the_plugin_does_what_its_page_says(tmp_path: Path) -> None:
    project = EXAMPLES / "plugin"
    environment = installed(project, tmp_path)
    assert "plain-style" in disciple(environment, "plugins", cwd=tmp_path)
    text = disciple(environment, "exec", str(project / "quiet.py"), "-n", "8", cwd=tmp_path)
    assert text == text.lower() and len(text.split()) == 5
    assert disciple(environment, "long-words", "an extraordinary word", cwd=tmp_path) == (
        "extraordinary\n"
    )
    disciple(environment, "eval", "plain-style", "--method", "smc", "--out", "runs", cwd=tmp_path)
    (line,) = (tmp_path / "runs" / "results.jsonl").read_text().splitlines()
    assert json.loads(line)["pass_at_1"] == 1.0


@pytest.mark.slow
def test_the_sampler_plugin_passes_its_tests_and_runs(tmp_path: Path) -> None:
    project = EXAMPLES / "sampler_plugin"
    environment = installed(project, tmp_path)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=project,
        env=environment,
        check=True,
    )
    task = "Please generate a sentence with exactly 6 words."
    text = disciple(
        environment, "run", task, "--sampler", "islands:islands=2", "-n", "8", cwd=tmp_path
    )
    assert len(text.split()) == 6


@pytest.mark.slow
def test_the_faster_engine_is_faster(capfd: pytest.CaptureFixture[str]) -> None:
    subprocess.run([sys.executable, str(EXAMPLES / "llamppl_faster.py")], check=True)
    lines = [line for line in capfd.readouterr().out.splitlines() if " times " in line]
    factors = [float(re.findall(r"([\d.]+) times", line)[0]) for line in lines]
    assert len(factors) == 3 and factors[2] > 1.0
