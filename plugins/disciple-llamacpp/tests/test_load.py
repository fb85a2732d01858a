"""What is refused, and in which words; what a loaded follower is."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import pytest
from disciple_llamacpp import libraries, register_followers
from disciple_llamacpp.load import from_spec

from disciple_ext import DiscipleError, FollowerError, UsageError
from disciple_ext.follower.gguf.load import from_gguf
from disciple_ext.protocol.prefix import Prefix
from disciple_ext.protocol.requests import LogProbs

Write = Callable[..., Path]


def refused(spec: str, error: type[DiscipleError] = FollowerError) -> str:
    with pytest.raises(error) as raised:
        from_spec(spec)
    return str(raised.value)


def test_the_hook_registers_it(tmp_path: Path) -> None:
    make = register_followers()["llamacpp"]
    with pytest.raises(FollowerError, match="there is no file"):
        make(f"{tmp_path}/none.gguf")
    with pytest.raises(UsageError, match=r"llamacpp:\./model\.gguf"):
        make("")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("threads=0", "threads is a number from 1"),
        ("sequences=300", "sequences is a number from 1 to 256"),
        ("context=many", "context is a number"),
        ("library=other", "'other' is none of llama_cpp, xllamacpp"),
        ("layers=3", "gpu_layers"),
    ],
)
def test_options(options: str, says: str, write: Write, tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf")
    assert says in refused(f"{path},{options}", UsageError)


def test_files_are_refused_before_llama_cpp_sees_them(write: Write, tmp_path: Path) -> None:
    assert "there is no file" in refused(str(tmp_path / "none.gguf"))
    other = tmp_path / "other.gguf"
    other.write_bytes(b"PK\x03\x04" + bytes(100))
    assert "zip archive" in refused(str(other))
    path = write(tmp_path / "tiny.gguf")
    path.write_bytes(path.read_bytes()[:-500])
    assert "is cut off" in refused(str(path))
    for architecture in ("rwkv7", "mamba2", "t5", "bert"):
        path = write(tmp_path / "tiny.gguf", architecture)
        assert f"'{architecture}', whose texts cannot share" in refused(str(path))


def test_without_a_library_the_message_says_how_to_get_one(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda name: None)
    path = write(tmp_path / "tiny.gguf")
    assert "pip install 'xllamacpp==" in refused(str(path))
    assert "xllamacpp cannot be found" in refused(f"{path},library=xllamacpp")


@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="xllamacpp is not installed")
def test_a_library_of_another_layout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from disciple_llamacpp import layout

    # As if a field had been added before the last ones.
    monkeypatch.setitem(layout._CONTEXT, "kv_unified", True)
    with pytest.raises(FollowerError, match=r"not those of llama\.cpp b11549.*'kv_unified': False"):
        libraries.Library("xllamacpp")


# With a library --------------------------------------------------------------------------------


def test_vocabulary_prompt_and_ends_are_those_of_gguf(
    load: Callable[..., Any], write: Write, tmp_path: Path
) -> None:
    for pieces in (False, True):
        path = write(tmp_path / f"{pieces}.gguf", pieces=pieces)
        ours, theirs = load(path), from_gguf(str(path))
        for name in ("tokens", "eos", "special", "size"):
            assert getattr(ours.vocabulary, name) == getattr(theirs.vocabulary, name)
        assert ours.prompt("the hint", "a") == theirs.prompt("the hint", "a")
        assert ours.max_context == 512
        assert ours.name == f"llamacpp:{path}"


def test_an_unknown_architecture_and_a_missing_tensor(
    load: Callable[..., Any], write: Write, tmp_path: Path
) -> None:
    with pytest.raises(FollowerError, match="knows no such architecture: update it") as raised:
        load(write(tmp_path / "new.gguf", "llama9"))
    assert "unknown model architecture: 'llama9'" in str(raised.value)
    path = write(tmp_path / "tiny.gguf", leave_out=("blk.1.attn_q.weight",))
    with pytest.raises(FollowerError, match=r"blk\.1\.attn_q\.weight.*fetch or convert it again"):
        load(path)


def test_a_weight_that_is_no_number(load: Callable[..., Any], write: Write, tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", kind=gguf.GGMLQuantizationType.F16)
    data = bytearray(path.read_bytes())
    data[-2000:-1000] = b"\xff" * 1000
    path.write_bytes(data)
    with pytest.raises(FollowerError, match="invalid data"):
        load(path)


def test_it_is_silent(
    load: Callable[..., Any], write: Write, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    follower = load(write(tmp_path / "tiny.gguf"))
    asyncio.run(follower.ask(LogProbs(Prefix.of((1, 2)))))
    assert capfd.readouterr() == ("", "")


def test_a_context_too_long_fails_alone(
    load: Callable[..., Any], write: Write, tmp_path: Path
) -> None:
    follower = load(write(tmp_path / "tiny.gguf"), context=256)
    assert follower.max_context == 256

    async def both() -> list[Any]:
        asked = (follower.ask(LogProbs(Prefix.of([5] * n))) for n in (257, 256))
        return await asyncio.gather(*asked, return_exceptions=True)

    long, fits = asyncio.run(both())
    assert isinstance(long, FollowerError) and "257 tokens; the model takes 256" in str(long)
    assert fits.shape == (266,)


def test_after_a_failure_it_begins_anew(
    load: Callable[..., Any], write: Write, tmp_path: Path
) -> None:
    backend = load(write(tmp_path / "tiny.gguf"), context=256).backend
    text = Prefix.of(range(200))
    before = asyncio.run(backend.logits([text]))
    with pytest.raises(FollowerError, match="300 tokens finds no room.*context=512"):
        asyncio.run(backend.logits([text.extend([5] * 100)]))
    assert backend._cells.used == 0
    assert asyncio.run(backend.logits([text])).equal(before)


def test_its_memory_is_freed_with_it(
    load: Callable[..., Any], write: Write, tmp_path: Path
) -> None:
    follower = load(write(tmp_path / "tiny.gguf"))
    freed = follower.backend.engine._free
    held = weakref.ref(follower.backend.engine)
    del follower
    gc.collect()
    assert held() is None and not freed.alive
