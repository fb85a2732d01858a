"""What a user says of how a model is loaded: the dtype of its numbers, and where it lies."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import FollowerError, UsageError

__all__ = ["default_device", "device_named", "dtype_named"]

_DTYPES = ("float32", "bfloat16", "float16")


def dtype_named(name: Any) -> torch.dtype:
    """The dtype of a name.

    Args:
        name: ``float32``, ``bfloat16`` or ``float16``.

    Raises:
        UsageError: it is none of these.
    """
    if name not in _DTYPES:
        raise UsageError(f"{name!r} is no dtype of a follower; take {', '.join(_DTYPES)}")
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def default_device() -> torch.device:
    """CUDA where there is a device, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_named(name: Any) -> torch.device:
    """A device of this machine.

    Args:
        name: as torch names it (``cpu``, ``cuda:1``, ``mps``), or the number of a CUDA device.

    Raises:
        UsageError: torch knows no such device.
        FollowerError: it is not here, or this torch is built without it.
    """
    try:
        device = torch.device(f"cuda:{name}" if isinstance(name, int) else name)
    except (RuntimeError, TypeError) as error:
        raise UsageError(
            f"{name!r} is no device; take cpu, cuda, cuda:1 or another that torch names"
        ) from error
    try:
        torch.empty(0, device=device)
    except Exception as error:  # AssertionError, RuntimeError, NotImplementedError: by backend
        raise FollowerError(
            f"the device {str(device)!r} cannot be used: {str(error).splitlines()[0]}. "
            "'disciple doctor' shows what there is"
        ) from error
    return device
