"""Masked mass and drawing next to the logits, for many requests at once, on their device.

A batch's probabilities are summed up once, in blocks of 256 tokens; a mask costs one product and
one sum more, and both are remembered. A draw finds its block by these sums and its token within
the block, so that nothing as long as the vocabulary is kept but the logits themselves. Masks of
few tokens, and masses too small for float32, are worked out in float64 over the mask's own
tokens: a mass may be as small as 1e-300, and its log goes into a weight.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...protocol.trie import TrieNode
from ...protocol.vocabulary import TokenMask

__all__ = [
    *("Distributions", "MaskCache", "Query", "Row", "draw", "log_mass", "log_prob"),
    "log_segments",
]

_MASKS_A_ROW = 64
"""Masks whose sums a row remembers."""
_BLOCK = 256
_CHUNK = {"cpu": 2**18}
"""Probabilities worked on at a time: on a CPU, what fits its cache."""
_SPARSE = 16
"""A mask that allows fewer than one token in so many is kept as a list."""
# Far above the smallest float32 (1e-38), near which a sum has lost the terms that underflowed.
_TINY = 1e-20
"""Masses below this are worked out in float64."""


class Row(NamedTuple):
    """One next-token distribution: a row of a batch."""

    batch: Distributions
    at: int


class Query(NamedTuple):
    """A distribution and the mask asked about, or None for all tokens."""

    row: Row
    mask: TokenMask | None


class MaskCache:
    """Masks as tensors on the logits' device, the most recently used ones kept."""

    def __init__(self, nbytes: int = 2**26) -> None:
        self._left = nbytes
        self._scratch: dict[tuple[torch.device, int], torch.Tensor] = {}
        self._tensors: OrderedDict[TokenMask, torch.Tensor] = OrderedDict()

    def get(self, mask: TokenMask, device: torch.device) -> torch.Tensor:
        """The ids of a sparse mask, int64, (count,); else 0.0 or 1.0, float32, (blocks, 256)."""
        found = self._tensors.get(mask)
        if found is None or found.device != device:
            self._drop(mask)
            if len(mask) * _SPARSE < mask.size:
                made = torch.from_numpy(mask.ids.copy())
            else:
                dense = np.zeros(_blocks(mask.size) * _BLOCK, dtype=np.float32)
                dense[: mask.size] = mask.array
                made = torch.from_numpy(dense).view(-1, _BLOCK)
            found = self._tensors[mask] = made.to(device)
            self._left -= found.nbytes
            while len(self._tensors) > (512 if self._left >= 0 else 1):
                self._drop(next(iter(self._tensors)))
        self._tensors.move_to_end(mask)
        return found

    def scratch(self, like: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Two buffers of shape (rows, blocks, 256), of which the first is zero past the vocabulary.

        Fresh memory of their size costs more than the work on it.
        """
        size = like.shape[-1]
        found = self._scratch.get((like.device, size))
        if found is None or found.shape[1] < rows:
            found = like.new_zeros((2, rows, _blocks(size), _BLOCK))
            self._scratch[(like.device, size)] = found
        return found[0], found[1]

    def _drop(self, mask: TokenMask) -> None:
        old = self._tensors.pop(mask, None)
        self._left += 0 if old is None else old.nbytes


class Distributions:
    """The next-token distributions of one batch.

    Attributes:
        logits: float32, shape (rows, V).
        sums: probability of each block of 256 tokens, float64, shape (rows, blocks).
        lse: log of the sum of the exponentiated logits, float64, shape (rows,).
        log_z: what a prior's logs have more than those of a row, which sum to 1 (see
            :mod:`.warping`), by row; None where that is nothing.
    """

    def __init__(
        self,
        logits: torch.Tensor,
        cache: MaskCache,
        wanted: Iterable[tuple[int, TokenMask | None]] = (),
        log_z: list[float] | None = None,
    ) -> None:
        """Sum up a batch.

        Args:
            logits: float32, shape (rows, V), any temperature applied.
            cache: where masks' tensors are.
            wanted: (row, mask) pairs that will be asked about at once.
            log_z: see the attribute.
        """
        self.logits = logits
        self.log_z = log_z
        self._cache = cache
        rows, size = logits.shape
        self.sums = logits.new_empty((rows, _blocks(size)), dtype=torch.float64)
        self._masked: list[dict[TokenMask, torch.Tensor]] = [{} for _ in range(rows)]
        self._sum_up(wanted, everything=True)
        # From the likeliest block: its logits against its probability. Softmax has summed the
        # vocabulary already, and a logsumexp of our own would read all of it once more.
        block = self.sums.argmax(-1)
        piece = _piece([Row(self, i) for i in range(rows)], block)
        self.lse = piece.logsumexp(-1) - self.sums.gather(-1, block[:, None])[:, 0].log()

    def masked(self, queries: Sequence[tuple[int, TokenMask]]) -> list[torch.Tensor]:
        """Sums by block under dense masks, float64, shape (blocks,) each."""
        unknown = [(i, mask) for i, mask in queries if mask not in self._masked[i]]
        if unknown:
            for i in {i for i, _ in unknown}:
                known = self._masked[i]
                if len(known) > _MASKS_A_ROW:  # keep what this round asks for
                    wanted = [mask for j, mask in queries if j == i and mask in known]
                    self._masked[i] = {mask: known[mask] for mask in wanted}
            self._sum_up(unknown)
        return [self._masked[i][mask] for i, mask in queries]

    def _sum_up(
        self, wanted: Iterable[tuple[int, TokenMask | None]], everything: bool = False
    ) -> None:
        device, (rows, size) = self.logits.device, self.logits.shape
        # A chunk of rows stays in the cache while every mask of its rows is multiplied with it.
        step = max(1, _CHUNK.get(device.type, 2**28) // size)
        chunks: dict[int, dict[TokenMask, dict[int, None]]] = {}
        for i, mask in wanted:
            if mask is not None and self._cache.get(mask, device).dim() == 2:
                chunks.setdefault(i // step * step, {}).setdefault(mask, {})[i] = None
        # Zero past the vocabulary, so that the last block's sum needs no case of its own.
        padded, products = self._cache.scratch(self.logits, min(step, rows))
        for a in range(0, rows, step) if everything else sorted(chunks):
            logits = self.logits[a : a + step]
            n = len(logits)
            p = padded[:n]
            torch.softmax(logits, -1, out=p.view(n, -1)[:, :size])
            if everything:
                self.sums[a : a + n] = p.sum(-1)
            for mask, members in chunks.get(a, {}).items():
                dense = self._cache.get(mask, device)
                some = p if len(members) == n else p[[i - a for i in members]]
                # A whole chunk is not gathered: it is in the order of its rows, not of the queries.
                order = sorted(members) if len(members) == n else members
                sums = torch.mul(some, dense, out=products[: len(members)]).sum(-1).double()
                for i, row in zip(order, sums, strict=True):
                    self._masked[i][mask] = row


def log_prob(rows: Sequence[Row], tokens: Sequence[int]) -> list[float]:
    """Log-probability of one token a row (-1 for none: any value)."""
    device = rows[0].batch.logits.device
    ids = torch.tensor(tokens, device=device).clamp(min=0)[:, None]
    logs: list[float] = (_take(rows, ids)[:, 0].double() - _lse(rows)).tolist()
    return logs


def log_mass(queries: Sequence[Query], cache: MaskCache) -> list[float]:
    """Log of the probability of each query's mask; 0 where there is none."""
    out = [0.0] * len(queries)
    work = _Work([(k, q) for k, q in enumerate(queries) if q.mask is not None], cache)
    for (k, _), total in zip(work.dense, work.totals, strict=True):
        # Rounding may sum to more than 1, and a log mass above 0 would raise a weight.
        out[k] = min(0.0, math.log(total))
    if work.listed:
        for (k, _), log in zip(work.listed, work.log_listed.tolist(), strict=True):
            out[k] = log
    return out


