"""Attention of many texts that share their beginnings.

The keys of a shared beginning (a *trunk*) lie in memory once, and all texts under it attend to
them by one matrix product a head; each text's own tokens lie in its slot. One softmax over both
joins the two, so that the result is that of plain attention.

The sums are wide where the model is narrow: rounded to bfloat16, they would depend on where a text
is cut into trunk and slot, and a seed would give another text after another run.

A forward takes all new tokens in one row, whichever text they belong to: the linear layers, which
are nearly all of the work, do not care. Here they are parted again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedConfig

from .caches import Part, SlotCache

__all__ = ["NAME", "SCORES", "attending", "attending_to_stems"]

NAME = "disciple_trunks"
STEMS = "disciple_stems"
SCORES = 2**24
"""Scores held at a time, where texts add several tokens each."""
_WIDENED = 2**19
"""Keys that are made wider at a time."""

_cache: ContextVar[SlotCache] = ContextVar("disciple_slot_cache")


@contextmanager
def attending(cache: SlotCache, config: PreTrainedConfig) -> Iterator[None]:
    """Let a model attend to slots and trunks; everybody else finds it as it was."""
    token = _cache.set(cache)
    try:
        with _implemented(config, NAME):
            yield
    finally:
        _cache.reset(token)


@contextmanager
def attending_to_stems(
    config: PreTrainedConfig, device: torch.device, dtype: torch.dtype
) -> Iterator[None]:
    """Let a model attend to beginnings in wide sums, where its own attention has narrow ones.

    Elsewhere it attends in its usual way: a GPU has quicker kernels for long prompts.
    """
    if device.type != "cpu" or dtype.itemsize >= 4:
        yield
        return
    with _implemented(config, STEMS):
        yield


@contextmanager
def _implemented(config: PreTrainedConfig, name: str) -> Iterator[None]:
    # Only meanwhile: the model is the caller's.
    usual = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = usual


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Queries (1, heads, tokens, size) to outputs (1, tokens, heads, size)."""
    _need_plain(options)
    cache, layer = _cache.get(), module.layer_idx
    assert cache.plan is not None
    parts = cache.plan.on(query.device).parts
    sums = _wide(query)
    tokens = _widened(query[0].transpose(0, 1), sums)
    tokens = tokens * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    # Zeros for padding, which nobody reads, but which must be numbers.
    out = tokens.new_zeros((*tokens.shape[:2], cache.values[layer].shape[-1]))
    for part in parts:
        keys = cache.keys[layer][part.read, :, : part.length]
        values = cache.values[layer][part.read, :, : part.length]
        some = tokens[part.tokens]
        if part.seats is None:
            out[part.tokens] = _attend_part(part, layer, some[:, :, None], keys, values)[:, :, 0]
        else:
            seat, column = part.seats
            q = some.new_zeros((len(keys), some.shape[1], part.width, some.shape[2]))
            q[seat, :, column] = some
            out[part.tokens] = _attend_part(part, layer, q, keys, values)[seat, :, column]
    return out[None].to(query.dtype), None


