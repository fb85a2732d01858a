"""Muon in float32.

``torch.optim.Muon`` orthogonalises in bfloat16, which has no fast path on plain AVX2 machines;
this one does the same in float32 and takes all matrices of one shape together.
"""

# Torch may be unseen by the type checker: its classes and decorators are then untyped.
# mypy: disable-error-code="misc,untyped-decorator,override"

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import torch
from torch import Tensor


def orthogonalise(g: Tensor, steps: int = 5) -> Tensor:
    """Newton-Schulz iteration towards the nearest orthogonal matrices of a batch."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.shape[-2] > g.shape[-1]
    x = g.mT if tall else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        xx = x @ x.mT
        x = a * x + (b * xx + c * (xx @ xx)) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised, for the two-dimensional hidden weights."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
    ) -> None:
        """Keep the settings."""
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Take one step."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is None:
                    continue
                buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                by_shape[p.shape].append((p, p.grad.lerp(buffer, group["momentum"])))
            for shape, pairs in by_shape.items():
                scale = max(1.0, shape[0] / shape[1]) ** 0.5
                updates = orthogonalise(torch.stack([u for _, u in pairs]))
                for (p, _), update in zip(pairs, updates, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(update, alpha=-group["lr"] * scale)
