"""GGUF files as followers, against transformers' own reading of them."""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from transformers import AutoModelForCausalLM

from disciple_ext import FollowerError, cli
from disciple_ext.follower.chat_template import ChatPrompt
from disciple_ext.follower.gguf.checks import check
from disciple_ext.follower.gguf.header import read_header
from disciple_ext.follower.gguf.load import from_gguf, read_tokenizer
from disciple_ext.follower.hf import source_of
from disciple_ext.protocol.prefix import Prefix

from .gguf_files import ARCHITECTURES, CONTROLS, HIDDEN, PIECES, tokens, write

CONTEXTS = [(1, 5, 9), (7,), (40, 41, 42, 43, 44, 45, 46), (1, 5, 10)]


@torch.inference_mode()
def by_transformers(path: Path) -> torch.Tensor:
    """Log-probabilities after each context, from transformers alone."""
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    ).eval()
    rows = [model(input_ids=torch.tensor([c]), use_cache=False).logits[0, -1] for c in CONTEXTS]
    return torch.log_softmax(torch.stack(rows), -1)


def by_us(path: Path) -> torch.Tensor:
    backend = from_gguf(str(path), dtype="float32").backend
    return torch.log_softmax(asyncio.run(backend.logits([Prefix.of(c) for c in CONTEXTS])), -1)


# Numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_architectures_give_the_log_probabilities_of_transformers(
    architecture: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "tiny.gguf", architecture)
    ours, theirs = by_us(path), by_transformers(path)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
    assert (theirs[0] - theirs[3]).abs().max() > 0.01  # the model tells contexts apart


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q5_0, Kind.Q4_1])
def test_quantised_weights_are_those_of_transformers(kind: Kind, tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", kind=kind)
    torch.testing.assert_close(by_us(path), by_transformers(path), atol=1e-4, rtol=0)
    other = write(tmp_path / "float.gguf")
    assert (by_us(path) - by_us(other)).abs().max() > 0


# Tokenizer, template, ends ----------------------------------------------------------------------


def ids(*pieces: str) -> list[int]:
    """Ids of tokens, and of the letters of what is none."""
    words, _ = tokens()
    found = [[piece] if piece in words else list(piece) for piece in pieces]
    return [words.index(token) for piece in found for token in piece]


def test_template_and_end_come_from_the_file(tmp_path: Path) -> None:
    follower = from_gguf(str(write(tmp_path / "tiny.gguf")))
    start, end = CONTROLS.index("<|im_start|>"), CONTROLS.index("<|im_end|>")
    asked = ids("<|im_start|>", "userĊHi", "<|im_end|>", "Ċ")
    assert list(follower.prompt("Hi")) == [*asked, start, *ids("assist", "an", "tĊ")]
    assert follower.vocabulary.eos == {end}
    assert follower.vocabulary.size == len(tokens()[0])
    assert follower.name == f"gguf:{tmp_path / 'tiny.gguf'}"


def test_what_lies_beside_the_file_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf")
    alone = from_gguf(str(path)).prompt("Hi")
    (tmp_path / "chat_template.jinja").write_text("other")
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "nowhere"}')
    assert from_gguf(str(path)).prompt("Hi") == alone


def test_the_end_of_a_turn_ends_a_text_too(tmp_path: Path) -> None:
    """A chat model's file may name the end of a document alone, which no answer ends with."""
    path = write(tmp_path / "tiny.gguf", eos=CONTROLS.index("<|endoftext|>"))
    assert from_gguf(str(path)).vocabulary.eos == {0, 2}


