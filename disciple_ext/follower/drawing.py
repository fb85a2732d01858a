"""Masked mass and drawing, vectorised over a batch of logits, on whatever device they are.

Sums of probabilities are taken in float64: a mass may be as small as 1e-30, and its log goes
into a weight.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch

from ..model.vocabulary import TokenMask

__all__ = ["MaskCache", "draw", "log_mass", "log_prob"]

_BLOCK = 256


class MaskCache:
    """Masks as tensors on the logits' device, the most recently used ones kept."""

    def __init__(self, size: int = 512) -> None:
        self._size = size
        self._tensors: OrderedDict[TokenMask, torch.Tensor] = OrderedDict()

    def stack(self, masks: Sequence[TokenMask | None], like: torch.Tensor) -> torch.Tensor | None:
        """Booleans of shape (rows, vocabulary), or None where no row has a mask."""
        if all(mask is None for mask in masks):
            return None
        return torch.stack([self._tensor(mask, like) for mask in masks])

    def _tensor(self, mask: TokenMask | None, like: torch.Tensor) -> torch.Tensor:
        if mask is None:
            return torch.ones(like.shape[-1], dtype=torch.bool, device=like.device)
        found = self._tensors.get(mask)
        if found is None or found.device != like.device:
            # torch warns on read-only arrays; the copy also takes the mask to the device
            found = torch.from_numpy(mask.array.copy()).to(like.device)
            self._tensors[mask] = found
            if len(self._tensors) > self._size:
                self._tensors.popitem(last=False)
        self._tensors.move_to_end(mask)
        return found


def log_prob(logprobs: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    """Log-probability of one token a row: (rows, V) and ids (rows,), -1 for none; float64."""
    return logprobs.gather(-1, token.clamp(min=0)[:, None])[:, 0].double()


def log_mass(logprobs: torch.Tensor, masks: torch.Tensor | None) -> torch.Tensor:
    """Log of the mass of each row's mask, float64, shape (rows,); 0 where there is none."""
    if masks is None:
        return torch.zeros(logprobs.shape[0], dtype=torch.float64, device=logprobs.device)
    return _sum_up(logprobs, masks)[2].clamp(max=0.0)


def draw(
    logprobs: torch.Tensor, masks: torch.Tensor | None, u: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw one token a row by inverse CDF within its mask.

    Args:
        logprobs: normalised, float32, shape (rows, V).
        masks: booleans, shape (rows, V), or None.
        u: uniforms in [0, 1), float64, shape (rows,).

    Returns:
        The tokens (-1 where the mask leaves nothing), their log-probabilities without the mask,
        and the log masses of the masks; float64, shape (rows,) each.
    """
    weights, top, mass = _sum_up(logprobs, masks)
    rows, size = weights.shape
    blocks = -(-size // _BLOCK)
    padded = torch.nn.functional.pad(weights, (0, blocks * _BLOCK - size)).view(rows, blocks, -1)
    sums = padded.sum(-1)
    cdf = sums.cumsum(-1)
    target = u * cdf[:, -1]
    # First block whose cumulative sum exceeds the target; zero-mass blocks never do first.
    block = (cdf <= target[:, None]).sum(-1).clamp(max=blocks - 1)
    picked = torch.arange(rows, device=logprobs.device)
    before = cdf[picked, block] - sums[picked, block]
    inner = padded[picked, block].cumsum(-1)
    rest = (target - before).clamp(min=0.0)
    offset = (inner <= rest[:, None]).sum(-1).clamp(max=_BLOCK - 1)
    token = block * _BLOCK + offset
    # Rounding may step onto a token of no weight: take the nearest one before it that has some.
    wrong = weights.gather(-1, token.clamp(max=size - 1)[:, None])[:, 0] <= 0
    if bool(wrong.any()):
        token = torch.where(wrong, _last_positive(weights, token), token)
    token = torch.where(top.isfinite(), token, -1)
    return token, log_prob(logprobs, token), mass.clamp(max=0.0)


def _last_positive(weights: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    ids = torch.arange(weights.shape[-1], device=weights.device)
    allowed = weights > 0
    before = torch.where(allowed & (ids <= token[:, None]), ids, -1).amax(-1)
    first = allowed.int().argmax(-1)
    return torch.where(before >= 0, before, first)


def _sum_up(
    logprobs: torch.Tensor, masks: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Weights relative to each row's largest allowed one, its log, and the log of their sum."""
    masked = logprobs if masks is None else logprobs.masked_fill(~masks, -torch.inf)
    top = masked.amax(-1)
    # Relative to the largest one, so that a tiny mass does not underflow.
    safe = torch.where(top.isfinite(), top, 0.0)
    weights = torch.exp(masked - safe[:, None]).double()
    return weights, top, weights.sum(-1).log() + safe.double()
