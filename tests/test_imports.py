"""Imports go one way, and importing the package is cheap."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import disciple_ext

from .test_docs import DOCS, load_script

ROOT = Path(disciple_ext.__file__).parent

# From the lowest up: a room may import itself, and rooms of the rows above its own.
LAYERS = """
errors folders version
text protocol records
model
follower models planner samplers sandbox trace
services registry
run
loop
control evaluation testing scaffold
builtin demo doctor
bench
cli
__main__
"""
FLOOR = {room: floor for floor, row in enumerate(LAYERS.split("\n")) for room in row.split()}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in ROOT.rglob("*.py")
    # The public names are loaded on first use, and example programs import nothing.
    if path != ROOT / "__init__.py" and path.parent != ROOT / "planner" / "examples"
}


def imports(module: str) -> Iterator[tuple[int, str]]:
    """Line and name of each module of ours that one imports: at any place, for types alone too."""
    package = ["disciple_ext", *module.split(".")[:-1]]
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *filter(None, [node.module])])
            names = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            root, _, below = name.partition(".")
            if root == "disciple_ext":
                yield node.lineno, _module(below)


def _module(name: str) -> str:
    """The module that a dotted name is in: ``a.b`` for its name ``a.b.c``."""
    for found in (name, name.rpartition(".")[0]):
        for module in (found, f"{found}.__init__".lstrip(".")):
            if module in MODULES:
                return module
    return name


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_down(module: str) -> None:
    room = module.split(".")[0]
    assert room in FLOOR, f"give {room} a layer"
    wrong = []
    for line, other in imports(module):
        below = other.split(".")[0]
        if below != room and not FLOOR.get(below, len(FLOOR)) < FLOOR[room]:
            wrong.append(f"line {line}: {other}")
    assert not wrong, f"{module} imports upwards or sideways: {wrong}"


def test_no_folder_has_a_circle_in_it() -> None:
    needs: dict[str, dict[str, set[str]]] = {}
    for module in MODULES:
        for _, other in imports(module):
            mine, theirs = module.split("."), other.split(".")
            same = next(
                (i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), None
            )
            if same is not None:
                siblings = needs.setdefault(".".join(mine[:same]), {})
                siblings.setdefault(mine[same], set()).add(theirs[same])
    for folder, siblings in needs.items():
        try:
            TopologicalSorter(siblings).prepare()
        except CycleError as error:
            pytest.fail(f"in {folder or 'the package'}: {' -> '.join(error.args[1])}")


def test_the_architecture_shows_these_rooms() -> None:
    script = load_script(DOCS / "explanation" / "draw_rooms.py")
    rows = [set(row.split()) for row in LAYERS.splitlines() if row and row != "__main__"]
    assert [set(row) for row in reversed(script.ROWS)] == rows
    assert script.PICTURE.read_text(encoding="utf-8") == script.picture()
    page = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    assert not [room for room in FLOOR if room != "__main__" and f"`{room}" not in page]
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", page)) - {"tests/test_imports.py"}
    assert named and not [name for name in named if not (ROOT / name).is_file()]


def test_the_root_has_no_other_modules() -> None:
    assert {p.stem for p in ROOT.glob("*.py")} == {
        *("__init__", "__main__", "builtin", "demo", "doctor", "errors", "folders", "version")
    }


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after ``code``."""
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_package_loads_neither_torch_nor_plugins() -> None:
    loaded = loaded_by("import disciple_ext; dir(disciple_ext)")
    assert not loaded & {"torch", "transformers", "llamppl", "numpy", "openai", "pluggy"}
    ours = {name for name in loaded if name.startswith("disciple_ext.")}
    assert ours <= {"disciple_ext.version"}


def test_light_names_stay_light() -> None:
    loaded = loaded_by("from disciple_ext import Task, Program, Result, UsageError")
    assert not loaded & {"torch", "transformers", "llamppl", "openai", "pluggy"}


def test_the_command_line_starts_without_torch() -> None:
    loaded = loaded_by("import disciple_ext.cli")
    assert not loaded & {"torch", "transformers", "llamppl", "openai"}


def test_units_need_nothing_but_python() -> None:
    loaded = loaded_by("import disciple_ext.text.units")
    assert not loaded & {"torch", "transformers", "nltk"}
