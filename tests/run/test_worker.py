"""What a worker imports: all of it in the zygote, for a locked process can open no file."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import ast, sys
from importlib.util import find_spec, resolve_name
from disciple_ext.run import worker

worker.prepare({"modules": [], "plugins": []})
named = set()
for node in ast.walk(ast.parse(open(worker.__file__).read())):
    if isinstance(node, ast.ImportFrom) and node.level:
        name = resolve_name("." * node.level + (node.module or ""), worker.__package__)
        inside = {f"{name}.{alias.name}" for alias in node.names}
        package = find_spec(name).submodule_search_locations
        named |= {module for module in inside if package and find_spec(module)} or {name}
print(len(named), *sorted(named - set(sys.modules)))
"""


def test_nothing_is_left_to_import_after_the_fork() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count, *late = done.stdout.split()
    assert int(count) > 10
    assert not late, f"imported by each worker for itself: {late}"