def log_segments(
    rows: Sequence[Row], nodes: Sequence[TrieNode], masks: Sequence[TokenMask | None]
) -> list[NDArray[np.float64]]:
    """Log-probability of each segment of a row's trie node (see :mod:`disciple_ext.protocol.trie`).

    Sums are taken within a segment, in float64 and relative to the largest term, so that a mass
    as small as 1e-300 keeps its digits.
    """
    out: list[NDArray[np.float64]] = [np.empty(0)] * len(rows)
    by_node: dict[TrieNode, list[int]] = {}
    for k, node in enumerate(nodes):
        by_node.setdefault(node, []).append(k)
    for node, members in by_node.items():
        if not len(node.ids):
            continue
        mine = [rows[k] for k in members]
        device = mine[0].batch.logits.device
        ids = torch.from_numpy(node.ids).to(device).expand(len(mine), -1)
        logs = (_take(mine, ids).double() - _lse(mine)[:, None]).cpu().numpy()
        for row, k in enumerate(members):
            mask = masks[k]
            if mask is not None:
                logs[row, ~mask.array[node.ids]] = -math.inf
        top = logs.max(1, keepdims=True)
        # Where nothing has any mass, minus infinity less itself would be no number.
        top = np.where(np.isfinite(top), top, 0.0)
        sums = np.add.reduceat(np.exp(logs - top), node.starts, axis=1)
        with np.errstate(divide="ignore"):
            found = np.minimum(np.log(sums) + top, 0.0)
        for k, row in zip(members, found, strict=True):
            out[k] = row
    return out


