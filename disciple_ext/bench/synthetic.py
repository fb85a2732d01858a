"""Models to measure on: two followers' own, and random Llamas with made-up tokenizers.

What a model costs depends on its shape alone, so the weights are random, from a fixed seed.
"""

from __future__ import annotations

import random
import string
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from ..errors import UsageError

__all__ = ["MODELS", "REAL", "Loaded", "load"]

_LONGEST = 2048
"""Positions of the synthetic models, in tokens."""

_LLAMA_1B = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "tie_word_embeddings": True,
}
_SMALL = {
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
}
_TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
}
_SHAPES: dict[str, tuple[int, dict[str, Any]]] = {
    "tiny": (300, _TINY),
    "8k": (8_000, _SMALL),
    "32k": (32_000, _SMALL),
    "128k": (128_000, _SMALL),
    "llama-1b": (128_256, _LLAMA_1B),
}
REAL = ("embedded", "smollm2")
"""Names of the models that write texts, as followers are called."""
MODELS = (*REAL, *_SHAPES)
"""Names of all models; the synthetic ones are called by their vocabulary."""


@dataclass(frozen=True)
class Loaded:
    """A model and its tokenizer.

    Attributes:
        name: one of :data:`MODELS`.
        model: a causal LM, in eval mode.
        tokenizer: a fast tokenizer.
    """

    name: str
    model: Any
    tokenizer: Any


@lru_cache(maxsize=1)  # one at a time: they are large
def load(name: str, device: str = "cpu") -> Loaded:
    """The model of a name: float32 on the CPU, bfloat16 on another device.

    SmolLM2 is in the dtype that a follower of it has on this machine.

    Raises:
        UsageError: there is no such model.
        FollowerError: SmolLM2 has not been added.
    """
    if name == "embedded":
        return _embedded(device)
    if name == "smollm2":
        return _smollm2(device)
    if name not in _SHAPES:
        raise UsageError(f"there is no model {name!r} to measure on; one of {', '.join(MODELS)}")
    from transformers import LlamaConfig, LlamaForCausalLM

    size, shape = _SHAPES[name]
    config = LlamaConfig(
        vocab_size=size,
        max_position_embeddings=_LONGEST,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        **shape,
    )
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    # The caller's random state stays as it was.
    with torch.random.fork_rng(devices=[]), torch.device(device):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    return Loaded(name, model.to(dtype).eval(), tokenizer(size))


def _embedded(device: str) -> Loaded:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from ..follower.hf import EMBEDDED

    model = AutoModelForCausalLM.from_pretrained(str(EMBEDDED), dtype=torch.float32)
    return Loaded("embedded", model.eval().to(device), AutoTokenizer.from_pretrained(str(EMBEDDED)))


def _smollm2(device: str) -> Loaded:
    from ..follower.gguf.load import load_gguf
    from ..models.store import find

    return Loaded("smollm2", *load_gguf(str(find("smollm2")), device=device))


def tokenizer(size: int) -> Any:
    """A tokenizer of ``size`` made-up tokens.

    It has three special tokens (begin, end, padding), every printable ASCII character and the
    line break, and words of 2 to 12 letters, half of them after a space. No merge is known, so
    that a text is encoded character by character: one token each.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "</s>", "<pad>"]
    characters = [c for c in string.printable if c.isprintable() and c != " "]
    pieces = dict.fromkeys([*special, "▁", "\n", *characters])
    source = random.Random(0)
    while len(pieces) < size:
        letters = "".join(source.choices(string.ascii_lowercase, k=source.randint(2, 12)))
        pieces["▁" + letters if source.random() < 0.5 else letters] = None
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    made.decoder = decoders.Metaspace(prepend_scheme="never")
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