def test_the_tokenizer_alone_is_the_follower_s(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf")
    tokenizer, follower = read_tokenizer(read_header(path)), from_gguf(str(path))
    assert tuple(tokenizer.encode("the and", add_special_tokens=False)) == (
        follower.vocabulary.encode("the and")
    )
    assert ChatPrompt(tokenizer)("the", "and") == follower.prompt("the", "and")
    assert tokenizer.name_or_path == str(path)


def test_pieces_of_sentencepiece(tmp_path: Path) -> None:
    follower = from_gguf(str(write(tmp_path / "tiny.gguf", pieces=True)))
    spelled = [follower.vocabulary.tokens[PIECES.index(p)] for p in ("▁the", "he", "<0x0A>")]
    assert spelled == [b" the", b"he", b"\n"]
    assert follower.vocabulary.eos == {PIECES.index("</s>")}
    newline = PIECES.index("<0x0A>")
    assert list(follower.prompt("the")) == [1, PIECES.index("▁the"), newline]


def test_without_a_template_the_message_stands_before_the_text(tmp_path: Path) -> None:
    follower = from_gguf(str(write(tmp_path / "tiny.gguf", template=None)))
    assert list(follower.prompt("Hi")) == [CONTROLS.index("<|im_start|>"), *ids("HiĊ")]


def test_a_relative_path_and_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a, b.gguf")
    monkeypatch.chdir(tmp_path)
    assert from_gguf("a, b.gguf").name == "gguf:a, b.gguf"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert from_gguf("~/a, b.gguf").vocabulary.size


def test_loading_is_silent_and_leaves_gguf_as_it_was(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reader, names = gguf.GGUFReader, gguf.get_tensor_name_map
    from_gguf(str(write(tmp_path / "tiny.gguf")))
    assert capfd.readouterr() == ("", "")
    with pytest.raises(FollowerError):
        from_gguf(str(write(tmp_path / "short.gguf", leave_out=("blk.1.ffn_up.weight",))))
    assert capfd.readouterr() == ("", "")
    assert (gguf.GGUFReader, gguf.get_tensor_name_map) == (reader, names)


# What cannot be read ----------------------------------------------------------------------------


def cut(path: Path, part: float) -> Path:
    write(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    return path


def begins(path: Path, start: bytes) -> Path:
    write(path)
    path.write_bytes(start + path.read_bytes()[len(start) :])
    return path


def of_kind(path: Path, number: int) -> Path:
    """A file whose first tensor says that it is of another type."""
    write(path)
    data = bytearray(path.read_bytes())
    name = b"token_embd.weight"
    at = data.index(name) + len(name)
    at += 4 + 8 * struct.unpack_from("<I", data, at)[0]
    struct.pack_into("<I", data, at, number)
    path.write_bytes(data)
    return path


def nothing(path: Path) -> Path:
    return path


def folder(path: Path, holds: str = "") -> Path:
    path.mkdir()
    if holds:
        (path / holds).touch()
    return path


def many_parts(path: Path) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint16("split.count", 3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


TASK = "Please generate a sentence with exactly 8 words."
HALF = {"blk.0.ffn_up.weight": (48, HIDDEN)}
BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no such file": (nothing, "there is no file .* give the path of a GGUF file"),
    "a directory": (folder, "is a directory; and it holds no GGUF file"),
    "a directory of files": (
        lambda path: folder(path, "m.gguf"),
        r"is a directory; name a file in it, as in 'gguf:.*m\.gguf'",
    ),
    "a model of Hugging Face": (lambda path: folder(path, "config.json"), "use 'hf:"),
    "empty": (lambda path: cut(path, 0), "is no GGUF file .it is empty."),
    "wrong magic": (lambda path: begins(path, b"ABCD"), "begins with b'ABCD'.; give the path"),
    "a pointer": (lambda path: begins(path, b"version https://git-lfs"), "git lfs pull"),
    "a web page": (lambda path: begins(path, b"<!DOCTYPE html>"), "web page"),
    "an archive": (lambda path: begins(path, b"PK\x03\x04"), "zip archive"),
    "safetensors": (lambda path: begins(path, b'\x08\0\0\0\0\0\0\0{"a":1}'), "safetensors"),
    "an old version": (lambda path: begins(path, b"GGUF\x01\0\0\0"), "of version 1, and 2 and 3"),
    "other byte order": (lambda path: begins(path, b"GGUF\0\0\0\x03"), "other order"),
    "an absurd count": (lambda path: begins(path, b"GGUF\x03\0\0\0" + b"\xff" * 8), "damaged"),
    "cut within the header": (lambda path: cut(path, 0.001), "ends within its header; .*fetch it"),
    "cut within the weights": (lambda path: cut(path, 0.9), "is cut off: .* fetch it again"),
    "unknown type": (lambda path: of_kind(path, 999), "cannot be read .number 999.; .*Q4_K_M"),
    "type without numbers": (lambda path: of_kind(path, 27), "cannot be read .I64."),
    "rows of another length": (lambda path: of_kind(path, 12), "do not divide into Q4_K's"),
    "unknown architecture": (
        lambda path: write(path, "rwkv7"),
        "architecture 'rwkv7', which the installed transformers cannot read",
    ),
    "no language model": (lambda path: many_parts(path), "is part 1 of 3; .*llama-gguf-split"),
    "wrong shapes": (
        lambda path: write(path, shapes=HALF),
        "has in a wrong shape .*model.layers.0.mlp.up_proj.weight; convert",
    ),
    "a missing tensor": (
        lambda path: write(path, leave_out=("blk.1.attn_q.weight",)),
        "lacks weights .*model.layers.1.self_attn.q_proj.weight",
    ),
    "no tokenizer": (lambda path: write(path, tokenizer=False), "holds no tokenizer; convert"),
    "no merges": (lambda path: write(path, merges=None), "has no merges"),
    "no scores": (lambda path: write(path, model="llama", merges=None), "has no scores"),
    "no end": (lambda path: write(path, eos=None, template=None), "no end-of-text token"),
    "an unknown tokenizer": (lambda path: write(path, model="bert"), "because of its tokenizer"),
    "another's tokenizer": (
        lambda path: write(path, shapes={"token_embd.weight": (100, HIDDEN)}),
        "its tokenizer is another model's",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_file_that_cannot_be_read_is_refused(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command line: exit code 4, and one line that says what to do."""
    make, says = BAD[what]
    path = make(tmp_path / "bad.gguf")
    assert cli.run(["run", TASK, "--follower", f"gguf:{path}", "--sandbox", "none"]) == 4
    shown = capsys.readouterr()
    assert shown.out == "" and re.fullmatch(f"error: .*{says}.*\n", shown.err), shown.err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads it all")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.gguf")
    path.chmod(0)
    with pytest.raises(FollowerError, match="cannot be read: Permission denied"):
        from_gguf(str(path))


def test_a_spec_without_a_file_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["run", TASK, "--follower", "gguf:"]) == 2
    assert "gguf:./model.gguf" in capsys.readouterr().err


def test_without_the_package_that_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where disciple-ext was installed without its dependencies."""
    path = write(tmp_path / "tiny.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(FollowerError, match="pip install gguf"):
        from_gguf(str(path))


def test_hf_names_gguf(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf")
    for given in (path, tmp_path):
        with pytest.raises(FollowerError, match=f"use 'gguf:{path}'"):
            source_of(str(given))


def test_no_cut_and_no_flipped_byte_does_more_than_fail(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf")
    data = path.read_bytes()
    start = read_header(path).tensors[0].start
    chance = random.Random(0)
    for cut_at in [*range(0, 200), *chance.sample(range(200, len(data)), 100)]:
        path.write_bytes(data[:cut_at])
        with pytest.raises(FollowerError):
            check(read_header(path))
    for _ in range(500):
        changed = bytearray(data)
        changed[chance.randrange(start)] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        try:
            check(read_header(path))
        except FollowerError:
            pass


# The real one -----------------------------------------------------------------------------------

PEAK = """
import threading, time
import disciple_ext.follower.gguf.load as load, transformers, genlm.backend, sys
import transformers.models.llama.modeling_llama
def held():
    lines = open("/proc/self/status").read().split("\\n")
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
before, most, over = held(), [0], threading.Event()
def watch():
    while not over.wait(0.002):
        most[0] = max(most[0], held())
watching = threading.Thread(target=watch)
watching.start()
follower = load.from_gguf(sys.argv[1], dtype=sys.argv[2])
over.set()
watching.join()
print((most[0] - before) * 1024)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_smollm2(smollm2: Path, tmp_path: Path) -> None:
    path = tmp_path / "smollm2.gguf"
    path.symlink_to(smollm2)
    torch.testing.assert_close(by_us(path), by_transformers(path), atol=1e-4, rtol=0)
    follower = from_gguf(str(path))
    assert follower.vocabulary.size == 49152 and follower.vocabulary.eos == {2}
    shutil.rmtree(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2)])
def test_loading_takes_little_more_than_the_weights(smollm2: Path, dtype: str, size: int) -> None:
    """The weights of the dtype, the largest tensor as float32, and the tokenizer."""
    command = [sys.executable, "-c", PEAK, str(smollm2), dtype]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    rest = 4 * 49_152 * 576 + 64 * 2**20
    assert int(done.stdout) < size * 134_515_008 + rest
