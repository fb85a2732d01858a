"""Logits of Hugging Face causal LMs, with a key-value cache that follows live prefixes.

Each cached context owns a *slot*: one row of the key and value tensors. A context that extends
the tip of a slot by one token grows it in place; one that leaves it earlier (a clone
after resampling, a changed prompt) gets a slot of its own with the shared part copied. Slots are
bounded by a memory budget; the least recently used go first, and what was evicted is recomputed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import Cache

from ..model.prefix import Prefix
from ..model.requests import Tokens

__all__ = ["KVBackend", "PlainBackend"]


@dataclass
class _Row:
    """One context to evaluate, whose tokens up to ``known`` the slot already holds."""

    context: Prefix
    slot: int
    known: Prefix

    @property
    def fresh(self) -> int:
        """Number of tokens to evaluate."""
        return len(self.context) - len(self.known)


@dataclass
class _Slots:
    """Which context each slot holds, and in which slot each known prefix lies."""

    tips: dict[int, Prefix] = field(default_factory=dict)
    where: dict[Prefix, int] = field(default_factory=dict)

    def find(self, context: Prefix) -> tuple[int | None, Prefix]:
        """The slot with the longest known proper prefix of ``context``, and that prefix."""
        node = context.parent
        while node is not None:
            slot = self.where.get(node)
            if slot is not None:
                return slot, node
            node = node.parent
        return None, Prefix.ROOT

    def hold(self, slot: int, context: Prefix, known: Prefix) -> None:
        """``slot`` now holds ``context``, of which it shares ``known`` with another."""
        self.tips.pop(slot, None)
        self.tips[slot] = context
        node: Prefix | None = context
        while node is not None and node is not known:
            self.where.setdefault(node, slot)
            node = node.parent

    def forget(self, slot: int) -> None:
        """Free the slot: its prefixes are known no more."""
        node = self.tips.pop(slot, None)
        while node is not None:
            if self.where.get(node) == slot:
                del self.where[node]
            node = node.parent


class _SlotCache(Cache):  # type: ignore[misc]
    """The key and value tensors, as the model's forward wants them.

    ``update`` writes the new keys where the current rows say, and returns the rows' slots.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        self.capacity = (0, 0)  # slots, tokens a slot

    def plan(self, rows: Sequence[_Row], width: int, length: int, device: torch.device) -> None:
        """Set where the next forward's keys go: rows left-padded to ``width`` new tokens."""
        slots = [r.slot for r in rows]
        self.slots = torch.tensor(slots, device=device)
        self.run = (slots[0], slots[0] + len(slots))
        if slots != list(range(*self.run)):
            self.run = (0, 0)
        self.length = length
        row: list[int] = []
        column: list[int] = []
        position: list[int] = []
        for i, r in enumerate(rows):
            row += [i] * r.fresh
            column += range(width - r.fresh, width)
            position += range(len(r.known), len(r.context))
        self.row, self.column, self.position = (
            torch.tensor(x, device=device) for x in (row, column, position)
        )

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new keys and values of a layer; return all of the rows' keys and values."""
        out = []
        for store, new in ((self.keys, key_states), (self.values, value_states)):
            if len(store) <= layer_idx:
                shape = (self.capacity[0], new.shape[1], self.capacity[1], new.shape[3])
                store.append(new.new_zeros(shape))
            tensor = store[layer_idx]
            tensor[self.slots[self.row], :, self.position] = new[self.row, :, self.column]
            known = tensor[:, :, : self.length]
            out.append(known[slice(*self.run)] if self.run[1] else known[self.slots])
        return out[0], out[1]

    def copy(self, pairs: Sequence[tuple[int, int, int]]) -> None:
        """Copy the first tokens of slots: (from, to, tokens) each."""
        for source, target, tokens in pairs:
            for store in (self.keys, self.values):
                for tensor in store:
                    tensor[target, :, :tokens] = tensor[source, :, :tokens]

    def resize(self, slots: int, tokens: int) -> None:
        """Grow to the given capacity, keeping what is there."""
        old_slots, old_tokens = self.capacity
        self.capacity = (slots, tokens)
        for store in (self.keys, self.values):
            for i, tensor in enumerate(store):
                store[i] = tensor.new_zeros((slots, tensor.shape[1], tokens, tensor.shape[3]))
                store[i][:old_slots, :, :old_tokens] = tensor

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Not used: positions and masks are given explicitly."""
        return 0


class KVBackend:
    """A Hugging Face causal LM with full attention, evaluated with the cache above."""

    def __init__(self, model: Any, *, kv_bytes: int = 2**28, rows: int = 128) -> None:
        """Wrap a model.

        Args:
            model: a ``PreTrainedModel`` for causal LM, in eval mode.
            kv_bytes: memory budget of the keys and values.
            rows: contexts evaluated in one forward pass at most.
        """
        self.model = model
        self.device: torch.device = next(model.parameters()).device
        self.dtype: torch.dtype = next(model.parameters()).dtype
        config = model.config.get_text_config()
        self.max_context: int | None = getattr(config, "max_position_embeddings", None)
        self.forwards = 0
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._token_bytes = 2 * config.num_hidden_layers * heads * size * self.dtype.itemsize
        self._kv_bytes = kv_bytes
        self._rows = rows
        self._slots = _Slots()
        self._cache = _SlotCache()

    async def logits(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        """Next-token logits, float32, shape (contexts, vocabulary)."""
        out = [
            self._evaluate(contexts[i : i + self._rows])
            for i in range(0, len(contexts), self._rows)
        ]
        return torch.cat(out) if len(out) > 1 else out[0]

    async def score(self, pairs: Sequence[tuple[Prefix, Tokens]]) -> list[torch.Tensor]:
        """Logits before each token of (context, tokens) pairs, float32, (tokens, vocabulary)."""
        out: list[torch.Tensor] = []
        for i in range(0, len(pairs), self._rows):
            out += self._score(pairs[i : i + self._rows])
        return out

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _score(self, group: Sequence[tuple[Prefix, Tokens]]) -> list[torch.Tensor]:
        rows = self._place([context.extend(tokens[:-1]) for context, tokens in group])
        for row, (context, _) in zip(rows, group, strict=True):
            # The logits before the first token need its context's last one evaluated again.
            if len(row.known) >= len(context):
                assert context.parent is not None
                row.known = context.parent
        logits = self._forward(rows, keep=max(len(tokens) for _, tokens in group))
        for row in rows:
            self._slots.hold(row.slot, row.context, row.known)
        return [x[-len(tokens) :] for x, (_, tokens) in zip(logits, group, strict=True)]

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _evaluate(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        rows = self._place(contexts)
        out: torch.Tensor | None = None
        # Single tokens and longer runs apart: padding the former to the latter wastes work.
        short = [i for i, r in enumerate(rows) if r.fresh == 1]
        long = [i for i, r in enumerate(rows) if r.fresh > 1]
        for group in (short, long):
            if group:
                group.sort(key=lambda i: rows[i].slot)
                logits = self._forward([rows[i] for i in group])[:, -1]
                if out is None:
                    out = logits.new_empty((len(rows), logits.shape[-1]))
                out[torch.tensor(group, device=self.device)] = logits
        assert out is not None
        for row in rows:
            self._slots.hold(row.slot, row.context, row.known)
        return out

    def _place(self, contexts: Sequence[Prefix]) -> list[_Row]:
        """Give every context a slot that holds all it can of it already."""
        self._reserve(len(contexts), max(len(c) for c in contexts))
        rows: list[_Row] = []
        copies: list[tuple[int, int, int]] = []
        used: set[int] = set()
        found = [self._slots.find(c) for c in contexts]
        sources = {slot for slot, _ in found if slot is not None}
        for context, (slot, known) in zip(contexts, found, strict=True):
            at_tip = slot is not None and self._slots.tips[slot] is known
            if slot is None or not at_tip or slot in used:
                fresh = self._free(sources | used)
                if slot is not None:
                    copies.append((slot, fresh, len(known)))
                slot = fresh
            used.add(slot)
            rows.append(_Row(context, slot, known))
        self._cache.copy(copies)
        return rows

    def _free(self, keep: set[int]) -> int:
        slots = self._cache.capacity[0]
        if len(self._slots.tips) < slots:
            taken = self._slots.tips.keys() | keep
            for slot in range(slots):
                if slot not in taken:
                    return slot
        for slot in self._slots.tips:  # least recently used first
            if slot not in keep:
                self._slots.forget(slot)
                return slot
        raise MemoryError("no free slot: the batch is larger than the cache")  # pragma: no cover

    def _reserve(self, rows: int, length: int) -> None:
        """Make room for a batch: every row may need a slot beside the one it copies from."""
        slots, tokens = self._cache.capacity
        while tokens < length:
            tokens = max(64, 2 * tokens)
        affordable = max(2 * rows, self._kv_bytes // (self._token_bytes * tokens))
        if tokens == self._cache.capacity[1]:
            # A smaller batch than the last is no reason to forget what larger ones have left.
            affordable = max(slots, affordable)
        wanted = max(slots, 2 * rows)
        if len(self._slots.tips) + rows > wanted:
            wanted = 2 * wanted
        wanted = min(wanted, affordable)
        if wanted < slots:  # longer texts leave room for fewer of them: begin anew
            self._slots, self._cache = _Slots(), _SlotCache()
            self._cache.capacity = (wanted, tokens)
        elif (wanted, tokens) != self._cache.capacity:
            self._cache.resize(wanted, tokens)

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _forward(self, rows: Sequence[_Row], keep: int = 1) -> torch.Tensor:
        """Logits of the last ``keep`` positions: float32, shape (rows, keep, vocabulary)."""
        width = max(r.fresh for r in rows)
        length = max(len(r.context) for r in rows)
        self._cache.plan(rows, width, length, self.device)
        ids = torch.zeros((len(rows), width), dtype=torch.long)
        first = torch.empty((len(rows), 1), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, width - row.fresh :] = torch.tensor(row.context.after(row.known))
            first[i] = len(row.context) - width
        positions = (first + torch.arange(width)).clamp(min=0)  # of padding: harmless, unread
        allowed = torch.arange(length) <= positions[:, :, None]
        mask = torch.zeros(allowed.shape, dtype=self.dtype)
        mask.masked_fill_(~allowed, torch.finfo(self.dtype).min)
        output = self.model(
            input_ids=ids.to(self.device),
            attention_mask=mask[:, None].to(self.device),
            position_ids=positions.to(self.device),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        self.forwards += 1
        logits: torch.Tensor = output.logits.float()
        return logits


class PlainBackend:
    """Any other causal LM (sliding windows, state spaces): whole contexts, no cache."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.device: torch.device = next(model.parameters()).device
        config = model.config.get_text_config()
        self.max_context: int | None = getattr(config, "max_position_embeddings", None)
        self.forwards = 0

    async def logits(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        """Next-token logits, float32, shape (contexts, vocabulary)."""
        out: list[torch.Tensor] = []
        for context in contexts:
            out.append(self._whole(context.tokens)[-1])
        return torch.stack(out)

    async def score(self, pairs: Sequence[tuple[Prefix, Tokens]]) -> list[torch.Tensor]:
        """Logits before each token of (context, tokens) pairs, float32, (tokens, vocabulary)."""
        return [self._whole((*c.tokens, *tokens[:-1]))[-len(tokens) :] for c, tokens in pairs]

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _whole(self, context: Tokens) -> torch.Tensor:
        self.forwards += 1
        ids = torch.tensor([context], device=self.device)
        logits: torch.Tensor = self.model(input_ids=ids, use_cache=False).logits[0].float()
        return logits
