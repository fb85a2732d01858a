"""Logits of Hugging Face causal LMs, with keys and values that follow live prefixes.

What is not yet known of a batch is evaluated in at most two forward passes: long new beginnings
once each, then all that the contexts add to them, be it one token or many. Beginnings are shared
and everything is bounded by a memory budget, see :mod:`.blocks`; what was evicted is computed
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from ...protocol.prefix import Prefix
from ...protocol.requests import Tokens
from ..backend import Backend
from .attention import SCORES, attending, attending_to_stems
from .blocks import Place, Store, Trunk
from .caches import Group, Part, Plan, StemCache
from .placed import computes_in, device_of

__all__ = ["KVBackend", "PlainBackend"]

_LONG = 8
"""New tokens from which on a beginning is worth a trunk."""
_SHORT = 255
"""Tokens up to which texts are evaluated together, whatever their lengths; beyond it, lengths of
one power of two."""
_TOKENS = 2**14
"""New tokens evaluated in one forward pass at most, unless one text alone has more."""
_LOGITS = 2**27
"""Logits that a forward pass gives at most, likewise: as float32 half a gigabyte."""


class KVBackend:
    """A Hugging Face causal LM with full attention, evaluated with the store above."""

    def __init__(
        self, model: Any, *, kv_bytes: int = 2**30, rows: int = 128, bucket: int | None = None
    ) -> None:
        """Wrap a model.

        Args:
            model: a ``PreTrainedModel`` for causal LM, in eval mode, whose attention takes
                transformers' attention interface.
            kv_bytes: memory budget of the keys and values: as much as several runs at once of a
                model of some hundred million parameters need; less is taken where less will do.
            rows: contexts evaluated in one forward pass at most.
            bucket: batches are padded to a multiple of so many tokens, so that the rounding of a
                text's logits, and with it a draw, does not depend on what else is in the batch.
                None for 4 on a CPU and 32 on others; 1 for no padding. On a CPU all products
                of four tokens and more were found to round alike, those of fewer otherwise.
        """
        self.model = model
        self.device = device_of(model)
        self.dtype = computes_in(model)
        config = self._config = model.config.get_text_config()
        self.max_context: int | None = getattr(config, "max_position_embeddings", None)
        self.forwards = 0
        self._heads: int = config.num_attention_heads
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        token_bytes = 2 * config.num_hidden_layers * heads * size * self.dtype.itemsize
        self._rows = rows
        self._vocabulary: int = config.vocab_size
        self._bucket = bucket or (4 if self.device.type == "cpu" else 32)
        self._new_store = partial(Store, kv_bytes, token_bytes)
        self._store = self._new_store()

    def forget(self) -> None:
        """Drop all keys and values."""
        self._store = self._new_store()

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
        # The logits before the first token need its context's last one evaluated again.
        self._grow(list(dict.fromkeys(c.parent for c, _ in group if c.parent is not None)))
        ends = [(c.extend(tokens[:-1]), c.length - 1) for c, tokens in group]
        keeps = [len(tokens) for _, tokens in group]
        return list(self._forward(self._store.place(ends), keeps).split(keeps))

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _evaluate(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        done = self._grow(contexts)
        known = [i for i, c in enumerate(contexts) if c in done]
        rest = [i for i, c in enumerate(contexts) if c not in done]
        found = [torch.stack([done[contexts[i]] for i in known])] if known else []
        if rest:
            places = self._store.place([(contexts[i], contexts[i].length - 1) for i in rest])
            found.append(self._forward(places, [1] * len(rest)))
        if len(found) == 1:
            return found[0]
        out = found[0].new_empty((len(contexts), found[0].shape[-1]))
        for members, logits in zip((known, rest), found, strict=True):
            out[self._tensor(members)] = logits
        return out

    # Beginnings ---------------------------------------------------------------------------

    def _grow(self, contexts: Sequence[Prefix]) -> dict[Prefix, torch.Tensor]:
        """Evaluate the long new beginnings of contexts; the logits after each, (vocabulary,)."""
        stems = self._stems(contexts)
        out: dict[Prefix, torch.Tensor] = {}
        while stems:
            longest, count = 0, 0  # as many as make no more than some thousand tokens
            for stem in stems[: self._rows]:
                longest = max(longest, stem.length)
                if count and (count + 1) * longest > 2**14:
                    break
                count += 1
            some, stems = stems[:count], stems[count:]
            out.update(zip(some, self._forward_stems(some), strict=True))
        return out

    def _stems(self, contexts: Sequence[Prefix]) -> list[Prefix]:
        """The long new beginnings that are worth being evaluated once and shared.

        Contexts that arrive together mostly differ at their ends only: particles under one prompt,
        under few hints. So each walks back from its end to the last node that a fair part
        of the others goes through, too (a quarter; two at least), and that node is its stem.
        A lower bar would make a trunk of each particle's own text, a higher one would
        evaluate a prompt that only some of the runs share once for each particle.
        """
        cold: list[tuple[Prefix, Prefix]] = []
        for context in contexts:
            # Where the parent is known, as for nearly every draw, one token is new: no search then.
            if context.length >= _LONG and context.parent not in self._store.where:
                _, known = self._store.find(context)
                if context.length - known.length >= _LONG:
                    cold.append((context, known))
        counts: dict[Prefix, int] = {}
        for context, known in cold:
            node = context
            while node.length > known.length:
                counts[node] = counts.get(node, 0) + 1
                assert node.parent is not None
                node = node.parent
        least = max(2, len(cold) // 4)
        stems: dict[Prefix, None] = {}
        for context, known in cold:
            node = context
            while node.length >= known.length + _LONG and counts[node] < least:
                assert node.parent is not None
                node = node.parent
            if node.length >= known.length + _LONG:
                stems[node] = None
            elif context.length >= 2 * known.length:  # most of it is new: others may follow
                stems[context] = None
        return list(stems)

    def _forward_stems(self, stems: Sequence[Prefix]) -> torch.Tensor:
        """Make trunks; the logits after each, float32, shape (stems, vocabulary)."""
        found = [self._store.find(stem) for stem in stems]
        fresh = [stem.length - known.length for stem, (_, known) in zip(stems, found, strict=True)]
        width, length = max(fresh), max(stem.length for stem in stems)
        row: list[int] = []
        column: list[int] = []
        position: list[int] = []
        # New tokens stand at the right end, so that the last column has every stem's last token.
        ids = torch.zeros((len(stems), width), dtype=torch.long)
        for i, (stem, (_, known)) in enumerate(zip(stems, found, strict=True)):
            row += [i] * fresh[i]
            column += range(width - fresh[i], width)
            position += range(known.length, stem.length)
            ids[i, width - fresh[i] :] = torch.tensor(stem.after(known))
        positions = torch.tensor([[s.length - width] for s in stems]) + torch.arange(width)
        positions = positions.clamp(min=0)  # of padding: harmless, unread
        mask = torch.zeros((len(stems), 1, width, length), dtype=self.dtype)
        unseen = torch.arange(length) > positions[:, None, :, None]
        mask.masked_fill_(unseen, torch.finfo(self.dtype).min)
        write = tuple(torch.tensor(x, device=self.device) for x in (row, column, position))
        known_parts = [self._store.read(holder, known) for holder, known in found]
        cache = StemCache(known_parts, write, length)
        with attending_to_stems(self._config, self.device, self.dtype):
            # The logits of four tokens, of which one is wanted: see ``bucket``.
            logits = self._run(ids, positions, cache, 4, mask.to(self.device))[:, -1]
        self._store.add([_trunk_of(stem, cache, i) for i, stem in enumerate(stems)])
        return logits

    # What comes after them ----------------------------------------------------------------

    def _forward(self, places: Sequence[Place], keeps: Sequence[int]) -> torch.Tensor:
        """Logits of the last tokens of each place, so many as ``keeps`` says, one after another.

        Returns:
            float32, shape (sum of keeps, vocabulary).
        """
        out: list[torch.Tensor] = [torch.empty(0)] * len(places)
        passes = self._passes(places, keeps)
        for parts in passes:
            members = sorted(i for part in parts for i in part)
            logits = self._forward_parts(places, parts, {i: keeps[i] for i in members})
            if len(passes) == 1:
                return logits
            for i, mine in zip(members, logits.split([keeps[i] for i in members]), strict=True):
                out[i] = mine
        return torch.cat(out)

    def _passes(self, places: Sequence[Place], keeps: Sequence[int]) -> list[list[list[int]]]:
        """Which places to evaluate together, in parts that are attended over together."""
        passes: list[list[list[int]]] = []
        tokens = logits = 0
        for part in self._parts(places):
            more = sum(places[i].fresh for i in part)
            kept = sum(keeps[i] for i in part) * self._vocabulary
            if not passes or tokens + more > _TOKENS or logits + kept > _LOGITS:
                passes.append([])
                tokens = logits = 0
            passes[-1].append(part)
            tokens, logits = tokens + more, logits + kept
        return passes

    def _parts(self, places: Sequence[Place]) -> list[list[int]]:
        # Single tokens and longer runs apart, and short texts and much longer ones: the scores of
        # the former, padded to the latter, would be wasted work.
        alike: dict[tuple[bool, int], list[int]] = {}
        for i, place in enumerate(places):
            own = place.context.length - place.slot.base
            alike.setdefault((place.fresh > 1, max(_SHORT, own).bit_length()), []).append(i)
        parts = []
        for (several, _), members in alike.items():
            rows = len(members)
            if several:
                width = max(places[i].fresh for i in members)
                length = max(places[i].context.length for i in members)
                rows = max(1, SCORES // (self._heads * width * length))
            parts += [members[i : i + rows] for i in range(0, len(members), rows)]
        return parts

    def _forward_parts(
        self, places: Sequence[Place], parts: Sequence[Sequence[int]], keeps: Mapping[int, int]
    ) -> torch.Tensor:
        """Logits of the last tokens of some places, in the places' order."""
        ids: list[int] = []
        positions: list[int] = []
        ends: dict[int, int] = {}  # where each place's tokens end
        made = []
        for part in parts:
            mine = [places[i] for i in part]
            first = len(ids)
            for i, place in zip(part, mine, strict=True):
                ids += place.context.after(place.known)
                positions += range(place.known.length, place.context.length)
                ends[i] = len(ids)
            made.append(self._part(mine, slice(first, len(ids))))
        wanted = [k for i in sorted(keeps) for k in range(ends[i] - keeps[i], ends[i])]
        cache = self._store.cache
        cache.plan = Plan(made, self.device)
        with attending(cache, self._config):
            # See ``bucket``: the rounding must not depend on the number of tokens.
            tokens = torch.tensor([self._padded(ids)])
            where = torch.tensor([self._padded(positions)])
            keep = self._tensor(self._padded(wanted))
            return self._run(tokens, where, cache, keep)[0, : len(wanted)]

    def _padded(self, data: list[int]) -> list[int]:
        return data + data[:1] * (-len(data) % self._bucket)

    def _part(self, places: Sequence[Place], tokens: slice) -> Part:
        slots = [p.slot.index for p in places]
        width = max(p.fresh for p in places)
        rows, low, high = len(slots), min(slots), max(slots) + 1
        lengths = [p.context.length - p.slot.base for p in places]
        length = max(lengths)
        even = min(lengths) == length
        read: slice | torch.Tensor = slice(low, high)
        seats = [s - low for s in slots]
        # A slice of the slots is a view, a list of them a copy: a few idle ones cost less.
        if high - low > 2 * rows + 4:  # too many that nobody asks about in between
            read, seats = self._tensor(slots), list(range(rows))
        each = [(i, k) for i, p in enumerate(places) for k in range(p.fresh)]
        in_order = seats == list(range(rows))
        where = None
        if not in_order or width > 1:
            where = (
                self._tensor([seats[i] for i, _ in each]),
                # At the right end, so that all last tokens stand in one column.
                self._tensor([width - places[i].fresh + k for i, k in each]),
            )
        write = None
        if not (slots == list(range(low, high)) and even and width == 1):
            write = (
                self._tensor([slots[i] for i, _ in each]),
                self._tensor([lengths[i] - places[i].fresh + k for i, k in each]),
            )
        mask = None
        if not even or width > 1:
            last = torch.zeros(rows if isinstance(read, torch.Tensor) else high - low)
            last[seats] = torch.tensor(lengths, dtype=last.dtype)
            sees = last[:, None] + torch.arange(-width, 0)
            unseen = torch.arange(length) > sees[:, :, None]
            mask = torch.zeros(unseen.shape, dtype=self.dtype)
            # Half of the lowest number: a score is added to it, and the sum must not become -inf,
            # as the softmax over a slot that sees nothing would be no number.
            mask = mask.masked_fill_(unseen, torch.finfo(self.dtype).min / 2)[:, None].to(
                self.device
            )
        groups = self._groups(places, seats)
        return Part(tokens, read, width, where, length, write, mask, groups)

    def _groups(self, places: Sequence[Place], seats: Sequence[int]) -> list[Group]:
        members: dict[tuple[Trunk, int], list[int]] = {}
        for place, seat in zip(places, seats, strict=True):
            if place.slot.trunk is not None:
                members.setdefault((place.slot.trunk, place.slot.base), []).append(seat)
        groups = []
        for (trunk, base), mine in members.items():
            count = len(mine)
            index = None
            if len(members) > 1 or count < len(places) or count < 4:
                # At least four rows, since products of fewer round otherwise (see ``bucket``).
                index = self._tensor(mine + mine[:1] * (4 - count))
            groups.append(Group(index, count, base, trunk.keys, trunk.values))
        return groups

    def _tensor(self, data: list[int]) -> torch.Tensor:
        return torch.tensor(data, device=self.device)

    def _run(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        cache: Any,
        keep: int | torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        output = self.model(
            input_ids=ids.to(self.device),
            attention_mask=mask,
            position_ids=positions.to(self.device),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        self.forwards += 1
        # Some models leave their logits where their last layer is.
        logits: torch.Tensor = output.logits.to(self.device).float()
        return logits


def _trunk_of(stem: Prefix, cache: StemCache, row: int) -> Trunk:
    return Trunk(
        stem,
        # Clones: views would keep the whole padded batch in memory.
        [t[row, :, : stem.length].clone() for t in cache.keys],
        [t[row, :, : stem.length].clone() for t in cache.values],
    )


class PlainBackend(Backend):
    """Any other causal LM (sliding windows, state spaces): whole contexts, no cache."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.device = device_of(model)
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
        logits: torch.Tensor = self.model(input_ids=ids, use_cache=False).logits[0]
        return logits.to(self.device).float()
