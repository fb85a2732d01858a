"""What an evaluation was made with: versions, weights, data, settings."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from ...errors import EvaluationError
from ...protocol.measure import PLAIN
from .model_size import torch_model

__all__ = ["data_hash", "mismatch", "versions", "weights_hash"]

_PACKAGES = ("disciple-ext", "llamppl", "genlm-backend", "torch", "transformers", "tokenizers")

FIXED = (
    *("n", "seed", "timeout", "planner", "examples", "follower", "weights", "data"),
    *("measure", "equal_tokens"),
)
"""Settings that one log cannot mix: rows under two of them have no common mean.

The suite adds its own, which ``run.json`` names as ``settings``."""


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that make the texts."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def weights_hash(follower: Any) -> str | None:
    """SHA-256 of a follower's parameters (names, types, values); None where it shows none."""
    model = torch_model(follower)
    if model is None:
        return None
    import torch

    digest = hashlib.sha256()
    # Sorted: the hash must not depend on the order in which a loader registers parameters.
    for name, tensor in _tensors(sorted(model.state_dict().items())):
        if tensor.device.type == "meta":  # offloaded: nothing of it is here to be read
            return None
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # As bytes, because numpy has no bfloat16.
        data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        digest.update(memoryview(data.numpy()))
    return digest.hexdigest()


def _tensors(named: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Plain tensors: those that a quantised one is made of in its place (torchao's, say)."""
    for name, tensor in named:
        if hasattr(tensor, "__tensor_flatten__"):
            parts, _ = tensor.__tensor_flatten__()
            yield from _tensors((f"{name}.{part}", getattr(tensor, part)) for part in parts)
        elif hasattr(tensor, "dtype"):
            yield name, tensor


def data_hash(instances: Any) -> str:
    """SHA-256 of the instances, whatever part of them is run."""
    digest = hashlib.sha256()
    for instance in instances:
        # Not the examples: no run sees them.
        digest.update(f"{instance.id}\n{instance.prompt}\n{instance.targets!r}\n".encode())
    return digest.hexdigest()


def mismatch(before: Mapping[str, Any], now: Mapping[str, Any], place: Path) -> None:
    """Refuse to go on with a log that was made under other settings.

    Raises:
        EvaluationError: settings that one log cannot mix differ; the message names them.
    """
    # Logs of before there was a choice were made by the model as it is.
    plain = {"measure": PLAIN.to_dict()}
    before, now = {**plain, **before}, {**plain, **now}
    wrong = [
        f"{name} was {before.get(name)!r}, and is {now.get(name)!r}"
        for name in (*FIXED, *now.get("settings", ()))
        if before.get(name) != now.get(name)
    ]
    if wrong:
        raise EvaluationError(
            f"the log in {place} was made otherwise: {'; '.join(wrong)}. Use the same settings, "
            "or another directory"
        )