def draw(
    queries: Sequence[Query], u: Sequence[float], cache: MaskCache
) -> tuple[list[int], list[float], list[float]]:
    """Draw one token a query by inverse CDF within its mask.

    Args:
        queries: distributions and masks.
        u: uniforms in [0, 1).
        cache: where masks' tensors are.

    Returns:
        The tokens (-1 where the mask leaves nothing), their log-probabilities without the mask,
        and the log masses of the masks.
    """
    tokens, log_mass = [-1] * len(queries), [0.0] * len(queries)
    work = _Work(list(enumerate(queries)), cache)
    if work.dense:
        chosen = _draw_dense(work, [u[k] for k, _ in work.dense], cache)
        for (k, query), total, token in zip(work.dense, work.totals, chosen, strict=True):
            tokens[k] = token
            log_mass[k] = 0.0 if query.mask is None else min(0.0, math.log(total))
    if work.listed:
        target = work.cdf[:, -1:] * work.cdf.new_tensor([u[k] for k, _ in work.listed])[:, None]
        offset = torch.searchsorted(work.cdf, target, right=True)
        # Rounding may step past the last token that has some probability.
        last = (work.cdf < work.cdf[:, -1:]).sum(-1, keepdim=True)
        token_of = work.ids.gather(-1, torch.minimum(offset, last))[:, 0].tolist()
        rows = zip(work.listed, token_of, work.log_listed.tolist(), strict=True)
        for (k, _), token, log in rows:
            tokens[k], log_mass[k] = (token if log > -math.inf else -1), log
    return tokens, log_prob([q.row for q in queries], tokens), log_mass


class _Work:
    """Numbered queries, parted: by sums over blocks, and by lists of tokens.

    There are two ways to answer because masks are of two kinds. One that allows half of the
    vocabulary is cheapest as a product over whole blocks, whose sums the row's other masks share;
    one of a dozen tokens is cheapest as those dozen logits. The list is also the exact way: sums of
    probabilities underflow where a mask's mass is tiny, and logs relative to the largest do not, so
    a dense query whose sum is tiny is answered again by its list.

    Attributes:
        dense: those answered by blocks, with sums (dense, blocks) and totals.
        listed: those answered by a list: ids and the weights' cumulative sums, both
            (listed, longest), and the logs of their masses.
    """

    def __init__(self, queries: Sequence[tuple[int, Query]], cache: MaskCache) -> None:
        self.dense: list[tuple[int, Query]] = []
        self.totals: list[float] = []
        self.listed: list[tuple[int, Query]] = []
        by_batch: dict[Distributions, list[tuple[int, Query]]] = {}
        for k, query in queries:
            (batch, _), mask = query
            if mask is not None and cache.get(mask, batch.logits.device).dim() == 1:
                self.listed.append((k, query))
            else:
                by_batch.setdefault(batch, []).append((k, query))
        sums: list[torch.Tensor] = []
        for batch, members in by_batch.items():
            self.dense += members
            sums.append(_sums(batch, [q for _, q in members]))
        if sums:
            self.sums = sums[0] if len(sums) == 1 else torch.cat(sums)
            self.cdf_blocks = self.sums.cumsum(-1)
            self.totals = self.cdf_blocks[:, -1].tolist()
            # Written so that a total that is no number is among them.
            tiny = [k for k, t in enumerate(self.totals) if not t >= _TINY]
            if tiny:
                self._list_instead(set(tiny))
        if self.listed:
            self._sum_lists(cache)

    def _list_instead(self, tiny: set[int]) -> None:
        keep = [k for k in range(len(self.dense)) if k not in tiny]
        self.listed += [self.dense[k] for k in sorted(tiny)]
        self.sums, self.cdf_blocks = self.sums[keep], self.cdf_blocks[keep]
        self.totals = [self.totals[k] for k in keep]
        self.dense = [self.dense[k] for k in keep]

    def _sum_lists(self, cache: MaskCache) -> None:
        rows = [q.row for _, q in self.listed]
        device = rows[0].batch.logits.device
        lists = []
        for _, (row, mask) in self.listed:
            if mask is None:  # not a number, or the like
                ids = torch.arange(row.batch.logits.shape[-1], device=device)
            else:
                ids = cache.get(mask, device)
                if ids.dim() == 2:  # its mass is tiny
                    ids = torch.from_numpy(mask.ids.copy()).to(device)
            lists.append(ids)
        padded = torch.nn.utils.rnn.pad_sequence(lists, batch_first=True, padding_value=-1)
        if padded.shape[1] == 0:
            padded = padded.new_full((len(lists), 1), -1)
        self.ids = padded.clamp(min=0)
        logs = _take(rows, self.ids).double().masked_fill_(padded < 0, -math.inf)
        top = logs.amax(-1)
        # Relative to the largest one, so that a tiny mass does not underflow.
        top = torch.where(top.isfinite(), top, 0.0)
        self.cdf = torch.exp(logs - top[:, None]).cumsum(-1)
        self.log_listed = (self.cdf[:, -1].log() + top - _lse(rows)).clamp(max=0.0)


