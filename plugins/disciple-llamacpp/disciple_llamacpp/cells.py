"""Which sequences hold which texts: where a text goes on, and what is forgotten for it.

llama.cpp holds keys and values in cells, one for each token that was evaluated, and a cell belongs
to any number of sequences. So texts that begin alike share the cells of their beginning, and a
clone of a particle costs no cell. This is the book of it, by prefix nodes; it computes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from disciple_ext.protocol.prefix import Prefix

__all__ = ["Cell", "Cells"]


class Cell:
    """A token that was evaluated.

    Attributes:
        node: the text up to it.
        sequences: those that it belongs to.
    """

    __slots__ = ("node", "sequences")

    def __init__(self, node: Prefix) -> None:
        self.node = node
        self.sequences: set[int] = set()


class Cells:
    """The sequences, their cells, and who was used last.

    Attributes:
        limit: cells that there are.
        used: cells that some sequence holds.
        paths: the cells of each sequence in use, in order, the one used longest ago first.
    """

    def __init__(
        self,
        limit: int,
        sequences: int,
        copy: Callable[[int, int, int], None],
        drop: Callable[[int, int], None],
    ) -> None:
        """Begin with none.

        Args:
            limit: cells that there are.
            sequences: sequences that there may be.
            copy: (source, target, length): what is to happen where a sequence begins as another.
            drop: (sequence, length): what is to happen where all behind a length is forgotten.
        """
        self.limit = limit
        self.used = 0
        self.paths: OrderedDict[int, list[Cell]] = OrderedDict()
        self._where: dict[Prefix, Cell] = {}
        self._free = list(range(sequences - 1, -1, -1))
        self._copy, self._drop = copy, drop

    def known(self, context: Prefix) -> Prefix:
        """The longest beginning that is held and leaves at least the last token to evaluate."""
        node = context.parent
        while node is not None and node.length and node not in self._where:
            node = node.parent
        return node if node is not None else Prefix.ROOT

    def begin(self, known: Prefix, keep: set[int]) -> int | None:
        """A sequence that holds ``known`` and nothing more.

        Args:
            known: what :meth:`known` gave; held still, since nothing was forgotten in between.
            keep: sequences that must stay as they are.

        Returns:
            Its number, or None where all sequences are to be kept.
        """
        holder = self._where.get(known)
        for sequence in holder.sequences if holder is not None else ():
            # One that ends there goes on: what it holds may still be copied from it.
            if sequence not in keep and len(self.paths[sequence]) == known.length:
                self.paths.move_to_end(sequence)
                return sequence
        path: list[Cell] = []
        if holder is not None:
            source = next(iter(holder.sequences))
            path = self.paths[source][: known.length]
        if not self._free and not self._forget_one(keep | ({source} if path else set())):
            # Last, the source itself may go: its number, without what lies behind ``known``.
            if not path or source in keep:
                return None
            self._cut(source, known.length)
            self.paths.move_to_end(source)
            return source
        sequence = self._free.pop()
        if path:
            self._copy(source, sequence, known.length)
            for cell in path:
                cell.sequences.add(sequence)
        self.paths[sequence] = path
        return sequence

    def make_room(self, count: int, keep: set[int]) -> bool:
        """Forget what was used longest ago until so many cells are free; whether they are."""
        while self.used + count > self.limit:
            if not self._forget_one(keep):
                return False
        return True

    def add(self, node: Prefix, sequences: Iterable[int]) -> None:
        """Enter a token that is evaluated: the next one of each of the sequences."""
        cell = Cell(node)
        for sequence in sequences:
            cell.sequences.add(sequence)
            self.paths[sequence].append(cell)
        self.used += 1
        self._where.setdefault(node, cell)

    def _forget_one(self, keep: set[int]) -> bool:
        oldest = next((s for s in self.paths if s not in keep), None)
        if oldest is None:
            return False
        self._cut(oldest, 0)
        del self.paths[oldest]
        self._free.append(oldest)
        return True

    def _cut(self, sequence: int, length: int) -> None:
        """Forget what a sequence holds behind its first tokens."""
        path = self.paths[sequence]
        self._drop(sequence, length)
        for cell in path[length:]:
            cell.sequences.discard(sequence)
            if not cell.sequences:
                self.used -= 1
                if self._where.get(cell.node) is cell:
                    del self._where[cell.node]
        del path[length:]
