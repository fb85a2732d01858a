"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from disciple_ext.errors import FollowerError
from disciple_ext.models.store import find, models_directory

# Before torch is loaded: small tensors, and tests that share a machine, want one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Neither a model nor a setting of this machine changes a test, in the processes that tests start,
# too. Where the models are is kept: pytest's own workers are such processes.
os.environ.setdefault("DISCIPLE_TEST_MODELS", str(models_directory()))
os.environ["DISCIPLE_MODELS"] = os.path.join(os.devnull, "models")
os.environ["DISCIPLE_FOLLOWER"] = "embedded"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds the planner's answers of another, or of the user."""
    monkeypatch.setenv("DISCIPLE_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("DISCIPLE_PRICES", raising=False)


@pytest.fixture
def smollm2(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The weights of SmolLM2, which is then the default follower, if this machine has them."""
    monkeypatch.setenv("DISCIPLE_MODELS", os.environ["DISCIPLE_TEST_MODELS"])
    monkeypatch.delenv("DISCIPLE_FOLLOWER", raising=False)
    try:
        return find("smollm2")
    except FollowerError as error:
        pytest.skip(str(error))


ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def collie_dir(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory with COLLIE's instances; also sets DISCIPLE_COLLIE and NLTK_DATA."""
    place = Path(os.environ.get("DISCIPLE_COLLIE") or ROOT.parent / "shared" / "collie")
    directory = place.parent if place.is_file() else place
    if not (directory / "wiki.jsonl").is_file():
        pytest.skip(f"no COLLIE instances in {directory}: set DISCIPLE_COLLIE to their directory")
    monkeypatch.setenv("DISCIPLE_COLLIE", str(directory))
    if (directory / "nltk_data").is_dir():
        monkeypatch.setenv("NLTK_DATA", str(directory / "nltk_data"))
    return directory


@pytest.fixture
def punkt_dir(collie_dir: Path) -> Path:
    """The directory with NLTK's trained English Punkt parameters."""
    directory = collie_dir / "nltk_data" / "tokenizers" / "punkt_tab" / "english"
    if not directory.is_dir():
        pytest.skip(f"no Punkt parameters in {directory}")
    return directory