def _draw_dense(work: _Work, u: Sequence[float], cache: MaskCache) -> list[int]:
    cdf, rows = work.cdf_blocks, [q.row for _, q in work.dense]
    target = cdf[:, -1:] * cdf.new_tensor(u)[:, None]
    # Two steps of an inverse CDF: a cumulative sum over a whole vocabulary of 128k would cost more
    # than the draw, one over 500 blocks and one over 256 tokens costs nothing.
    # First block whose cumulative sum exceeds the target; one of no mass never does first.
    block = torch.searchsorted(cdf, target, right=True)
    block = torch.minimum(block, (cdf < cdf[:, -1:]).sum(-1, keepdim=True))
    size = work.sums.gather(-1, block)
    rest = (target - cdf.gather(-1, block) + size).clamp(min=0.0) / size
    weights = torch.exp(_piece(rows, block[:, 0]) - _lse(rows)[:, None])
    if any(q.mask is not None for _, q in work.dense):
        one = weights.new_ones(_BLOCK, dtype=torch.float32)
        weights *= torch.stack(
            [
                one if q.mask is None else cache.get(q.mask, weights.device)[b]
                for (_, q), b in zip(work.dense, block[:, 0].tolist(), strict=True)
            ]
        )
    inner = weights.cumsum(-1)
    offset = torch.searchsorted(inner, rest * inner[:, -1:], right=True)
    offset = torch.minimum(offset, (inner < inner[:, -1:]).sum(-1, keepdim=True))
    tokens: list[int] = (block * _BLOCK + offset)[:, 0].tolist()
    return tokens


def _sums(batch: Distributions, queries: Sequence[Query]) -> torch.Tensor:
    if all(q.mask is None for q in queries):
        return batch.sums[[q.row.at for q in queries]]
    masked = iter(batch.masked([(q.row.at, q.mask) for q in queries if q.mask is not None]))
    return torch.stack([batch.sums[q.row.at] if q.mask is None else next(masked) for q in queries])


def _piece(rows: Sequence[Row], block: torch.Tensor) -> torch.Tensor:
    """The logits of one block a row, float64, shape (rows, 256); -inf past the last token."""
    size = rows[0].batch.logits.shape[-1]
    ids = block[:, None] * _BLOCK + torch.arange(_BLOCK, device=block.device)
    if size % _BLOCK == 0:
        return _take(rows, ids).double()
    return _take(rows, ids.clamp(max=size - 1)).double().masked_fill_(ids >= size, -math.inf)


def _take(rows: Sequence[Row], ids: torch.Tensor) -> torch.Tensor:
    """Logits at ids, both of shape (rows, any)."""
    first = rows[0].batch
    index = torch.tensor([r.at for r in rows], device=ids.device)
    if all(r.batch is first for r in rows):
        return first.logits[index[:, None], ids]
    out = first.logits.new_empty(ids.shape)
    for batch in {r.batch: None for r in rows}:
        mine = torch.tensor([k for k, r in enumerate(rows) if r.batch is batch], device=ids.device)
        out[mine] = batch.logits[index[mine, None], ids[mine]]
    return out


def _lse(rows: Sequence[Row]) -> torch.Tensor:
    first = rows[0].batch
    if all(r.batch is first for r in rows):
        return first.lse[[r.at for r in rows]]
    return torch.stack([r.batch.lse[r.at] for r in rows])


def _blocks(size: int) -> int:
    return -(-size // _BLOCK)
