"""A follower from a GGUF file: transformers makes the model, and reads the header through ours.

Transformers makes the model, so that the log-probabilities are its own. Its way to the weights is
slow, however: gguf's reader makes four arrays of every token and every merge, and is made three
times; the names of all tensors are worked out anew for each module. For SmolLM2 that is 13 of 16 s
of computing, so while a file is loaded the one is replaced by our header, the other remembered.
Where another version of transformers goes another way, nothing is replaced, and it is only slower.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from ...errors import FollowerError
from ..engine.tuning import tuned
from ..hf import from_model
from ..host import HostFollower
from ..loaded import need_all_weights
from ..options import default_device, device_named, dtype_named
from .checks import check, ends_of_text
from .header import Header, Tensor, Value, read_header

__all__ = ["from_gguf", "load_gguf", "read_tokenizer"]

_LOADING = threading.Lock()
"""One at a time: what is replaced meanwhile belongs to the whole process."""


def from_gguf(
    path: str,
    *,
    name: str | None = None,
    dtype: str | None = None,
    device: str | int | None = None,
    threads: int | None = None,
) -> HostFollower:
    """Make a follower of a GGUF file: its model, its tokenizer and its chat template.

    Args:
        path: the file.
        name: name for results; ``gguf:PATH`` where it is None.
        dtype: see :func:`load_gguf`.
        device: torch device; CUDA where there is one, else the CPU.
        threads: CPU threads, where one is not enough or too much.

    Raises:
        UsageError: there is no such dtype or device.
        FollowerError: there is no such file, it is damaged, or its model cannot be read.
    """
    model, tokenizer = load_gguf(path, dtype=dtype, device=device)
    return from_model(model, tokenizer, name=name or f"gguf:{path}", threads=threads)


def load_gguf(
    path: str, *, dtype: str | None = None, device: str | int | None = None
) -> tuple[Any, Any]:
    """Load the model and the tokenizer of a GGUF file.

    Quantised weights become numbers of the dtype here, one tensor after the other.

    Args:
        path: the file.
        dtype: ``float32``, ``bfloat16`` or ``float16``. Where it is None, what is quickest on a CPU
            (float32 or bfloat16; it is measured once a machine), and elsewhere bfloat16 unless
            the file itself has float32.
        device: torch device; CUDA where there is one, else the CPU.

    Returns:
        A ``PreTrainedModel`` in eval mode, and its fast tokenizer.

    Raises:
        UsageError: there is no such dtype or device.
        FollowerError: there is no such file, it is damaged, or its model cannot be read.
    """
    if find_spec("gguf") is None:
        raise FollowerError("the package 'gguf' reads GGUF files, and is missing: pip install gguf")
    place = default_device() if device is None else device_named(device)
    numbers = None if dtype is None else dtype_named(dtype)
    header = read_header(Path(path).expanduser())
    check(header)
    with _LOADING, _alone(header.path) as (folder, file), _quickly(header), _quietly():
        config = _config(header, folder, file)
        if place.type == "cpu":
            tuned(config)  # before the weights: what is measured takes memory, too
        if numbers is None:
            numbers = _default_dtype(header, config, place)
        tokenizer = _tokenizer(header, folder, file)
        model = _model(header, folder, file, config, numbers)
    # Else the temporary folder would be named in messages.
    tokenizer.name_or_path = model.config.name_or_path = str(header.path)
    model.generation_config.eos_token_id = sorted(ends_of_text(header))
    return model.eval().to(place), tokenizer


def _default_dtype(header: Header, config: Any, device: torch.device) -> torch.dtype:
    """The dtype where the user names none."""
    if device.type == "cpu":
        return dtype_named(tuned(config).dtype)
    plain = all(tensor.kind == 0 for tensor in header.tensors)
    return torch.float32 if plain else torch.bfloat16


def read_tokenizer(header: Header) -> Any:
    """The tokenizer of a file with its chat template, for what computes logits without torch.

    Args:
        header: of a file that :func:`~.checks.check` has passed.

    Raises:
        FollowerError: transformers cannot read it.
    """
    with _LOADING, _alone(header.path) as (folder, file), _quickly(header), _quietly():
        tokenizer = _tokenizer(header, folder, file)
    tokenizer.name_or_path = str(header.path)
    return tokenizer


def _config(header: Header, folder: str, file: str) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, gguf_file=file)
    except Exception as error:  # transformers raises many kinds
        architecture = header.text("general.architecture")
        if isinstance(error, ValueError) and "supported" in str(error):
            raise FollowerError(
                f"{str(header.path)!r} is a model of the architecture {architecture!r}, which the "
                "installed transformers cannot read from GGUF; update transformers, or use "
                "the model's Hugging Face files with 'hf:'"
            ) from error
        raise _failed(header, f"as a model of the architecture {architecture!r}", error) from error


def _tokenizer(header: Header, folder: str, file: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, gguf_file=file)
    except Exception as error:
        raise _failed(header, "because of its tokenizer", error) from error


def _model(header: Header, folder: str, file: str, config: Any, dtype: Any) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        model, notes = AutoModelForCausalLM.from_pretrained(
            folder,
            gguf_file=file,
            config=config,
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below, by name
            **_dequantised(),
        )
    except Exception as error:
        if "Unrecognized configuration class" in str(error):
            raise FollowerError(
                f"{str(header.path)!r} holds a {config.model_type} model, which is no causal "
                "language model; take one that continues texts"
            ) from error
        raise _failed(header, "because of its weights", error) from error
    need_all_weights(f"the GGUF file {str(header.path)!r}", notes)
    return model


def _dequantised() -> dict[str, Any]:
    """Ask for plain weights, where a version may otherwise look for packed kernels on the hub."""
    try:
        from transformers import GgufConfig
    except ImportError:
        return {}
    return {"quantization_config": GgufConfig(dequantize=True)}


def _failed(header: Header, why: str, error: Exception) -> FollowerError:
    lines = str(error).strip().splitlines() or ["no message"]
    if isinstance(error, MemoryError) or "not enough memory" in lines[0]:
        size = sum(tensor.elements for tensor in header.tensors) * 4 / 1e9
        return FollowerError(
            f"there is too little memory for {str(header.path)!r}, whose weights take "
            f"{size:.1f} GB as float32; take a smaller model"
        )
    return FollowerError(
        f"the GGUF file {str(header.path)!r} cannot be loaded {why}: {type(error).__name__}: "
        f"{lines[0]}. Fetch or convert it again, or take another file"
    )


@contextmanager
def _alone(path: Path) -> Iterator[tuple[str, str]]:
    """A folder in which the file stands alone, and its name there.

    Beside it, transformers would take a tokenizer.json, a chat template or an adapter from the
    folder, and the file has its own.
    """
    with tempfile.TemporaryDirectory(prefix="disciple-gguf-") as folder:
        try:
            os.symlink(path.resolve(), Path(folder) / "model.gguf")
        except (OSError, NotImplementedError):  # Windows, where links are a privilege
            yield str(path.parent), path.name
            return
        yield folder, "model.gguf"


@contextmanager
def _quietly() -> Iterator[None]:
    """No progress bars, for nothing is downloaded; no tables of weights, for we name them."""
    from transformers import modeling_gguf_pytorch_utils as reading
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(logging.CRITICAL)
    bars: AbstractContextManager[Any] = nullcontext()
    if hasattr(reading, "tqdm"):
        bars = mock.patch.object(reading, "tqdm", lambda items, **_: items)
    try:
        with bars:
            yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


@contextmanager
def _quickly(header: Header) -> Iterator[None]:
    """Have gguf's reader give what we have read of this file, and remember the names of tensors."""
    import gguf

    theirs: Callable[..., Any] = gguf.GGUFReader
    ours = _reader(header)

    def reader(path: Any, *args: Any, **kwargs: Any) -> Any:
        same = os.path.realpath(path) == os.path.realpath(header.path)
        return ours if same else theirs(path, *args, **kwargs)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(gguf, "GGUFReader", reader))
        names = cache(gguf.get_tensor_name_map)
        stack.enter_context(mock.patch.object(gguf, "get_tensor_name_map", names))
        yield


