"""How large a follower's model is, and of which family."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...follower.quantised import packed_with

__all__ = ["ModelSize", "named_size", "size_of", "torch_model"]

_UNITS = {"M": 1e6, "B": 1e9, "T": 1e12}
_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([MBT])(?![a-z0-9])", re.IGNORECASE)
_FAMILY = re.compile(r"(?:meta-)?([a-z]+\d*)", re.IGNORECASE)


@dataclass(frozen=True)
class ModelSize:
    """A model's size and family.

    Attributes:
        parameters: how many numbers were learned, shared ones once; None where nobody knows.
        family: name of the architecture, such as ``llama`` or ``qwen3``; None where nobody knows.
    """

    parameters: int | None
    family: str | None


def size_of(follower: Any) -> ModelSize:
    """Size and family of a loaded follower: its model's own, else what its name says."""
    model = torch_model(follower)
    named = named_size(str(getattr(follower, "name", "")))
    if model is None:
        return named
    config = getattr(model, "config", None)
    family = getattr(config, "model_type", None) or named.family
    # Packed weights hold several numbers in one, and some methods' are no parameters at all.
    if hasattr(config, "get_text_config") and packed_with(config) is not None:
        return ModelSize(named.parameters, family)
    # torch gives a tensor that two layers share (tied embeddings) once.
    return ModelSize(sum(p.numel() for p in model.parameters()), family)


def torch_model(follower: Any) -> Any:
    """The torch module behind a follower, or None where it shows none: toys and servers."""
    model: Any = getattr(getattr(follower, "backend", None), "model", None)
    return model if hasattr(model, "state_dict") else None


def named_size(name: str) -> ModelSize:
    """What a name such as ``hf:Qwen/Qwen3-1.7B`` says: here 1.7 thousand millions, ``qwen3``."""
    # Only the last part: a folder's name may hold a size, too.
    last = name.rstrip("/").split("/")[-1].partition(":")[2] or name.rstrip("/").split("/")[-1]
    found = _SIZE.search(last)
    if found is None:
        return ModelSize(None, None)
    family = _FAMILY.match(last)
    parameters = round(float(found[1]) * _UNITS[found[2].upper()])
    return ModelSize(parameters, family[1].lower() if family else None)
