"""Token sequences as interned nodes: each is its parent and one token more.

A text grows by one node a token, whatever its length. Nodes compare and hash by identity, and
clones of a particle share them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from operator import index
from typing import ClassVar

__all__ = ["Prefix"]


class Prefix:
    """The token ids of a context, immutable: those of ``parent``, then ``token``.

    Nodes are made by :meth:`then`, :meth:`extend` and :meth:`of` only. Equal sequences made in
    one thread are one object. Two threads that make the same node at once may get two, which
    costs no more than a miss in what is cached by node.

    Attributes:
        ROOT: the empty sequence.
        parent: all tokens but the last, or None for the root.
        token: the last token id, or -1 for the root.
        length: number of tokens.
        highest: the largest token id in it, or -1 for the root; so that a range is checked at once.
    """

    __slots__ = ("__weakref__", "_children", "highest", "length", "parent", "token")

    ROOT: ClassVar[Prefix]

    def __init__(self, parent: Prefix | None, token: int) -> None:
        self.parent = parent
        self.token = token
        self.length: int = 0 if parent is None else parent.length + 1
        self.highest: int = token if parent is None else max(parent.highest, token)
        # Weak, so that a node lives only as long as somebody uses it or one that follows it. The
        # entry of a dead one stays: there is at most one a token id.
        self._children: dict[int, weakref.ref[Prefix]] | None = None

    def then(self, token: int) -> Prefix:
        """This sequence and one token more.

        Raises:
            TypeError: ``token`` is not an integer.
            ValueError: ``token`` is negative.
        """
        # numpy's integers become plain, and floats are refused: 3.0 would find the node of 3.
        token = index(token)
        if self._children is None:
            self._children = {}
        known = self._children.get(token)
        child = known() if known is not None else None
        if child is None:
            # Only here: a node that is known has passed the test.
            if token < 0:
                raise ValueError(f"a token id cannot be {token}")
            child = Prefix(self, token)
            self._children[token] = weakref.ref(child)
        return child

    def extend(self, tokens: Iterable[int]) -> Prefix:
        """This sequence and ``tokens`` after it."""
        node = self
        for token in tokens:
            node = node.then(token)
        return node

    @classmethod
    def of(cls, tokens: Iterable[int]) -> Prefix:
        """The sequence of ``tokens``."""
        return cls.ROOT.extend(tokens)

    @property
    def tokens(self) -> tuple[int, ...]:
        """All token ids; it walks the whole chain."""
        return self.after(Prefix.ROOT)

    def after(self, ancestor: Prefix) -> tuple[int, ...]:
        """Token ids past those of ``ancestor``.

        Raises:
            ValueError: ``ancestor`` is no beginning of this sequence.
        """
        tokens: list[int] = []
        node: Prefix | None = self
        while node is not ancestor:
            if node is None:
                raise ValueError(f"{ancestor!r} is no beginning of {self!r}")
            tokens.append(node.token)
            node = node.parent
        tokens.reverse()
        return tuple(tokens)

    def __len__(self) -> int:
        return self.length

    def __bool__(self) -> bool:
        return True  # a request's context is there even where it is empty

    def __repr__(self) -> str:
        return f"<Prefix: {self.length} tokens, the last {self.token}>"

    def __copy__(self) -> Prefix:
        return self

    def __deepcopy__(self, memo: object) -> Prefix:
        return self


Prefix.ROOT = Prefix(None, -1)