def _reader(header: Header) -> Any:
    """What a ``gguf.GGUFReader`` of the file would offer: fields and tensors."""
    import numpy as np

    # Mapped, so that one tensor at a time is in memory beside the model.
    data = np.memmap(header.path, mode="r")
    return SimpleNamespace(
        fields={key: _field(value) for key, value in header.fields.items()},
        tensors=[_tensor(data, tensor) for tensor in header.tensors],
    )


def _field(value: Value) -> Any:
    """A value as gguf has it: parts, which of them are data, and their types."""
    parts = [item if isinstance(item, bytes) else (item,) for item in value.items]
    return SimpleNamespace(parts=parts, data=list(range(len(parts))), types=list(value.types))


def _tensor(data: Any, tensor: Tensor) -> Any:
    """A tensor as gguf has it: numbers where they are plain, else rows of bytes."""
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    kind = GGMLQuantizationType(tensor.kind)
    block, size = GGML_QUANT_SIZES[kind]
    count = tensor.elements // block * size
    found = np.asarray(data[tensor.start : tensor.start + count])
    *rows, width = reversed(tensor.shape)
    plain = {"F16": np.float16, "F32": np.float32}.get(kind.name)
    if plain is not None:
        found = found.view(plain).reshape(*rows, width)
    else:
        found = found.reshape(*rows, width // block * size)
    return SimpleNamespace(
        name=tensor.name, tensor_type=kind, shape=np.array(tensor.shape), data=found
    )
