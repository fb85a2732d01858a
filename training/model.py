"""A small, fast Llama whose parameter names are those of Hugging Face's ``LlamaForCausalLM``."""

# Torch may be unseen by the type checker: its classes and decorators are then untyped.
# mypy: disable-error-code="misc,no-any-return"

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """Sizes of the model."""

    vocabulary: int = 8192
    width: int = 256
    layers: int = 6
    heads: int = 8
    inner: int = 704
    context: int = 1024
    rope_theta: float = 10000.0

    def hf_config(self) -> dict[str, object]:
        """Return the same sizes under the names of ``LlamaConfig``."""
        sizes = asdict(self)
        return {
            "vocab_size": sizes["vocabulary"],
            "hidden_size": sizes["width"],
            "num_hidden_layers": sizes["layers"],
            "num_attention_heads": sizes["heads"],
            "num_key_value_heads": sizes["heads"],
            "intermediate_size": sizes["inner"],
            "max_position_embeddings": sizes["context"],
            "rope_theta": sizes["rope_theta"],
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True,
            "hidden_act": "silu",
        }


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self, width: int) -> None:
        """Start as the identity scale."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Scale to unit root mean square, then by the weight."""
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    """Self-attention with rotary positions; the three projections run as one product."""

    def __init__(self, shape: Shape) -> None:
        """Make the four projections."""
        super().__init__()
        self.heads = shape.heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            self.add_module(name, nn.Linear(shape.width, shape.width, bias=False))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """Attend within the mask."""
        b, t, d = x.shape
        fused = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])
        q, k, v = F.linear(x, fused).view(b, t, 3, self.heads, d // self.heads).unbind(2)
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=mask
        )
        return F.linear(out.transpose(1, 2).reshape(b, t, d), self.o_proj.weight)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + turned * sin


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        """Make the three projections."""
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the gated layer, with gate and up in one product."""
        both = F.linear(x, torch.cat([self.gate_proj.weight, self.up_proj.weight]))
        gate, up = both.chunk(2, -1)
        return F.linear(F.silu(gate) * up, self.down_proj.weight)


class Layer(nn.Module):
    """One pre-norm decoder layer."""

    def __init__(self, shape: Shape) -> None:
        """Make the two halves."""
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = FeedForward(shape)
        self.input_layernorm = Norm(shape.width)
        self.post_attention_layernorm = Norm(shape.width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """Add attention, then the feed-forward layer."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    """Embedding, layers and last norm."""

    def __init__(self, shape: Shape) -> None:
        """Make the layers; residual outputs start small so that depth starts harmless."""
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width)
        nn.init.normal_(self.embed_tokens.weight, std=0.02)
        for name, weight in self.layers.named_parameters():
            if weight.ndim == 2:
                small = "o_proj" in name or "down_proj" in name
                nn.init.normal_(weight, std=0.02 if not small else 0.02 / (2 * shape.layers) ** 0.5)

    def forward(self, ids: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """Return the normed last hidden states."""
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        out: Tensor = self.norm(x)
        return out


class Llama(nn.Module):
    """The model; ``state_dict`` has the keys of ``LlamaForCausalLM`` with tied embeddings."""

    def __init__(self, shape: Shape) -> None:
        """Make the trunk and the rotary tables."""
        super().__init__()
        self.shape = shape
        self.model = Trunk(shape)
        size = shape.width // shape.heads
        inverse = shape.rope_theta ** (-torch.arange(0, size, 2).float() / size)
        angles = torch.outer(torch.arange(shape.context).float(), inverse).repeat(1, 2)
        self.cos, self.sin = angles.cos()[:, None, :], angles.sin()[:, None, :]

    def loss(self, ids: Tensor, learnt: Tensor, bos: int) -> Tensor:
        """Return the summed cross-entropy of the learnt next tokens.

        Examples packed into one row do not see each other: each begins with ``bos``.
        """
        t = ids.shape[1] - 1
        example = (ids[:, :-1] == bos).cumsum(1)
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        same = (example[:, :, None] == example[:, None, :]) & causal
        mask = torch.zeros(same.shape).masked_fill_(~same, float("-inf"))[:, None]
        hidden = self.model(ids[:, :-1], self.cos[:t], self.sin[:t], mask)
        wanted = learnt[:, 1:].bool()
        logits = F.linear(hidden[wanted], self.model.embed_tokens.weight)
        return F.cross_entropy(logits, ids[:, 1:][wanted], reduction="sum")
