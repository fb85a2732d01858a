"""What a forward pass of a GGUF model costs on this CPU, and what its dtype changes.

    python docs/explanation/cpu_cost.py MODEL.gguf [TEXTS.jsonl.xz]

Prints milliseconds for a pass by dtype, threads and new tokens and, where texts are given (a JSON
object with ``text`` a line), the mean KL divergence from float32, in nats a token: of bfloat16, of
int8 weights, and of int8 weights and activations. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import copy
import json
import lzma
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from disciple_ext.follower.gguf.load import load_gguf

TOKENS = (4, 32, 128)
REPEATS = 7
TEXTS, LENGTH = 7, 256


class Int8(torch.nn.Module):
    """A linear layer with int8 weights, one scale an output; activations likewise, or as they are.

    Activations have one scale a token: with one for the batch, a token's numbers would depend on
    what else is in it.
    """

    def __init__(self, layer: torch.nn.Linear, activations: bool) -> None:
        super().__init__()
        weights = layer.weight.data.float()
        self.scale = weights.abs().amax(1) / 127
        self.weights = (weights / self.scale[:, None]).round().to(torch.int8).t()
        self.activations = activations

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's outputs, float32."""
        flat = x.reshape(-1, x.shape[-1]).float()
        if self.activations:
            of_token = flat.abs().amax(1, keepdim=True) / 127
            whole = torch._int_mm((flat / of_token).round().to(torch.int8), self.weights)
            out = whole.float() * of_token * self.scale
        else:
            out = flat @ (self.weights.float() * self.scale)
        return out.reshape(*x.shape[:-1], -1)


def in_int8(model: Any, activations: bool) -> Any:
    """A copy of a model with its linear layers in int8."""
    made = copy.deepcopy(model)
    for name, layer in list(made.named_modules()):
        if isinstance(layer, torch.nn.Linear):
            parent, _, last = name.rpartition(".")
            setattr(made.get_submodule(parent), last, Int8(layer, activations))
    return made


def milliseconds(model: Any, tokens: int) -> float:
    """The median of some passes over new tokens, without a cache."""
    ids = torch.arange(100, 100 + tokens)[:, None]
    times = []
    with torch.inference_mode():
        for _ in range(REPEATS + 1):
            begun = time.perf_counter()
            model(input_ids=ids, use_cache=False)
            times.append(time.perf_counter() - begun)
    return statistics.median(times[1:]) * 1e3  # the first one prepares what the others use


def divergence(logs: Callable[[Any], list[torch.Tensor]], right: Sequence[Any], model: Any) -> str:
    """Mean KL divergence, and the share of tokens whose likeliest successor is the same."""
    pairs = list(zip(right, logs(model), strict=True))
    nats = torch.cat([(p.exp() * (p - q)).sum(-1) for p, q in pairs])
    same = torch.cat([p.argmax(-1) == q.argmax(-1) for p, q in pairs]).double()
    return f"{nats.mean():.4f} nats a token; the likeliest token is the same in {same.mean():.1%}"


def main(path: str, texts: str | None = None) -> None:
    """Measure."""
    most = torch.get_num_threads()
    model, tokenizer = load_gguf(path, dtype="float32")
    narrow = copy.deepcopy(model).bfloat16()
    for dtype, made in (("float32", model), ("bfloat16", narrow)):
        for threads in sorted({1, most}):
            torch.set_num_threads(threads)
            found = ", ".join(f"{n}: {milliseconds(made, n):.1f}" for n in TOKENS)
            print(f"{dtype}, {threads} threads, ms by new tokens: {found}", flush=True)
    if texts is None:
        return
    with lzma.open(texts, "rt", encoding="utf-8") as file:
        lines = [json.loads(line)["text"] for line in file]
    some = [tokenizer.encode(text)[:LENGTH] for text in lines[:: len(lines) // TEXTS][:TEXTS]]

    def logs(made: Any) -> list[torch.Tensor]:
        with torch.inference_mode():
            return [
                made(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
                for ids in some
            ]

    right = logs(model)
    print("bfloat16:", divergence(logs, right, narrow))
    print("int8 weights:", divergence(logs, right, in_int8(model, activations=False)))
    print(
        "int8 weights and activations:", divergence(logs, right, in_int8(model, activations=True))
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
