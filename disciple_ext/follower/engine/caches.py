"""Keys and values as a model's layers write and read them, and the plan of a forward over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from transformers import Cache

__all__ = ["Group", "Part", "Plan", "SlotCache", "StemCache"]

_Where = TypeVar("_Where", torch.Tensor, torch.Tensor | None, slice | torch.Tensor)


@dataclass
class Group:
    """Texts under one trunk.

    Attributes:
        seats: their places among the part's slots; None for all.
        count: how many of ``seats`` are real; the others repeat one of them.
        length: tokens of the trunk they attend to.
        keys: of each layer, shape (heads, tokens, size).
        values: of each layer, likewise.
    """

    seats: torch.Tensor | None
    count: int
    length: int
    keys: Sequence[torch.Tensor]
    values: Sequence[torch.Tensor]


@dataclass
class Part:
    """Texts of a forward that are attended over together: what they add is about as long.

    Attributes:
        tokens: which of the forward's tokens are theirs.
        read: the slots attended over.
        width: tokens that a text adds at most.
        seats: each token's place among these slots, and its column among the text's new ones; None
            where each slot has one, in order.
        length: tokens attended to in each slot.
        write: (slot, position) of every token; None where it is ``length - 1`` of the slots in
            order.
        mask: added to the scores within slots, (slots, 1, width, length), or None.
        groups: the trunks.
    """

    tokens: slice
    read: slice | torch.Tensor
    width: int
    seats: tuple[torch.Tensor, torch.Tensor] | None
    length: int
    write: tuple[torch.Tensor, torch.Tensor] | None
    mask: torch.Tensor | None
    groups: list[Group]

    def on(self, device: torch.device) -> Part:
        """The part with its tensors on a device."""
        return replace(
            self,
            read=_moved(self.read, device),
            seats=_both(self.seats, device),
            write=_both(self.write, device),
            mask=_moved(self.mask, device),
            # Their keys and values are where their layers are.
            groups=[replace(g, seats=_moved(g.seats, device)) for g in self.groups],
        )


@dataclass
class Plan:
    """Where the keys of a forward over slots go, and what its queries see.

    Attributes:
        parts: the texts; tokens of none of them are padding.
        device: where their tensors are.
    """

    parts: list[Part]
    device: torch.device
    _copies: dict[torch.device, Plan] = field(default_factory=dict)

    def on(self, device: torch.device) -> Plan:
        """The plan for a layer on a device: layers may be spread over several."""
        if device == self.device:
            return self
        if device not in self._copies:
            self._copies[device] = Plan([part.on(device) for part in self.parts], device)
        return self._copies[device]


def _moved(what: _Where, device: torch.device) -> _Where:
    return what.to(device) if isinstance(what, torch.Tensor) else what


def _both(
    pair: tuple[torch.Tensor, torch.Tensor] | None, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor] | None:
    return None if pair is None else (pair[0].to(device), pair[1].to(device))


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
            tokens_first = new[0].transpose(0, 1)
            for part in plan.parts:
                some = tokens_first[part.tokens]
                if part.write is None:
                    store[layer_idx][part.read, :, part.length - 1] = some
                else:
                    slot, position = part.write
                    store[layer_idx][slot, :, position] = some
        # Not used: the attention below reads the slots themselves.
        return key_states, value_states

    def copy(self, pairs: Sequence[tuple[int, int, int]]) -> None:
        """Copy the first tokens of slots: (from, to, tokens) each."""
        for source, target, tokens in pairs:
            for tensor in (*self.keys, *self.values):
                tensor[target, :, :tokens] = tensor[source, :, :tokens]

    def repack(self, kept: Sequence[int], slots: int, tokens: int) -> None:
        """Keep these slots, as the first of so many, with room for so many tokens each."""
        old_tokens = self.capacity[1]
        self.capacity = (slots, tokens)
        for store in (self.keys, self.values):
            for i, old in enumerate(store):
                store[i] = old.new_zeros((slots, old.shape[1], tokens, old.shape[3]))
                store[i][: len(kept), :, :old_tokens] = old[list(kept)]

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
