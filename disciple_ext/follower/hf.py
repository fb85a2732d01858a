"""Followers from Hugging Face models on disk or in the local cache, and the embedded one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..errors import DiscipleError, FollowerError, UsageError
from ..protocol.vocabulary import Vocabulary
from .chat_template import ChatPrompt
from .engine.placed import computes_in
from .engine.tuning import tuned
from .host import HostFollower
from .loaded import need_all_weights
from .options import default_device, device_named, dtype_named
from .quantised import cannot_load, need_known, need_own_dtype, packed_with, quieten

__all__ = ["EMBEDDED", "from_model", "from_pretrained", "vocabulary_of"]

EMBEDDED = Path(__file__).parent / "embedded"


def from_pretrained(
    path: str,
    *,
    name: str | None = None,
    dtype: str | None = None,
    device: str | int | None = None,
    device_map: str | int | Mapping[str, Any] | None = None,
    threads: int | None = None,
) -> HostFollower:
    """Load a causal LM and its tokenizer.

    A quantised checkpoint is read by its own ``quantization_config`` and keeps its packed weights.

    Args:
        path: a directory, or the id of a model on the Hugging Face Hub. An id is looked up in
            the local cache; it is downloaded only where ``HF_HUB_OFFLINE`` does not forbid it.
        name: name for results; ``hf:PATH`` where it is None.
        dtype: ``float32``, ``bfloat16``, ``float16``, or ``auto`` for the files' own. Where it
            is None, what is quickest on a CPU (float32 or bfloat16; it is measured once a
            machine), and the files' own elsewhere. Quantised weights take no other than their own.
        device: torch device; CUDA where there is one, else the CPU.
        device_map: in place of a device, how accelerate spreads the model over several: ``auto``,
            ``balanced``, ``sequential``, or a dict from modules to devices.
        threads: CPU threads, where one is not enough or too much (see :func:`from_model`).

    Raises:
        UsageError: there is no such dtype or device, both device and device_map are given, or a
            dtype for quantised weights.
        FollowerError: there is no such model, its files are damaged or incomplete, it is no
            causal LM, or a package that its quantisation needs is missing.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    if device is not None and device_map is not None:
        raise UsageError("give a device or a device_map, not both: a device_map names the devices")
    source = source_of(path)
    place = default_device() if device is None else device_named(device)
    numbers = None if dtype in (None, "auto") else dtype_named(dtype)
    packed: str | None = None
    try:
        config = AutoConfig.from_pretrained(source)
        packed = packed_with(config)
        if packed is not None:
            quieten(packed)
            need_known(path, packed)
            need_own_dtype(path, packed, dtype)
        if place.type == "cpu":
            tuned(config)  # before the weights: what is measured takes memory, too
        tokenizer = AutoTokenizer.from_pretrained(source)
        model, notes = AutoModelForCausalLM.from_pretrained(
            source,
            output_loading_info=True,
            dtype=_default_dtype(config, place, packed) if dtype is None else numbers or "auto",
            device_map=_whole(place) if device_map is None and packed is not None else device_map,
        )
    except DiscipleError:
        raise
    except Exception as error:  # transformers, safetensors and the hub raise many kinds
        if packed is not None:
            raise cannot_load(path, packed, str(device_map or place), error) from error
        raise FollowerError(
            f"the model {path!r} cannot be loaded: {type(error).__name__}: {_first_line(error)}. "
            "Check the name and the files (a damaged download: delete it and fetch it again)"
        ) from error
    need_all_weights(f"the model {path!r}", notes)
    # What accelerate or a quantiser has placed must stay there.
    if device_map is None and packed is None:
        model.to(place)
    return from_model(model.eval(), tokenizer, name=name or f"hf:{path}", threads=threads)


def _default_dtype(config: Any, device: torch.device, packed: str | None) -> Any:
    """The dtype where the user names none."""
    return tuned(config).dtype if device.type == "cpu" and packed is None else "auto"


def _whole(device: torch.device) -> dict[str, torch.device] | None:
    """A device map that puts all on one device; None where that is where it goes anyhow."""
    # Some quantisers refuse a CPU in a device map, though they take it where nothing is said.
    if device.type == "cpu" and not torch.cuda.is_available():
        return None
    return {"": device}


