"""Where a loaded model computes, and in which numbers, however its weights are packed or spread."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["computes_in", "device_of"]

_PLAIN = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def device_of(model: Any) -> torch.device:
    """The device that token ids go to, and that logits come back on.

    A model that ``device_map`` spread has hooks (accelerate's), which bring each layer's input to
    its device, and the logits to where the token ids were. Weights that were offloaded to the CPU
    or the disk lie on no device at all ("meta") until their layer is asked.
    """
    spread = getattr(model, "hf_device_map", None)
    if spread:
        # As accelerate chooses it: a device that weights stay on, else the CPU.
        stays = [place for place in spread.values() if str(place) not in ("cpu", "disk")]
        # Of a tensor, since tensors name the number of their device ("cuda:0"), people need not.
        return torch.empty(0, device=stays[0] if stays else "cpu").device
    device: torch.device = next(model.parameters()).device
    return device


def computes_in(model: Any) -> torch.dtype:
    """The dtype of a model's activations, and so of its keys, values and masks.

    Not that of its first weights: packed ones are int8 or uint8, and 8-bit floats are no numbers
    that anything is computed in. Embeddings give the activations their dtype; where they are
    packed, too, norms and biases have it, which no quantisation packs.
    """
    embeddings = model.get_input_embeddings()
    for holder in (embeddings, model):
        for parameter in holder.parameters() if holder is not None else ():
            if parameter.dtype in _PLAIN:
                dtype: torch.dtype = parameter.dtype
                return dtype
    return torch.get_default_dtype()
