"""Attention of many texts that share their beginnings.

The keys of a shared beginning (a *trunk*) lie in memory once, and all texts under it attend to
them by one matrix product a head; each text's own tokens lie in its slot. One softmax over both
joins the parts, so that the result is that of plain attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from transformers import AttentionInterface, Cache, PreTrainedConfig

__all__ = ["NAME", "Group", "Plan", "SlotCache", "StemCache", "attending"]

NAME = "disciple_trunks"
_Where = TypeVar("_Where", torch.Tensor, torch.Tensor | None, slice | torch.Tensor)


@dataclass
class Group:
    """Rows under one trunk.

    Attributes:
        rows: their places among the plan's slots; None for all.
        count: how many of ``rows`` are real; the others repeat one of them.
        length: tokens of the trunk they attend to.
        keys: of each layer, shape (heads, tokens, size).
        values: of each layer, likewise.
    """

    rows: torch.Tensor | None
    count: int
    length: int
    keys: Sequence[torch.Tensor]
    values: Sequence[torch.Tensor]


@dataclass
class Plan:
    """Where the keys of a forward over slots go, and what its queries see.

    Attributes:
        rows: real rows of the batch; padding rows come after them.
        read: the slots attended over.
        order: each row's place among these; None where they agree.
        length: tokens attended to in each slot.
        write: (row, column, slot, position) of every new token; None where all rows have one, at
            position ``length - 1`` of their slots in order.
        mask: added to the scores within slots, (slots, 1, queries, length), or None.
        groups: the trunks.
        device: where these tensors are.
    """

    rows: int
    read: slice | torch.Tensor
    order: torch.Tensor | None
    length: int
    write: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor] | None
    mask: torch.Tensor | None
    groups: list[Group]
    device: torch.device
    _copies: dict[torch.device, Plan] = field(default_factory=dict)

    def on(self, device: torch.device) -> Plan:
        """The plan for a layer on a device: layers may be spread over several."""
        if device == self.device:
            return self
        if device not in self._copies:
            self._copies[device] = replace(
                self,
                read=_moved(self.read, device),
                order=_moved(self.order, device),
                write=None if self.write is None else tuple(t.to(device) for t in self.write),
                mask=_moved(self.mask, device),
                # Their keys and values are where their layers are.
                groups=[replace(g, rows=_moved(g.rows, device)) for g in self.groups],
                device=device,
            )
        return self._copies[device]


def _moved(what: _Where, device: torch.device) -> _Where:
    return what.to(device) if isinstance(what, torch.Tensor) else what


class SlotCache(Cache):  # type: ignore[misc]
    """The keys and values of all slots: of each layer, shape (slots, heads, tokens, size)."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        self.capacity = (0, 0)  # slots, tokens a slot
        self.plan: Plan | None = None

    @property
    def nbytes(self) -> int:
        """Memory of the tensors."""
        return sum(t.nbytes for store in (self.keys, self.values) for t in store)

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new keys and values where the plan says."""
        assert self.plan is not None
        plan = self.plan.on(key_states.device)
        for store, new in ((self.keys, key_states), (self.values, value_states)):
            if layer_idx == len(store):
                slots, tokens = self.capacity
                # Zeros, since what is masked is still multiplied with 0: whatever lay in this
                # memory might be no number, and then so would be the product.
                store.append(new.new_zeros((slots, new.shape[1], tokens, new.shape[3])))
            if plan.write is None:
                store[layer_idx][plan.read, :, plan.length - 1] = new[: plan.rows, :, 0]
            else:
                row, column, slot, position = plan.write
                some = new[: plan.rows, :, 0] if new.shape[2] == 1 else new[row, :, column]
                store[layer_idx][slot, :, position] = some
        # Not used: the attention below reads the slots themselves.
        return key_states, value_states

    def copy(self, pairs: Sequence[tuple[int, int, int]]) -> None:
        """Copy the first tokens of slots: (from, to, tokens) each."""
        for source, target, tokens in pairs:
            for tensor in (*self.keys, *self.values):
                tensor[target, :, :tokens] = tensor[source, :, :tokens]

    def resize(self, slots: int, tokens: int) -> None:
        """Grow to the given capacity, keeping what is there."""
        old_slots, old_tokens = self.capacity
        self.capacity = (slots, tokens)
        for store in (self.keys, self.values):
            for i, old in enumerate(store):
                store[i] = old.new_zeros((slots, old.shape[1], tokens, old.shape[3]))
                store[i][:old_slots, :, :old_tokens] = old

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Not used: positions and masks are given explicitly."""
        return 0


