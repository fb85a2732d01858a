"""Checkpoints whose weights are packed: what they were packed with, and why one cannot be loaded.

transformers reads them by the ``quantization_config`` in config.json, each with a package of its
own. The packed numbers must stay what they are: such a model is neither cast nor moved.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ..errors import FollowerError, UsageError

__all__ = ["cannot_load", "need_known", "need_own_dtype", "packed_with", "quieten"]

_PACKAGES = {
    "aqlm": "accelerate 'aqlm[cpu,gpu]'",
    "auto-round": "'auto-round>=0.5'",
    "awq": "gptqmodel accelerate",
    "bitnet": "accelerate",
    "bitsandbytes": "bitsandbytes accelerate",
    "compressed-tensors": "compressed-tensors",
    "eetq": "kernels accelerate",
    "fbgemm_fp8": "fbgemm-gpu accelerate",
    "fp8": "accelerate kernels",
    "gptq": "gptqmodel optimum",
    "hqq": "hqq accelerate",
    "mxfp4": "kernels accelerate",
    "quanto": "optimum-quanto accelerate",
    "quark": "amd-quark accelerate",
    "torchao": "torchao",
    "vptq": "vptq accelerate",
}
"""What pip installs for each method that transformers 5 knows and people publish."""


def packed_with(config: Any) -> str | None:
    """The method that a model's weights were quantised with, or None where they are plain.

    Args:
        config: the model's ``PreTrainedConfig``.
    """
    found = getattr(config, "quantization_config", None)
    if found is None:
        found = getattr(config.get_text_config(), "quantization_config", None)
    if found is None:
        return None
    if not isinstance(found, Mapping):
        found = found.to_dict()
    # Old files of bitsandbytes name the bits and no method.
    method = found.get("quant_method") or "bitsandbytes"
    return str(getattr(method, "value", method))


def need_known(path: str, method: str) -> None:
    """Refuse a method that the installed transformers does not know.

    It would only warn, and take the packed numbers for plain weights.

    Raises:
        FollowerError: it is unknown.
    """
    from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING

    known = {name.removesuffix("_4bit").removesuffix("_8bit") for name in AUTO_QUANTIZER_MAPPING}
    if method not in known:
        raise FollowerError(
            f"the weights of {path!r} are quantised with {method!r}, which the installed "
            f"transformers does not know (it knows {', '.join(sorted(known))}); update "
            "transformers, or take another file of the model"
        )


def need_own_dtype(path: str, method: str, dtype: str | None) -> None:
    """Refuse a dtype: transformers would give it to some of the tensors only.

    Raises:
        UsageError: one is named.
    """
    if dtype not in (None, "auto"):
        raise UsageError(
            f"the weights of {path!r} are quantised with {method!r} and keep their own numbers: "
            f"leave dtype={dtype} out, or take the model's plain weights"
        )


def quieten(method: str) -> None:
    """Have bitsandbytes not say in every product of every forward that it casts its inputs."""
    logger = logging.getLogger("bitsandbytes")
    if method == "bitsandbytes" and logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)


def cannot_load(path: str, method: str, device: str, error: Exception) -> FollowerError:
    """What to tell where transformers could not load a quantised model.

    Args:
        path: the model's.
        method: what :func:`packed_with` gave.
        device: what it was to be loaded to, for the message.
        error: what was raised.
    """
    reason = f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[0]}"
    what = f"the model {path!r}, quantised with {method!r}, cannot be loaded"
    if isinstance(error, ImportError):
        packages = _PACKAGES.get(method, method)
        return FollowerError(
            f"{what}: a package is missing or too old ({reason}). Install what it needs: "
            f"pip install {packages}"
        )
    return FollowerError(
        f"{what} on {device!r}: {reason}. Some methods need a GPU, or the whole model on it: try "
        "device_map=auto or another device; or take the model's plain weights, or a GGUF file"
    )