def source_of(path: str) -> str:
    """What a model is loaded from: its directory, or an id of the hub as it is.

    Raises:
        FollowerError: it is a path, and no model lies there.
    """
    folder = Path(path).expanduser()
    if not (folder.is_absolute() or path.startswith((".", "~")) or folder.exists()):
        return path
    if folder.suffix == ".gguf" and folder.is_file():
        raise FollowerError(f"{str(folder)!r} is a GGUF file: use 'gguf:{folder}'")
    if not folder.is_dir():
        raise FollowerError(
            f"there is no model directory {str(folder)!r}; give the path of a directory with "
            "config.json and weights, or the id of a model on the Hugging Face Hub"
        )
    if not (folder / "config.json").is_file():
        files = sorted(folder.glob("*.gguf"))
        instead = f"; for the GGUF file in it use 'gguf:{files[0]}'" if files else ""
        raise FollowerError(
            f"{str(folder)!r} holds no config.json, so it is no Hugging Face model{instead}"
        )
    return str(folder)


def from_model(
    model: Any, tokenizer: Any, *, name: str, threads: int | None = None
) -> HostFollower:
    """Wrap a loaded model and tokenizer.

    Args:
        model: a ``PreTrainedModel`` for causal LM, in eval mode.
        tokenizer: its tokenizer.
        name: name for results.
        threads: CPU threads to compute with. Where it is None, one, or all of torch's where
            they were measured to be quicker by far.

    Raises:
        UsageError: there cannot be so many threads.
    """
    from .engine.kv import KVBackend, PlainBackend

    vocabulary = vocabulary_of(tokenizer, model)
    backend = KVBackend(model) if _full_attention(model) else PlainBackend(model)
    if backend.device.type == "cpu":
        dtype = str(computes_in(model)).removeprefix("torch.")
        threads = tuned(model.config, dtype=dtype, threads=threads).threads
    return HostFollower(backend, vocabulary, ChatPrompt(tokenizer), name=name, threads=threads)


def vocabulary_of(tokenizer: Any, model: Any = None) -> Vocabulary:
    """The vocabulary of a tokenizer, sized to the model's logits where a model is given."""
    from genlm.backend.tokenization import decode_vocab

    tokens, _ = decode_vocab(tokenizer)
    special = set(tokenizer.all_special_ids)
    special |= {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
    eos = _eos_ids(tokenizer, model)
    if not eos:
        raise FollowerError(
            f"the model {tokenizer.name_or_path!r} names no end-of-text token, so no text of it "
            "could end; set eos_token_id in its generation_config.json"
        )
    size = len(tokens)
    if model is not None:
        # There may be more logits than tokens. Masks must cover those ids, or they would be drawn.
        size = model.config.get_text_config().vocab_size

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids

    return Vocabulary(tokens, eos=eos, special=special, encode=encode, size=size)


def _eos_ids(tokenizer: Any, model: Any) -> set[int]:
    """Every id that ends a text: the generation config's, the config's and the tokenizer's."""
    eos: set[int] = set()
    sources = [tokenizer.eos_token_id]
    if model is not None:
        # Llama 3 and Qwen have several, of which the tokenizer names one.
        generation = getattr(model, "generation_config", None)
        sources += [getattr(generation, "eos_token_id", None), model.config.eos_token_id]
    for ids in sources:
        if ids is not None:
            eos |= set(ids) if isinstance(ids, list | tuple) else {ids}
    return eos


def _full_attention(model: Any) -> bool:
    """Whether every layer attends to the whole past, in the way that the engine's attention can."""
    text = model.config.get_text_config()
    if not getattr(model, "_supports_attention_backend", False):
        return False
    if getattr(text, "attn_logit_softcapping", None) is not None:
        return False
    if getattr(text, "reorder_and_upcast_attn", False):  # GPT-2's own way past the interface
        return False
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    window = getattr(text, "sliding_window", None)
    # Qwen's configurations name a window that this switches off.
    if not getattr(text, "use_sliding_window", True):
        window = None
    state_space = not hasattr(text, "num_attention_heads") or hasattr(text, "ssm_cfg")
    return kinds == {"full_attention"} and window is None and not state_space


def embedded() -> HostFollower:
    """The follower that ships with the package.

    Raises:
        FollowerError: its files are missing or damaged (reinstall the package).
    """
    if not (EMBEDDED / "model.safetensors").is_file():
        raise FollowerError(
            "the embedded follower's weights are missing from this installation; reinstall "
            "disciple-ext, or use --follower hf:PATH"
        )
    card = EMBEDDED / "weights.json"
    if card.is_file():
        import hashlib

        wanted = json.loads(card.read_text())["sha256"]
        found = hashlib.sha256((EMBEDDED / "model.safetensors").read_bytes()).hexdigest()
        if found != wanted:
            raise FollowerError(
                f"the embedded follower's weights are damaged (SHA-256 {found[:12]}..., expected "
                f"{wanted[:12]}...); reinstall disciple-ext"
            )
    return from_pretrained(str(EMBEDDED), name="embedded")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]
