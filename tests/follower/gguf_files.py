"""Small GGUF files, written by gguf itself: random weights, and a tokenizer of bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind

HIDDEN, HEADS, KV_HEADS, FEED_FORWARD, LAYERS = 64, 4, 2, 96, 2
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PIECES = [
    *("<unk>", "<s>", "</s>"),
    *(f"<0x{byte:02X}>" for byte in range(256)),
    *("▁", "t", "h", "e", "a", "n", "▁t", "he", "▁the", "an", "▁a", "▁an"),
]
ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma2")


def head(architecture: str) -> int:
    """Numbers of a head: what transformers takes for Qwen3 whatever the file says."""
    return 128 if architecture == "qwen3" else HIDDEN // HEADS


def letters() -> list[str]:
    """How GPT-2 spells each byte."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(b) if b in shown else chr(256 + hidden.index(b)) for b in range(256)]


def tokens() -> tuple[list[str], list[str]]:
    """The tokens, and the merges that make those of several letters."""
    merges = ["t h", "th e", "Ġ the", "i n", "a n", "an d", "Ġ a"]
    return [*CONTROLS, *letters(), *(merge.replace(" ", "") for merge in merges)], merges


def write(
    path: Path,
    architecture: str = "llama",
    *,
    kind: Kind = Kind.F32,
    tokenizer: bool = True,
    pieces: bool = False,
    seed: int = 0,
    leave_out: tuple[str, ...] = (),
    shapes: dict[str, tuple[int, ...]] | None = None,
    **fields: Any,
) -> Path:
    """Write a model.

    Args:
        path: the file.
        architecture: its name in GGUF.
        kind: how matrices are stored.
        tokenizer: whether there is one.
        pieces: whether it is one of SentencePiece's, as Llama 2 has.
        seed: of the weights.
        leave_out: tensors that are missing.
        shapes: of tensors that are not as they should be.
        **fields: fields of the tokenizer that replace those written here; None leaves one out.
    """
    writer = gguf.GGUFWriter(path, architecture)
    words, merges = (PIECES, []) if pieces else tokens()
    writer.add_name("tiny")
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(head(architecture))
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(words))
    if pieces:
        _write_pieces(writer)
    elif tokenizer:
        _write_tokenizer(writer, words, merges, fields)
    generator = np.random.default_rng(seed)
    for name, shape in tensors(architecture, len(words)).items():
        if name in leave_out:
            continue
        shape = (shapes or {}).get(name, shape)
        scale = 0.3 if len(shape) > 1 else 0.1
        weights = generator.normal(len(shape) == 1, scale, shape).astype(np.float32)
        stored = kind if len(shape) > 1 else Kind.F32
        writer.add_tensor(name, gguf.quantize(weights, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_tokenizer(
    writer: gguf.GGUFWriter, words: list[str], merges: list[str], fields: dict[str, Any]
) -> None:
    kinds = [gguf.TokenType.CONTROL] * len(CONTROLS) + [gguf.TokenType.NORMAL] * len(words)
    given = {
        "model": "gpt2",
        "merges": merges,
        "eos": words.index("<|im_end|>"),
        "template": TEMPLATE,
        **fields,
    }
    writer.add_tokenizer_model(given["model"])
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words)
    writer.add_token_types(kinds[: len(words)])
    writer.add_bos_token_id(words.index("<|im_start|>"))
    if given["merges"] is not None:
        writer.add_token_merges(given["merges"])
    if given["eos"] is not None:
        writer.add_eos_token_id(given["eos"])
    if given["template"] is not None:
        writer.add_chat_template(given["template"])


def _write_pieces(writer: gguf.GGUFWriter) -> None:
    kind = gguf.TokenType
    first = PIECES.index("▁")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(PIECES)
    writer.add_token_scores([-float(max(0, index - first)) for index in range(len(PIECES))])
    normal = [kind.NORMAL] * (len(PIECES) - first)
    writer.add_token_types([kind.UNKNOWN, *[kind.CONTROL] * 2, *[kind.BYTE] * 256, *normal])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def tensors(architecture: str, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes (rows first) of a model's tensors; its output shares the embeddings."""
    found: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (vocabulary, HIDDEN),
        "output_norm.weight": (HIDDEN,),
    }
    size = head(architecture)
    for layer in range(LAYERS):
        block = {
            "attn_norm": (HIDDEN,),
            "ffn_norm": (HIDDEN,),
            "attn_q": (HEADS * size, HIDDEN),
            "attn_k": (KV_HEADS * size, HIDDEN),
            "attn_v": (KV_HEADS * size, HIDDEN),
            "attn_output": (HIDDEN, HEADS * size),
            "ffn_gate": (FEED_FORWARD, HIDDEN),
            "ffn_up": (FEED_FORWARD, HIDDEN),
            "ffn_down": (HIDDEN, FEED_FORWARD),
        }
        if architecture == "qwen3":
            block |= {"attn_q_norm": (size,), "attn_k_norm": (size,)}
        if architecture == "gemma2":
            block |= {"post_attention_norm": (HIDDEN,), "post_ffw_norm": (HIDDEN,)}
        found |= {f"blk.{layer}.{name}.weight": shape for name, shape in block.items()}
        if architecture == "qwen2":
            heads = {"attn_q": HEADS, "attn_k": KV_HEADS, "attn_v": KV_HEADS}
            found |= {f"blk.{layer}.{name}.bias": (n * size,) for name, n in heads.items()}
    return found
