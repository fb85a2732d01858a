"""A GGUF file to a follower: read and checked by us, computed by llama.cpp."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from disciple_ext.errors import FollowerError, UsageError
from disciple_ext.follower.chat_template import ChatPrompt
from disciple_ext.follower.gguf.checks import check, ends_of_text
from disciple_ext.follower.gguf.header import Header, read_header
from disciple_ext.follower.gguf.load import read_tokenizer
from disciple_ext.follower.hf import vocabulary_of
from disciple_ext.follower.host import HostFollower
from disciple_ext.registry.specs import call

from .backend import LlamaCppBackend
from .engine import Engine
from .libraries import load

__all__ = ["from_file", "from_spec"]

_PAD = 256
"""llama.cpp rounds the number of cells up to a multiple of it."""
_NO_PREFIXES = ("rwkv", "t5", "bert", "mamba")


def from_spec(argument: str) -> HostFollower:
    """Load ``PATH,OPTION=VALUE,...``; the options are those of :func:`from_file`.

    Raises:
        UsageError: no file is named, or an option is not as it should be.
        FollowerError: the file or the library cannot be loaded.
    """
    path, _, options = argument.partition(",")
    if not path:
        raise UsageError(
            "name the follower's file, as in 'llamacpp:./model.gguf'; options follow after a "
            "comma, as in ',threads=4'"
        )
    factory = partial(from_file, path)
    return call("follower", "llamacpp", factory, options) if options else factory()


def from_file(
    path: str,
    *,
    threads: int | None = None,
    context: int = 8192,
    sequences: int = 256,
    gpu_layers: int = -1,
    library: str | None = None,
) -> HostFollower:
    """Load a model into llama.cpp, and its tokenizer and chat template from the same file.

    Args:
        path: the GGUF file.
        threads: CPU threads; half of those that this process may use where it is None.
        context: tokens whose keys and values are held, of all particles together, each shared
            beginning once. What was forgotten is computed again.
        sequences: texts that are held, at most 256. A particle under a prior and a proposal
            prompt has two.
        gpu_layers: layers on the GPU where the library was built for one, -1 for all.
        library: ``llama_cpp`` or ``xllamacpp``; the first of them that is installed where it
            is None.

    Raises:
        UsageError: an option is out of its range.
        FollowerError: there is no such file, it is damaged, or its model cannot be run here.
    """
    for name, value, least, most in (
        ("threads", threads, 1, 1024),
        ("context", context, 1, 2**24),
        ("sequences", sequences, 1, 256),
        ("gpu_layers", gpu_layers, -1, 2**16),
    ):
        if value is not None and not (isinstance(value, int) and least <= value <= most):
            raise UsageError(
                f"llamacpp:{path}: {name} is a number from {least} to {most}, not {value!r}"
            )
    header = read_header(Path(path).expanduser())
    check(header)
    _check_model(header)
    found = load(library)
    cells = -(-context // _PAD) * _PAD
    engine = Engine(
        found,
        str(header.path),
        cells=cells,
        sequences=sequences,
        threads=threads or _threads(),
        gpu_layers=gpu_layers,
    )
    architecture = header.text("general.architecture")
    backend = LlamaCppBackend(
        engine,
        cells=cells,
        sequences=sequences,
        max_context=header.number(f"{architecture}.context_length"),
    )
    tokenizer = read_tokenizer(header)
    return HostFollower(
        backend,
        vocabulary_of(tokenizer, _as_model(header, engine.size)),
        ChatPrompt(tokenizer),
        name=f"llamacpp:{path}",
        threads=threads,
    )


def _threads() -> int:
    """Half of the processors that this process may use: two are mostly one core."""
    # Elsewhere than on Linux a process cannot be told which it may use.
    everyone = os.cpu_count() or 1
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else everyone
    return max(1, mine // 2)


def _check_model(header: Header) -> None:
    """Refuse what has no keys and values by position, before the library's asserts do."""
    architecture = header.text("general.architecture") or ""
    kept_state = any(".ssm." in key or ".wkv." in key for key in header.fields)
    if kept_state or architecture.startswith(_NO_PREFIXES):
        raise FollowerError(
            f"{str(header.path)!r} is a model of the architecture {architecture!r}, whose texts "
            "cannot share beginnings in llama.cpp (it keeps a state, or has an encoder); use "
            "'gguf:' or 'hf:'"
        )


def _as_model(header: Header, size: int) -> Any:
    """What :func:`vocabulary_of` asks a model: its logits, and what ends a text."""
    text = SimpleNamespace(vocab_size=size)
    ends = sorted(ends_of_text(header))
    return SimpleNamespace(
        config=SimpleNamespace(eos_token_id=ends, get_text_config=lambda: text),
        generation_config=SimpleNamespace(eos_token_id=ends),
    )