def _attend_part(
    part: Part, layer: int, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    """Queries and keys (slots, heads, new or all tokens, size) to outputs like the queries."""
    slots, heads, new, size = query.shape
    kv_heads = keys.shape[1]
    # The query heads that share a key head are more queries to it.
    q = query.reshape(slots, kv_heads, -1, size)
    trunk = max((g.length for g in part.groups), default=0)
    scores = _by_slot(q, keys, transposed=True)
    if part.mask is not None:
        scores += part.mask.repeat(1, 1, heads // kv_heads, 1)
    if trunk:
        if len(part.groups) > 1 or part.groups[0].seats is not None:
            # Texts under a shorter trunk, or under none, see nothing of the rest.
            low = torch.finfo(scores.dtype).min / 2
            of_trunks = scores.new_full((*scores.shape[:3], trunk), low)
        for g in part.groups:
            some = q if g.seats is None else q[g.seats]
            flat = some.transpose(0, 1).reshape(kv_heads, -1, size)
            seen = torch.matmul(
                flat, _widened(g.keys[layer][:, : g.length], q.dtype).transpose(1, 2)
            )
            seen = seen.view(kv_heads, len(some), -1, g.length).transpose(0, 1)
            if g.seats is None:
                of_trunks = seen
            else:
                of_trunks[g.seats, :, :, : g.length] = seen
        scores = torch.cat((of_trunks, scores), -1)
    p = _softmax(scores)
    out = _by_slot(p[..., trunk:], values)
    for g in part.groups:
        some = p[..., : g.length] if g.seats is None else p[g.seats, :, :, : g.length]
        flat = some.transpose(0, 1).reshape(kv_heads, -1, g.length)
        seen = torch.matmul(flat, _widened(g.values[layer][:, : g.length], q.dtype))
        seen = seen.view(kv_heads, len(some), -1, values.shape[3]).transpose(0, 1)
        if g.seats is None:
            out += seen
        else:
            out[g.seats[: g.count]] += seen[: g.count]
    return out.view(slots, heads, new, -1)


def _attend_stems(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Plain attention of beginnings, in the numbers of the others: it makes what they attend to."""
    _need_plain(options)
    assert attention_mask is not None
    sums = _wide(query)
    rows, heads, new, size = query.shape
    kv_heads, length = key.shape[1:3]
    key, value = _widened(key, sums), _widened(value, sums)
    q = _widened(query, sums) * (size**-0.5 if scaling is None else scaling)
    q = q.reshape(rows, kv_heads, -1, new, size)
    mask = attention_mask[:, :, None]
    out = q.new_empty((*q.shape[:-1], value.shape[-1]))
    # Some queries at a time: the scores of all of a long prompt would be gigabytes.
    step = max(1, SCORES // (rows * heads * length))
    for a in range(0, new, step):
        scores = torch.matmul(q[..., a : a + step, :], key[:, :, None].transpose(3, 4))
        p = _softmax(scores + mask[..., a : a + step, :])
        out[..., a : a + step, :] = torch.matmul(p, value[:, :, None])
    return out.reshape(rows, heads, new, -1).transpose(1, 2).to(query.dtype), None


def _need_plain(options: Mapping[str, Any]) -> None:
    # These change the scores: without them the numbers would be wrong, and nobody would know.
    for name in ("softcap", "s_aux", "position_bias"):
        if options.get(name) is not None:
            raise NotImplementedError(f"attention with {name}")


def _wide(like: torch.Tensor) -> torch.dtype:
    """The dtype of the sums."""
    return torch.float64 if like.device.type == "cpu" and like.itemsize < 4 else like.dtype


def _widened(numbers: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.float64 and numbers.itemsize < 4:
        numbers = numbers.float()  # torch is many times as quick in two steps
    return numbers.to(dtype)


def _by_slot(left: torch.Tensor, stored: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
    """The product with each slot's keys or values, in the dtype of ``left``."""
    # Some slots at a time: wide copies of long texts would not stay in the processor's cache.
    step = len(stored)
    if left.dtype != stored.dtype:
        step = max(1, _WIDENED // stored[0].numel())
    out = []
    for a in range(0, len(stored), step):
        right = _widened(stored[a : a + step], left.dtype)
        out.append(left[a : a + step] @ (right.transpose(2, 3) if transposed else right))
    return out[0] if len(out) == 1 else torch.cat(out)


def _softmax(scores: torch.Tensor) -> torch.Tensor:
    # In float32 at least, as transformers' own attention does it.
    least = torch.promote_types(scores.dtype, torch.float32)
    return torch.softmax(scores, -1, dtype=least).to(scores.dtype)


AttentionInterface.register(NAME, _attend)
AttentionInterface.register(STEMS, _attend_stems)
