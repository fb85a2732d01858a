"""What speaks against a GGUF file, found in its header before transformers reads it."""

from __future__ import annotations

from ...errors import FollowerError
from .header import Header, Tensor

__all__ = ["check", "ends_of_text"]

_CONTROL = 3  # among tokenizer.ggml.token_type
_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")
_TURN_ENDS = frozenset(
    {
        *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|endoftext|>"),
        *("<end_of_turn>", "<turn|>", "<end_of_utterance>", "<|end_of_text|>", "<EOT>", "_<EOT>"),
        *("[EOT]", "[EOS]", "<eos>", "</s>"),
    }
)
"""Tokens that end a turn by their name, as llama.cpp has them."""


def check(header: Header) -> None:
    """Check what every model needs.

    Raises:
        FollowerError: something is missing, cut off, or of a kind that cannot be read.
    """
    path = str(header.path)
    if header.text("general.architecture") is None:
        raise FollowerError(
            f"the GGUF file {path!r} names no architecture, so it is no model; give the file of "
            "a whole language model"
        )
    parts = header.number("split.count") or 1
    if parts > 1:
        raise FollowerError(
            f"{path!r} is part {(header.number('split.no') or 0) + 1} of {parts}; put them "
            "together first: llama-gguf-split --merge FIRST_PART WHOLE.gguf"
        )
    for tensor in header.tensors:
        _check_tensor(header, tensor)
    _check_tokenizer(header)


def ends_of_text(header: Header) -> set[int]:
    """Ids that end a text: those that the file names, and the ends of turns of its chat template.

    Many files name one id only, of the end of a document, which no answer in a chat ends with.
    """
    tokens = header.items("tokenizer.ggml.tokens")
    found = {header.number(f"tokenizer.ggml.{name}") for name in _ENDS}
    ends = {index for index in found if index is not None and 0 <= index < len(tokens)}
    template = header.text("tokenizer.chat_template") or ""
    kinds = header.items("tokenizer.ggml.token_type")
    for index, (token, kind) in enumerate(zip(tokens, kinds, strict=False)):
        name = token.decode("utf-8", "replace") if kind == _CONTROL else ""
        if name in _TURN_ENDS and name in template:
            ends.add(index)
    return ends


def _check_tensor(header: Header, tensor: Tensor) -> None:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    path, name = str(header.path), tensor.name
    try:
        kind = GGMLQuantizationType(tensor.kind)
        row, row_bytes = GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError):
        raise _unknown(path, name, f"number {tensor.kind}") from None
    if not _readable(tensor.kind):
        raise _unknown(path, name, kind.name)
    if tensor.elements == 0 or tensor.shape[0] % row:
        shape = " x ".join(map(str, tensor.shape))
        raise FollowerError(
            f"the GGUF file {path!r} is damaged: its tensor {name!r} has the shape {shape}, whose "
            f"rows do not divide into {kind.name}'s blocks of {row}; fetch it again"
        )
    end = tensor.start + tensor.elements // row * row_bytes
    if end > header.size:
        raise FollowerError(
            f"the GGUF file {path!r} is cut off: its tensor {name!r} ends at byte {end:,}, and the "
            f"file has {header.size:,}; fetch it again"
        )


def _readable(kind: int) -> bool:
    """Whether weights of this type can be turned into numbers."""
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

    known = _READABLE.get(kind)
    if known is None:
        quantised = GGMLQuantizationType(kind)
        try:
            # Blocks of zeros, which are no numbers in some types: only the type is of interest.
            with np.errstate(all="ignore"):
                dequantize(np.zeros((1, GGML_QUANT_SIZES[quantised][1]), np.uint8), quantised)
            known = True
        except NotImplementedError:
            known = False
        _READABLE[kind] = known
    return known


_READABLE: dict[int, bool] = {}


def _unknown(path: str, tensor: str, kind: str) -> FollowerError:
    return FollowerError(
        f"the tensor {tensor!r} of {path!r} is quantised in a way that cannot be read ({kind}); "
        "take a file in a common one (Q4_K_M, Q5_K_M, Q8_0, F16), or update: "
        "pip install --upgrade gguf"
    )


def _check_tokenizer(header: Header) -> None:
    path = str(header.path)
    kind = header.text("tokenizer.ggml.model")
    tokens = header.items("tokenizer.ggml.tokens")
    again = (
        "convert the model again with its tokenizer (convert_hf_to_gguf.py), or take another file"
    )
    if kind is None or not tokens or not isinstance(tokens[0], bytes):
        raise FollowerError(f"the GGUF file {path!r} holds no tokenizer; {again}")
    if kind == "gpt2" and not header.items("tokenizer.ggml.merges"):
        raise FollowerError(f"the tokenizer in the GGUF file {path!r} has no merges; {again}")
    scores = header.items("tokenizer.ggml.scores") or header.items("tokenizer.ggml.merges")
    if kind == "llama" and not scores:
        raise FollowerError(f"the tokenizer in the GGUF file {path!r} has no scores; {again}")
    if not ends_of_text(header):
        raise FollowerError(
            f"the GGUF file {path!r} names no end-of-text token (tokenizer.ggml.eos_token_id), so "
            f"no text of it could end; {again}"
        )
    embedded = next((t for t in header.tensors if t.name == "token_embd.weight"), None)
    if embedded is not None and len(embedded.shape) == 2 and embedded.shape[1] < len(tokens):
        raise FollowerError(
            f"the GGUF file {path!r} has {len(tokens):,} tokens and embeddings of "
            f"{embedded.shape[1]:,}: its tokenizer is another model's; {again}"
        )