class StemCache(Cache):  # type: ignore[misc]
    """Keys and values of beginnings that are evaluated now, whose first part may be known."""

    def __init__(
        self,
        known: Sequence[Sequence[tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]]],
        write: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        length: int,
    ) -> None:
        """Prepare a forward.

        Args:
            known: for each row, (keys, values) by layer of its pieces, (heads, tokens, size).
            write: (row, column, position) of every new token.
            length: tokens of the longest row.
        """
        super().__init__(layers=[])
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        self._known, self._write, self._length = known, write, length

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """All keys and values of the layer: shape (rows, heads, tokens, size)."""
        row, column, position = (t.to(key_states.device) for t in self._write)
        for which, (store, new) in enumerate(
            ((self.keys, key_states), (self.values, value_states))
        ):
            full = new.new_zeros((new.shape[0], new.shape[1], self._length, new.shape[3]))
            for i, pieces in enumerate(self._known):
                at = 0
                for piece in pieces:
                    part = piece[which][layer_idx]
                    full[i, :, at : at + part.shape[1]] = part
                    at += part.shape[1]
            full[row, :, position] = new[row, :, column]
            store.append(full)
        return self.keys[layer_idx], self.values[layer_idx]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Not used: positions and masks are given explicitly."""
        return 0


_cache: ContextVar[SlotCache] = ContextVar("disciple_slot_cache")


@contextmanager
def attending(cache: SlotCache, config: PreTrainedConfig) -> Iterator[None]:
    """Let a model attend to slots and trunks; everybody else finds it as it was."""
    # Only meanwhile: the model is the caller's, and stems are evaluated in the usual way.
    usual = config._attn_implementation
    token = _cache.set(cache)
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = usual
        _cache.reset(token)


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Queries (rows, heads, new, size) to outputs (rows, new, heads, size)."""
    # These change the scores: without them the numbers would be wrong, and nobody would know.
    for name in ("softcap", "s_aux", "position_bias"):
        if options.get(name) is not None:
            raise NotImplementedError(f"attention with {name}")
    cache, layer = _cache.get(), module.layer_idx
    assert cache.plan is not None
    plan = cache.plan.on(query.device)
    # In float32 on a CPU, whatever the model's dtype: with sums that were rounded to bfloat16 the
    # result would depend on where a text is cut into trunk and slot.
    wide = torch.float32 if query.device.type == "cpu" else query.dtype
    keys = cache.keys[layer][plan.read, :, : plan.length].to(wide)
    values = cache.values[layer][plan.read, :, : plan.length].to(wide)
    batch, heads, new, size = query.shape
    slots, kv_heads = keys.shape[:2]
    q = query[: plan.rows].to(wide)
    if plan.order is not None:
        q = q.new_zeros((slots, heads, new, size)).index_copy_(0, plan.order, q)
    # The query heads that share a key head are more queries to it.
    q = q.reshape(slots, kv_heads, -1, size) * (size**-0.5 if scaling is None else scaling)
    trunk = max((g.length for g in plan.groups), default=0)
    own = torch.matmul(q, keys.transpose(2, 3))
    if plan.mask is not None:
        own += plan.mask.repeat(1, 1, heads // kv_heads, 1)
    scores = own
    if trunk:
        scores = own.new_empty((*own.shape[:3], trunk + plan.length))
        scores[..., trunk:] = own
        if len(plan.groups) > 1 or plan.groups[0].rows is not None:
            # Rows under a shorter trunk, or under none, see nothing of the rest.
            scores[..., :trunk] = torch.finfo(scores.dtype).min / 2
        for g in plan.groups:
            some = q if g.rows is None else q[g.rows]
            flat = some.transpose(0, 1).reshape(kv_heads, -1, size)
            part = torch.matmul(flat, g.keys[layer][:, : g.length].transpose(1, 2).to(wide))
            part = part.view(kv_heads, len(some), -1, g.length).transpose(0, 1)
            if g.rows is None:
                scores[..., : g.length] = part
            else:
                scores[g.rows, :, :, : g.length] = part
    # In float32 whatever the model's dtype, as transformers' own attention does it.
    p = torch.softmax(scores, -1, dtype=torch.float32).to(values.dtype)
    out = torch.matmul(p[..., trunk:], values)
    for g in plan.groups:
        some = p[..., : g.length] if g.rows is None else p[g.rows, :, :, : g.length]
        flat = some.transpose(0, 1).reshape(kv_heads, -1, g.length)
        part = torch.matmul(flat, g.values[layer][:, : g.length].to(wide))
        part = part.view(kv_heads, len(some), -1, values.shape[3]).transpose(0, 1)
        if g.rows is None:
            out += part
        else:
            out[g.rows[: g.count]] += part[: g.count]
    out = out.view(slots, heads, new, -1)
    if plan.order is not None:
        out = out[plan.order]
    out = out.transpose(1, 2)
    # Of padding, which has no slots; nobody reads it.
    if batch > plan.rows:
        out = torch.cat([out, out.new_zeros((batch - plan.rows, *out.shape[1:]))])
    return out.to(query.dtype), None


AttentionInterface.register(NAME, _attend)
