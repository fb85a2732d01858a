from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# From the source tree where the plugin is not installed; the installed one is tested on its own.
if find_spec("disciple_llamacpp") is None:
    sys.path.insert(0, str(Path(__file__).parents[1]))

PACKAGES = ("llama_cpp", "xllamacpp")


@pytest.fixture(scope="session")
def write() -> Callable[..., Path]:
    """Writes small GGUF files: the writer of disciple-ext's own tests."""
    path = Path(__file__).parents[3] / "tests" / "follower" / "gguf_files.py"
    spec = importlib.util.spec_from_file_location("gguf_files", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written: Callable[..., Path] = module.write
    return written


@pytest.fixture(params=PACKAGES)
def library(request: pytest.FixtureRequest) -> str:
    """Each package that may bring llama.cpp."""
    name: str = request.param
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed (pip install 'xllamacpp==2026.10.11549')")
    return name


@pytest.fixture
def load(library: str) -> Callable[..., Any]:
    """Loads a file with the library under test, on one thread."""
    from disciple_llamacpp.load import from_file

    def loaded(path: Path, **options: Any) -> Any:
        return from_file(str(path), library=library, threads=1, **options)

    return loaded
