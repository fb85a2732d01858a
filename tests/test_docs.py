"""The documentation keeps its promises: it is complete, current, and its code runs."""

from __future__ import annotations

import ast
import importlib.util
import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from disciple_ext import __version__, errors
from disciple_ext.cli.main import app
from disciple_ext.registry import hookspecs
from disciple_ext.sandbox.check.check import check

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "examples" / "README.md"]
TUTORIAL = ROOT / "disciple_ext" / "planner" / "chat" / "tutorial.md"
_FENCED = re.DOTALL | re.MULTILINE
_BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", _FENCED)
SLOW = {"from-transformers", "reproducibility"}
ELSEWHERE = {"write-a-plugin"}  # tests/test_examples.py runs it as a package


def blocks(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def is_program(block: str) -> bool:
    """Whether a block is a program, and not code that holds or runs one."""
    if "class InferenceModel" not in block or "run_program" in block:
        return False
    classes = (node for node in ast.parse(block).body if isinstance(node, ast.ClassDef))
    return any(node.name == "InferenceModel" for node in classes)


def load_script(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_documented_with_its_exit_code(name: str) -> None:
    page = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{name}` \|[^|]*\| (\d+) \|$", page, re.MULTILINE)
    assert row, f"{name} has no row"
    assert int(row[1]) == getattr(errors, name).exit_code


def test_every_error_is_in_the_tree_atop_its_module() -> None:
    assert all(re.search(rf"\b{name}\b", errors.__doc__ or "") for name in errors.__all__)


def test_the_command_line_page_is_current() -> None:
    generate = load_script(DOCS / "reference" / "generate_cli.py")
    again = "run `python docs/reference/generate_cli.py`"
    assert generate.PAGE.read_text(encoding="utf-8") == generate.page(), again
    named = {command.split()[0] for command in generate.COMMANDS if command}
    registered = {command.name for command in app.registered_commands}
    registered |= {group.name for group in app.registered_groups}
    assert named == registered, again


def test_every_hook_is_documented_with_its_side() -> None:
    named = {*hookspecs.WORKER, *hookspecs.HOST}
    page = (DOCS / "reference" / "hooks.md").read_text(encoding="utf-8")
    for hook in named:
        assert f"`{hook}(" in page, f"{hook} is not documented"


def evaluates(page: Path) -> bool:
    return page.stem in SLOW or any("evaluate(" in block for block in blocks(page))


def runs(page: Path) -> bool:
    return bool(blocks(page)) and page.stem not in ELSEWHERE


def run_blocks(page: Path) -> None:
    """Run a page's blocks in order, in one namespace; programs are checked instead."""
    names: dict[str, object] = {}
    for number, block in enumerate(blocks(page), 1):
        if is_program(block):
            assert check(block) == [], f"{page.name}, block {number}"
        else:
            exec(compile(block, f"{page.name}, block {number}", "exec"), names)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if runs(page) and not evaluates(page)],
    ids=lambda page: page.stem,
)
def test_python_in_the_docs_runs(page: Path) -> None:
    run_blocks(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if evaluates(p)], ids=lambda page: page.stem)
def test_evaluations_in_the_docs_run(
    page: Path, collie_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(page)


FRAGMENT = re.compile(r"^```python fragment\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("fragment", FRAGMENT.findall(TUTORIAL.read_text(encoding="utf-8")))
def test_fragments_of_the_tutorial_run_as_a_step(fragment: str) -> None:
    from disciple_ext import run_program

    source = f"""
class InferenceModel(BaseModel):
    target = 40

    async def step(self):
{textwrap.indent(fragment, " " * 8)}
        await self.end()
"""
    assert check(source) == []
    assert run_program(source, sandbox="none", n=4, seed=1).text


def test_every_block_of_the_tutorial_runs() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    programs = [block for block in blocks(TUTORIAL) if is_program(block)]
    assert text.count("```python") == len(programs) + len(FRAGMENT.findall(text))


def test_the_tutorials_reference_is_current() -> None:
    generate = load_script(DOCS / "reference" / "generate_tutorial.py")
    again = "run `python docs/reference/generate_tutorial.py`"
    assert generate.PAGE.read_text(encoding="utf-8") == generate.page(), again


def test_the_tutorial_is_short() -> None:
    # About four characters make a token of English and code.
    assert len(TUTORIAL.read_text(encoding="utf-8")) / 4 < 5500


@pytest.mark.parametrize("page", [DOCS / "tutorial" / "first-program.md", TUTORIAL])
def test_programs_in_the_tutorials_run(page: Path) -> None:
    from disciple_ext import Program, run_program
    from disciple_ext.services import Score

    programs = [block for block in blocks(page) if is_program(block)]
    assert programs
    for source in programs:
        assert check(source) == []
        taste = {"taste": Score(lambda text: -text.count("e"))}
        result = run_program(Program(source), sandbox="none", n=4, seed=1, services=taste)
        assert result.check is True, result.text


@pytest.mark.parametrize("script", [ROOT / "examples" / "exact_length.py"], ids=["exact_length"])
def test_examples_run(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out


def test_the_docs_name_no_file_that_is_not_there() -> None:
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=_FENCED)
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_has_its_line_in_llms_txt() -> None:
    hooks = load_script(DOCS / "hooks.py")
    pages = [page for page in PAGES if page.is_relative_to(DOCS)]
    nav = [{page.stem: page.relative_to(DOCS).as_posix()} for page in pages]
    lines = hooks.llms_text("title", nav, DOCS).splitlines()
    assert sum(line.startswith("- [") for line in lines) == len(pages)
    assert not [line for line in lines if line.startswith("- [") and len(line) > 500]
    assert hooks.first_sentence("# A\n\n```sh\nx\n```\n\nOne *two* [three](x.md). Four.", 5) == (
        "One two three."
    )


@pytest.mark.slow
def test_the_site_needs_no_network(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    subprocess.run([*command, "--site-dir", str(tmp_path)], cwd=ROOT, check=True)
    index = (tmp_path / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\): \S", index)
    assert len(links) >= 30 and all((tmp_path / link).is_file() for link in links)
    assert f"disciple-ext {__version__}" in (tmp_path / "index.html").read_text(encoding="utf-8")
    for page in tmp_path.rglob("*.html"):
        fetched = re.findall(r'(?:src|href)="(https?:[^"]+)"[^>]*(?:>|rel=)', page.read_text())
        scripts = [url for url in fetched if re.search(r"\.(?:js|css|woff2?)(?:$|\?)", url)]
        assert not scripts, f"{page.name}: {scripts}"
