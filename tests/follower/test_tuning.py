"""The dtype and the threads of a model on the CPU: measured once, remembered, the user's to set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig

from disciple_ext.errors import UsageError
from disciple_ext.folders import cache_directory
from disciple_ext.follower.engine import tuning
from disciple_ext.follower.engine.tuning import Tuning, remembered_times, tuned

LARGE = LlamaConfig(hidden_size=512, intermediate_size=1024, num_hidden_layers=30, vocab_size=32000)


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(tuning, "_found", {})


def measured(monkeypatch: pytest.MonkeyPatch, times: Any, calm: bool = True) -> list[Any]:
    """Let measuring find these times; the list of the shapes that it was asked for."""
    asked: list[Any] = []

    def find(shape: Any, most: int) -> Any:
        asked.append(shape)
        return times, calm

    monkeypatch.setattr(tuning, "_measured", find)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    return asked


def times(**milliseconds: float) -> dict[tuple[str, int], float]:
    """Times by names such as ``float32_1``."""
    found = {}
    for name, ms in milliseconds.items():
        dtype, _, count = name.partition("_")
        found[dtype, int(count)] = ms
    return found


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        # Units for bfloat16, and threads that are worth it, or are not.
        (times(float32_1=140, float32_8=40, bfloat16_1=48, bfloat16_8=12), ("bfloat16", 8)),
        (times(float32_1=140, float32_8=90, bfloat16_1=48, bfloat16_8=37), ("bfloat16", 1)),
        # Emulated, or not worth its rounding.
        (times(float32_1=140, float32_8=40, bfloat16_1=600, bfloat16_8=100), ("float32", 8)),
        (times(float32_1=140, float32_8=900, bfloat16_1=130, bfloat16_8=100), ("float32", 1)),
    ],
)
def test_what_is_quicker_by_far_is_chosen(
    found: Any, chosen: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, found)
    assert tuned(LARGE) == Tuning(*chosen)


def test_what_was_found_is_remembered_by_machine_and_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = times(float32_1=140, float32_8=40, bfloat16_1=48, bfloat16_8=12)
    asked = measured(monkeypatch, found)
    first = tuned(LARGE)
    monkeypatch.setattr(tuning, "_found", {})  # another process
    assert tuned(LARGE) == first and len(asked) == 1
    other = LlamaConfig(
        hidden_size=512, intermediate_size=1024, num_hidden_layers=31, vocab_size=32000
    )
    tuned(other)
    assert len(asked) == 2
    assert list(remembered_times().values()) == [found, found]


def test_beside_others_nothing_is_remembered_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    found = times(float32_1=140, float32_8=900, bfloat16_1=48, bfloat16_8=300)
    asked = measured(monkeypatch, found, calm=False)
    assert tuned(LARGE) == tuned(LARGE) == Tuning("bfloat16", 1)
    assert len(asked) == 1  # one process keeps to what it found
    assert remembered_times() == {}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', '{"a": {"float32": {"x": 1}}}'])
def test_a_damaged_file_is_measured_anew(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = times(float32_1=140, float32_8=40, bfloat16_1=48, bfloat16_8=12)
    asked = measured(monkeypatch, found)
    file = cache_directory() / "tuning.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    assert tuned(LARGE) == Tuning("bfloat16", 8)
    assert len(asked) == 1
    assert json.loads(file.read_text())  # and the file is sound again


def test_a_folder_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DISCIPLE_CACHE", str(tmp_path / "file" / "below"))
    measured(monkeypatch, times(float32_1=1, float32_8=1, bfloat16_1=1, bfloat16_8=1))
    assert tuned(LARGE) == Tuning("float32", 1)


def test_what_the_user_says_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = times(float32_1=140, float32_8=40, bfloat16_1=48, bfloat16_8=12)
    asked = measured(monkeypatch, found)
    assert tuned(LARGE, dtype="float32", threads=3) == Tuning("float32", 3)
    assert not asked
    assert tuned(LARGE, dtype="float16") == Tuning("float16", 8)
    assert tuned(LARGE, threads=2) == Tuning("bfloat16", 2)
    with pytest.raises(UsageError, match="the number of threads must be 1 or more, not 0"):
        tuned(LARGE, threads=0)


def test_a_small_model_is_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = measured(monkeypatch, {})
    small = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, vocab_size=1000)
    assert tuned(small) == Tuning("float32", 1)
    assert not asked


def test_the_measure_times_every_way() -> None:
    before = torch.get_num_threads()
    shape = tuning._Shape(layers=3, width=64, inner=128, vocabulary=1000)
    found, _ = tuning._measured(shape, 2)
    assert set(found) == {(d, n) for d in ("float32", "bfloat16") for n in (1, 2)}
    assert all(ms > 0 for ms in found.values())
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_number_of_threads_changes_no_number(dtype: torch.dtype) -> None:
    # The choice may differ from day to day, where nothing could be remembered.
    made = torch.Generator().manual_seed(3)
    before = torch.get_num_threads()
    try:
        for a, b in [(576, 576), (576, 1536), (1536, 576), (576, 8192)]:
            weights = torch.randn(b, a, generator=made).to(dtype)
            x = torch.randn(32, a, generator=made).to(dtype)
            torch.set_num_threads(1)
            one = torch.nn.functional.linear(x, weights)
            torch.set_num_threads(2)
            assert torch.equal(torch.nn.functional.linear(x, weights), one)
    finally:
        torch.set_num_threads(before)
