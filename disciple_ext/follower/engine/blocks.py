"""Which keys are where: trunks that many texts share, and a slot for what each adds to one.

A text is evaluated under the longest beginning known of it. Long new beginnings become *trunks*:
they are evaluated once, never change, and any number of texts hang on one, or on a part of it. The
tokens after it are in the text's *slot*, which grows in place; a clone that goes on otherwise
gets a slot under the same trunk and copies the few tokens that it shares past the trunk.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import torch

from ...protocol.prefix import Prefix
from .caches import SlotCache

__all__ = ["Place", "Slot", "Store", "Trunk"]


_IDLE = 1024
"""Forwards after which a trunk that nothing has hung on is forgotten: some ten runs."""


class Trunk:
    """A beginning with its keys and values by layer, each of shape (heads, tokens, size).

    Attributes:
        tip: the whole beginning.
        tick: the forward it was last used in.
        nbytes: bytes of its keys and values.
    """

    def __init__(
        self, tip: Prefix, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor]
    ) -> None:
        self.tip = tip
        self.tick = 0
        self.keys = keys
        self.values = values
        self.nbytes: int = sum(t.nbytes for t in (*keys, *values))


class Slot:
    """What one slot holds: the tokens of ``tip`` past the first ``base``, which are of ``trunk``.

    Attributes:
        index: its place in the tensors.
        trunk: the beginning it hangs on, or None where ``base`` is 0.
        base: tokens of the trunk that are its own beginning.
        tip: the whole text.
        tick: the forward it was last used in.
    """

    def __init__(self, index: int, trunk: Trunk | None, base: int, tip: Prefix, tick: int) -> None:
        self.index = index
        self.trunk = trunk
        self.base = base
        self.tip = tip
        self.tick = tick


class Place:
    """One text to evaluate, whose tokens up to ``known`` its slot or trunk already holds."""

    def __init__(self, context: Prefix, known: Prefix, slot: Slot) -> None:
        self.context = context
        self.known = known
        self.slot = slot

    @property
    def fresh(self) -> int:
        """Number of tokens to evaluate."""
        return self.context.length - self.known.length


class Store:
    """All trunks and slots within a budget of bytes; the least recently used go first.

    Trunks that have long been idle go, too: what a process holds depends on the runs of late, not
    on how many there were before.
    """

    def __init__(self, nbytes: int, token_bytes: int) -> None:
        self.cache = SlotCache()
        self.trunks: OrderedDict[Trunk, None] = OrderedDict()
        self.slots: OrderedDict[int, Slot] = OrderedDict()
        self.where: dict[Prefix, Trunk | Slot] = {}
        self.tick = 0
        self._nbytes = nbytes
        self._token_bytes = token_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values held, of free slots too."""
        slots, tokens = self.cache.capacity
        trunks: int = sum(t.nbytes for t in self.trunks)
        return slots * tokens * self._token_bytes + trunks

    def find(self, context: Prefix) -> tuple[Trunk | Slot | None, Prefix]:
        """What holds the longest known proper beginning of ``context``, and that beginning."""
        node = context.parent
        while node is not None:
            holder = self.where.get(node)
            if holder is not None:
                return holder, node
            node = node.parent
        return None, Prefix.ROOT

    def read(
        self, holder: Trunk | Slot | None, known: Prefix
    ) -> list[tuple[list[torch.Tensor], list[torch.Tensor]]]:
        """Keys and values of a known beginning, in pieces."""
        length = known.length
        if holder is None or length == 0:
            return []
        if isinstance(holder, Trunk):
            return [
                ([t[:, :length] for t in holder.keys], [t[:, :length] for t in holder.values]),
            ]
        pieces = []
        base = min(holder.base, length)
        if holder.trunk is not None and base:
            keys, values = holder.trunk.keys, holder.trunk.values
            pieces.append(([t[:, :base] for t in keys], [t[:, :base] for t in values]))
        if length > base:
            i, n = holder.index, length - base
            keys, values = self.cache.keys, self.cache.values
            pieces.append(([t[i, :, :n] for t in keys], [t[i, :, :n] for t in values]))
        return pieces

    # Trunks -------------------------------------------------------------------------------

    def add(self, trunks: Sequence[Trunk]) -> None:
        """Hold new trunks."""
        for trunk in trunks:
            trunk.tick = self.tick
            self.trunks[trunk] = None
            node: Prefix | None = trunk.tip
            while node is not None and node.length:
                self.where.setdefault(node, trunk)
                node = node.parent
        self._forget_idle()
        self._shrink({*trunks})
        if self.nbytes > self._nbytes:
            self._clear()

    def _forget_idle(self) -> None:
        for trunk in list(self.trunks):
            # They are in the order of their last use, so that all after this one are younger.
            if trunk.tick >= self.tick - _IDLE:
                return
            self._forget_trunk(trunk)

    def _shrink(self, keep: set[Trunk | None]) -> None:
        for trunk in list(self.trunks):
            if self.nbytes <= self._nbytes:
                return
            if trunk not in keep:
                self._forget_trunk(trunk)

    def _clear(self) -> None:
        for slot in list(self.slots.values()):
            self._forget(slot)
        self.cache = SlotCache()

    def _forget_trunk(self, trunk: Trunk) -> None:
        del self.trunks[trunk]
        for slot in [s for s in self.slots.values() if s.trunk is trunk]:
            self._forget(slot)
        self._unlist(trunk.tip, trunk, 0)

    def _unlist(self, tip: Prefix, holder: Trunk | Slot, base: int) -> None:
        node: Prefix | None = tip
        while node is not None and node.length > base:
            if self.where.get(node) is holder:
                del self.where[node]
            node = node.parent

    def _forget(self, slot: Slot) -> None:
        del self.slots[slot.index]
        self._unlist(slot.tip, slot, slot.base)

    # Slots --------------------------------------------------------------------------------

    def place(self, contexts: Sequence[tuple[Prefix, int]]) -> list[Place]:
        """Give every context a slot that holds all it can of it already.

        Args:
            contexts: the texts, and how many of their tokens may be known at most.
        """
        # Each call is one forward: what is idle or busy is counted in these.
        self.tick += 1
        found = []
        for context, most in contexts:
            holder, known = self.find(context)
            while known.length > most:
                assert known.parent is not None
                known = known.parent
            found.append((context, holder, known))
        sources = {h.index for _, h, _ in found if isinstance(h, Slot)}
        taken: set[int] = set()
        places: list[Place | None] = []
        for context, holder, known in found:
            place = None
            # One context alone goes on in a slot: another would write to the same positions.
            if isinstance(holder, Slot) and holder.index not in taken:
                # It goes on where it ends, or nearly so: what comes again is the same.
                node: Prefix | None = context
                while node is not None and node.length > holder.tip.length:
                    node = node.parent
                if node is holder.tip and known.length >= holder.base:
                    taken.add(holder.index)
                    place = Place(context, known, holder)
            places.append(place)
        longest = max(
            c.length - (p.slot.base if p else _base(h, k))
            for (c, h, k), p in zip(found, places, strict=True)
        )
        trunks = {_trunk(h) for _, h, _ in found}
        needed = places.count(None)
        # Room is made before anything is copied: it may move the slots, or forget them all.
        if not self._reserve(len(contexts), needed, longest, sources, trunks):
            return self.place(contexts)
        # No source is given away: it is copied from below.
        free = self._free(needed, sources | taken)
        copies: list[tuple[int, int, int]] = []
        out: list[Place] = []
        for (context, holder, known), place in zip(found, places, strict=True):
            if place is None:
                base, trunk = _base(holder, known), _trunk(holder)
                index = next(free)
                if isinstance(holder, Slot) and known.length > base:
                    copies.append((holder.index, index, known.length - base))
                slot = Slot(index, trunk if base else None, base, known, self.tick)
                place = Place(context, known, slot)
            out.append(place)
        self.cache.copy(copies)
        for place in out:
            self._hold(place)
        return out

    def _hold(self, place: Place) -> None:
        slot = place.slot
        slot.tip, slot.tick = place.context, self.tick
        self.slots[slot.index] = slot
        self.slots.move_to_end(slot.index)
        if slot.trunk is not None:
            slot.trunk.tick = self.tick
            self.trunks.move_to_end(slot.trunk)
        node: Prefix | None = place.context
        while node is not None and node is not place.known:
            self.where.setdefault(node, slot)
            node = node.parent

    def _free(self, count: int, keep: set[int]) -> Iterator[int]:
        """Slots for new texts: empty and idle ones, then the least recently used."""
        idle = [
            i
            for i in range(self.cache.capacity[0])
            if i not in keep and (i not in self.slots or self.slots[i].tick < self.tick - 1)
        ]
        # The lowest first: a batch whose slots lie together needs no gathering.
        chosen = idle[:count]
        for i in [*self.slots]:
            if len(chosen) == count:
                break
            if i not in keep and self.slots[i].tick >= self.tick - 1:
                chosen.append(i)
        assert len(chosen) == count, "the batch is larger than the cache"
        for i in chosen:
            if i in self.slots:
                self._forget(self.slots[i])
        return iter(sorted(chosen))

    def _reserve(
        self, rows: int, needed: int, length: int, sources: set[int], trunks: set[Trunk | None]
    ) -> bool:
        """Make room for new slots; False where what was found was forgotten on the way."""
        slots, tokens = self.cache.capacity
        # Twice as long, and below by half more slots: each growth copies all keys and values.
        while tokens < length:
            tokens = max(32, 2 * tokens)
        # Who was used in the last forward is likely to go on; all others may be replaced.
        busy = sum(1 for s in self.slots.values() if s.tick >= self.tick - 1 or s.index in sources)
        wanted = slots
        if needed + busy > slots:
            wanted = needed + busy if not slots else max(needed + busy, slots + slots // 2)
        least = rows + len(sources)  # every row may need a slot beside the one it copies from
        used = sum(t.nbytes for t in self.trunks if t in trunks)
        afford = max(least, (self._nbytes - used) // (tokens * self._token_bytes))
        wanted = min(wanted, afford)
        if wanted < slots and tokens > self.cache.capacity[1]:
            # Longer texts leave room for fewer of them: for those that go on, before all others.
            self._repack(min(wanted, max(rows, afford)), tokens, sources)
            return False
        wanted = max(wanted, slots)
        if (wanted, tokens) != self.cache.capacity:
            self.cache.repack(range(slots), wanted, tokens)
            self._shrink(trunks)
        return True

    def _repack(self, slots: int, tokens: int, sources: set[int]) -> None:
        """Keep fewer slots, of more tokens each: those in use, as many as there is room for."""
        used = [s for s in self.slots.values() if s.tick >= self.tick - 1 or s.index in sources]
        kept = used[-slots:]
        for slot in [s for s in self.slots.values() if s not in kept]:
            self._forget(slot)
        self.cache.repack([slot.index for slot in kept], slots, tokens)
        for index, slot in enumerate(kept):
            slot.index = index
        self.slots = OrderedDict((slot.index, slot) for slot in kept)


def _trunk(holder: Trunk | Slot | None) -> Trunk | None:
    return holder.trunk if isinstance(holder, Slot) else holder


def _base(holder: Trunk | Slot | None, known: Prefix) -> int:
    """How much of ``known`` is the trunk's."""
    if holder is None:
        return 0
    return min(holder.base, known.length) if isinstance(holder, Slot) else known.length
