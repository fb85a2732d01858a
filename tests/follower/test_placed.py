"""Models whose weights are packed, or spread over devices: where and in what they compute."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from disciple_ext.follower.engine.kv import KVBackend, PlainBackend
from disciple_ext.follower.engine.placed import computes_in, device_of
from disciple_ext.protocol.prefix import Prefix

V = 40


def llama() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=V,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    model = LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(4.0)
    return model


class PackedEmbedding(torch.nn.Module):
    """Rows of 8-bit numbers and a scale each, as quantised checkpoints have them."""

    def __init__(self, plain: torch.Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        scale = plain.abs().amax(1, keepdim=True) / 127
        packed = (plain / scale).round().to(torch.int8)
        self.weight = torch.nn.Parameter(packed, requires_grad=False)
        self.register_buffer("scale", scale.to(dtype))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scale: torch.Tensor = self.scale
        return self.weight[ids].to(scale.dtype) * scale[ids]


# Chains of shared beginnings, some of them extended, as a population asks for them.
CONTEXTS = [
    Prefix.of([2, *range(3, 3 + n), *tail])
    for n, tail in ((3, ()), (20, ()), (20, (5,)), (20, (6, 7)), (31, ()))
]


@torch.inference_mode()
def plain(model: Any, contexts: list[Prefix]) -> torch.Tensor:
    rows = [model(torch.tensor([c.tokens]), use_cache=False).logits[0, -1] for c in contexts]
    return torch.stack(rows).float().log_softmax(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", [KVBackend, PlainBackend])
def test_packed_first_weights_do_not_tell_the_dtype(make: Any, dtype: torch.dtype) -> None:
    model = llama().to(dtype)
    model.set_input_embeddings(PackedEmbedding(model.get_input_embeddings().weight, dtype))
    assert next(model.parameters()).dtype == torch.int8
    assert computes_in(model) == dtype
    backend = make(model)
    atol = 1e-4 if dtype == torch.float32 else 0.3
    for contexts in (CONTEXTS, [c.then(9) for c in CONTEXTS]):
        rows = asyncio.run(backend.logits(contexts)).log_softmax(-1)
        torch.testing.assert_close(rows, plain(model, contexts), atol=atol, rtol=0)


def test_8_bit_floats_are_no_dtype_to_compute_in() -> None:
    model = llama().to(torch.bfloat16)
    embeddings = model.get_input_embeddings()
    embeddings.weight = torch.nn.Parameter(
        embeddings.weight.to(torch.float8_e4m3fn), requires_grad=False
    )
    assert computes_in(model) == torch.bfloat16


@pytest.mark.parametrize(
    ("spread", "device"),
    [
        ({"": "cpu"}, "cpu"),
        ({"a": "cpu", "b": "disk"}, "cpu"),
        ({"a": "disk", "b": torch.device("meta"), "c": "cpu"}, "meta"),
    ],
)
def test_token_ids_go_where_weights_stay(spread: dict[str, Any], device: str) -> None:
    model = llama()
    model.hf_device_map = spread
    assert device_of(model) == torch.device(device)


def on(device: str) -> Any:
    """What accelerate's hook does before a module: its input goes to its device."""

    def moved(what: Any) -> Any:
        if isinstance(what, torch.Tensor):
            return what.to(device)
        return type(what)(map(moved, what)) if isinstance(what, tuple | list) else what

    return lambda _, args, named: (moved(args), {k: moved(v) for k, v in named.items()})


def test_layers_on_several_devices_each_find_keys_and_masks_on_their_own() -> None:
    """The second device is "meta": it refuses other devices' tensors, and computes nothing."""
    model = llama()
    model.hf_device_map = {"model.embed_tokens": "cpu", "lm_head": "cpu"}
    for part in (model.model.layers[1], model.model.norm, model.lm_head):
        part.to("meta").register_forward_pre_hook(on("meta"), with_kwargs=True)

    def back(_: Any, __: Any, output: Any) -> Any:  # as the hook of the whole model does
        assert output.logits.device.type == "meta"
        output.logits = torch.zeros(output.logits.shape)
        return output

    model.register_forward_hook(back)
    backend = KVBackend(model)
    assert backend.device == torch.device("cpu")
    for contexts in (
        CONTEXTS,
        [c.then(9) for c in reversed(CONTEXTS)],  # slots in another order
        [CONTEXTS[1].then(k) for k in range(10, 16)],  # rows under one trunk and under none
        [CONTEXTS[0].then(11), *(c.extend((9, 8, 7)) for c in CONTEXTS)],
    ):
        rows = asyncio.run(backend.logits(contexts))
        assert rows.device == torch.device("cpu") and rows.shape == (len(contexts), V)
    scores = asyncio.run(backend.score([(c, (4, 5, 6)) for c in CONTEXTS]))
    assert [s.shape for s in scores] == [(3, V)] * len(CONTEXTS)
    cache = backend._store.cache
    assert [t.device.type for t in cache.keys] == ["cpu", "meta"]
    assert [t.device.type for t in cache.values] == ["cpu", "meta"]


def test_offloaded_weights_are_fetched_for_each_layer(tmp_path: Path) -> None:
    from accelerate import dispatch_model

    wanted = plain(llama(), CONTEXTS)
    spread = {
        "model.embed_tokens": "disk",
        "model.layers.0": "cpu",
        "model.layers.1": "disk",
        "model.norm": "cpu",
        "model.rotary_emb": "cpu",
        "lm_head": "cpu",
    }
    model = dispatch_model(llama(), spread, offload_dir=str(tmp_path))
    assert next(model.parameters()).device.type == "meta"
    backend = KVBackend(model)
    assert backend.device == torch.device("cpu") and backend.dtype == torch.float32
    rows = asyncio.run(backend.logits(CONTEXTS)).log_softmax(-1)
    torch.testing.assert_close(rows, wanted, atol=1e-4, rtol=0)
