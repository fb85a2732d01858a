"""Imports go one way, and importing the package is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import disciple_ext

ROOT = Path(disciple_ext.__file__).parent

# A part may import itself, and parts of a lower layer.
LAYERS = {
    "errors": 0,
    "hookspecs": 1,
    "specs": 1,
    "model": 1,
    "notebook": 1,
    "program": 1,
    "result": 1,
    "task": 1,
    "evaluation.suite": 1,
    "evaluation.verdict": 1,
    "evaluation.word_examples": 1,
    "trace.events": 1,  # records only: what samplers say and observers hear
    "follower": 2,
    "planner": 2,
    "samplers": 2,
    "sandbox": 2,
    "services": 2,
    "trace": 2,
    "verify": 2,
    "evaluation.collie": 2,  # suites: data and ground truth, which any evaluation stands on
    "evaluation.punkt": 2,
    "evaluation.puzzles": 2,
    "evaluation.suites": 2,
    "evaluation.words": 2,
    "contracts": 2,  # what plugins must keep to
    "builtin": 3,  # registers our planners, followers and samplers as any plugin does
    "execution": 3,
    "ledger": 3,  # it asks planners, and adds up what they cost
    "services.judge": 4,  # a chat model, and what its calls cost
    "attempts": 4,  # the ledger, and what the planner hears
    "plugins": 4,
    "launch": 4,
    "rehearsal": 5,
    "worker": 5,  # wires the same parts as steer, on the other side of the pipe
    "steer": 5,
    "control": 6,
    "scaffold": 5,
    "evaluation": 6,
    "testing": 6,
    "bench": 7,  # it times the demo's tasks
    "cli": 7,
    "demo": 7,
    "doctor": 7,
    "__main__": 8,
}
# Within one layer: records know one another, steps of the outer loop do not.
SIDEWAYS = {
    ("evaluation.collie", "evaluation.punkt"),
    ("evaluation.suites", "evaluation.collie"),
    ("evaluation.suites", "evaluation.punkt"),
    ("evaluation.suites", "evaluation.puzzles"),
    ("evaluation.suites", "evaluation.words"),
    ("hookspecs", "task"),
    ("result", "notebook"),  # how a result looks in a notebook
    ("hookspecs", "program"),
    ("hookspecs", "result"),
    ("bench", "demo"),
    ("builtin", "services.judge"),
    ("steer", "rehearsal"),
    ("cli", "bench"),
    ("cli", "demo"),
    ("cli", "doctor"),
}


def part(module: str) -> str:
    """``planner`` for ``disciple_ext.planner.openai``."""
    below = module.partition(".")[2]
    return below if below in LAYERS else below.split(".")[0]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute name of each import of our own at run time, inside functions included."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    package = parts[:-1]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "disciple_ext":
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            if module == "disciple_ext":
                for alias in node.names:
                    yield node.lineno, f"{module}.{alias.name}"
            elif module.startswith("disciple_ext."):
                yield node.lineno, module


MODULES = sorted(
    path
    for path in ROOT.rglob("*.py")
    if path != ROOT / "__init__.py" and "examples" not in path.parts
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    own = part(".".join(path.relative_to(ROOT.parent).with_suffix("").parts))
    assert own in LAYERS, f"give {own} a layer"
    wrong = []
    for line, module in imports(path):
        other = part(module)
        known = other in LAYERS
        if not known:  # a public name or __version__ of the package itself
            continue
        if other != own and LAYERS[other] >= LAYERS[own] and (own, other) not in SIDEWAYS:
            wrong.append(f"line {line}: {module}")
    assert not wrong, f"{path.name} imports upwards or sideways: {wrong}"


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after ``code``."""
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_package_loads_neither_torch_nor_plugins() -> None:
    loaded = loaded_by("import disciple_ext; dir(disciple_ext)")
    assert not loaded & {"torch", "transformers", "llamppl", "numpy", "openai", "pluggy"}
    assert not {name for name in loaded if name.startswith("disciple_ext.")}


def test_light_names_stay_light() -> None:
    loaded = loaded_by("from disciple_ext import Task, Program, Result, UsageError")
    assert not loaded & {"torch", "transformers", "llamppl", "openai", "pluggy"}


def test_the_command_line_starts_without_torch() -> None:
    loaded = loaded_by("import disciple_ext.cli")
    assert not loaded & {"torch", "transformers", "llamppl", "openai"}


def test_units_need_nothing_but_python() -> None:
    loaded = loaded_by("import disciple_ext.model.units")
    assert not loaded & {"torch", "transformers", "nltk"}
