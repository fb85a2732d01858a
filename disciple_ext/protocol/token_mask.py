"""Sets of token ids, and the memos that keep them: by identity, bounded in number and bytes.

This module needs numpy only, so that it also loads inside the sandbox.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["BoolArray", "MaskMemo", "TokenMask", "from_ids", "intersect"]

BoolArray = NDArray[np.bool_]
K = TypeVar("K", bound=Hashable)


class TokenMask(AbstractSet[int]):
    """An immutable set of token ids: a list of ids where they are few, else one boolean a token.

    It is also a Python set of ints, so that code written for LLaMPPL's masks takes it.

    Attributes:
        size: the vocabulary's size.
        name: what a person calls it, for messages.
    """

    __slots__ = ("__weakref__", "_array", "_ids", "name", "size")

    def __init__(self, array: BoolArray, name: str = "mask") -> None:
        self.size = len(array)
        self.name = name
        self._array: BoolArray | None = None
        self._ids: NDArray[np.int64] | None = None
        if _few(int(np.count_nonzero(array)), self.size):
            self._ids = np.flatnonzero(array)
        else:
            self._array = _read_only(np.ascontiguousarray(array, dtype=np.bool_))

    @classmethod
    def of_ids(cls, ids: NDArray[np.integer[Any]], size: int, name: str = "mask") -> TokenMask:
        """The mask of ascending ids below ``size``, each of them once."""
        if not _few(len(ids), size):
            array = np.zeros(size, dtype=np.bool_)
            array[ids] = True
            return cls(array, name)
        mask = cls.__new__(cls)
        mask.size, mask.name, mask._array = size, name, None
        mask._ids = np.asarray(ids, dtype=np.int64)
        return mask

    @property
    def array(self) -> BoolArray:
        """Read-only booleans, shape (vocabulary size,); made anew for a mask of few ids."""
        if self._array is not None:
            return self._array
        array = np.zeros(self.size, dtype=np.bool_)
        array[self._ids] = True
        return _read_only(array)

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids in the mask, ascending; made anew where they are many."""
        return np.flatnonzero(self.array) if self._ids is None else self._ids

    @property
    def sparse(self) -> bool:
        """Whether it is kept as a list of ids."""
        return self._ids is not None

    @property
    def nbytes(self) -> int:
        """Bytes that its contents take."""
        return 8 * len(self._ids) if self._ids is not None else self.size

    def __contains__(self, token: object) -> bool:
        if not isinstance(token, int | np.integer) or not 0 <= token < self.size:
            return False
        if self._array is not None:
            return bool(self._array[token])
        assert self._ids is not None
        at = int(np.searchsorted(self._ids, token))
        return at < len(self._ids) and bool(self._ids[at] == token)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids.tolist())

    def __len__(self) -> int:
        return len(self._ids) if self._ids is not None else int(np.count_nonzero(self.array))

    # Identity, not content: masks are interned by the vocabulary, and are keys of caches.
    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, TokenMask):
            return self.size == other.size and bool(np.array_equal(self.ids, other.ids))
        return NotImplemented if not isinstance(other, AbstractSet) else set(self) == other

    def __and__(self, other: AbstractSet[object]) -> TokenMask:
        return intersect(self, self._coerce(other))

    __rand__ = __and__

    def __or__(self, other: AbstractSet[object]) -> TokenMask:
        return _union(self, self._coerce(other))

    __ror__ = __or__

    def __sub__(self, other: AbstractSet[object]) -> TokenMask:
        return intersect(self, ~self._coerce(other))

    def __rsub__(self, other: AbstractSet[object]) -> TokenMask:
        return intersect(self._coerce(other), ~self)

    def __invert__(self) -> TokenMask:
        return _complement(self)

    def _coerce(self, other: AbstractSet[object]) -> TokenMask:
        return other if isinstance(other, TokenMask) else from_ids(other, self.size)

    def __deepcopy__(self, memo: object) -> TokenMask:
        return self  # immutable

    def __repr__(self) -> str:
        return f"<TokenMask {self.name}: {len(self)} of {self.size}>"


def _few(count: int, size: int) -> bool:
    # An id takes eight bytes, a boolean one: the list is kept where it is the smaller.
    return 8 * count <= size


def _read_only(array: BoolArray) -> BoolArray:
    # All particles share a mask: none of them may write into it.
    array.setflags(write=False)
    return array


def from_ids(ids: Iterable[object], size: int, name: str = "tokens") -> TokenMask:
    """A mask of the given token ids (ids outside the vocabulary are ignored)."""
    keep = {int(i) for i in ids if 0 <= int(i) < size}  # type: ignore[call-overload]
    return TokenMask.of_ids(np.array(sorted(keep), dtype=np.int64), size, name)


class MaskMemo(Generic[K]):
    """Masks by key, the most recently used ones: a bounded number, of a bounded number of bytes."""

    def __init__(self, entries: int = 1024, nbytes: int = 2**25) -> None:
        self._most, self._left = entries, nbytes
        self._known: OrderedDict[K, TokenMask] = OrderedDict()

    def get(self, key: K, build: Callable[[], TokenMask]) -> TokenMask:
        """The mask of ``key``, built on first use."""
        # Taken out and put back at the end: what was used longest ago stands first.
        found = self._known.pop(key, None)
        if found is None:
            found = build()
            self._left -= found.nbytes
        self._known[key] = found
        # The mask that was asked for stays, even where it alone is over the bound.
        while len(self._known) > (self._most if self._left >= 0 else 1):
            self._left += self._known.popitem(last=False)[1].nbytes
        return found


# By identity; a mask that is a key lives as long as what was computed from it is kept.
_intersections: MaskMemo[tuple[TokenMask, TokenMask]] = MaskMemo()
_unions: MaskMemo[tuple[TokenMask, TokenMask]] = MaskMemo()
_complements: MaskMemo[TokenMask] = MaskMemo()


def intersect(a: TokenMask, b: TokenMask) -> TokenMask:
    """The tokens in both masks (``a`` itself where ``b`` has them all); memoised by identity."""
    return a if a is b else _intersections.get((a, b), lambda: _both(a, b))


def _both(a: TokenMask, b: TokenMask) -> TokenMask:
    name = f"{a.name} and {b.name}"
    few, other = (a, b) if a.sparse and (not b.sparse or len(a) <= len(b)) else (b, a)
    if few.sparse:
        ids = few.ids
        within = other.array[ids] if not other.sparse else np.isin(ids, other.ids)
        both = TokenMask.of_ids(ids[within], a.size, name)
    else:
        both = TokenMask(a.array & b.array, name)
    count = len(both)
    # A mask that is there already, where it is the same: caches tell masks apart by identity.
    return a if count == len(a) else b if count == len(b) else both


def _union(a: TokenMask, b: TokenMask) -> TokenMask:
    def build() -> TokenMask:
        return TokenMask(a.array | b.array, f"{a.name} or {b.name}")

    return _unions.get((a, b), build)


def _complement(mask: TokenMask) -> TokenMask:
    return _complements.get(mask, lambda: TokenMask(~mask.array, f"not {mask.name}"))
