"""Contexts to logits: what is not known of them goes through llama.cpp, each token once."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch

from disciple_ext.errors import FollowerError
from disciple_ext.follower.backend import Backend
from disciple_ext.protocol.prefix import Prefix
from disciple_ext.protocol.requests import Tokens

from .cells import Cells
from .engine import Engine, Row

__all__ = ["LlamaCppBackend"]


class LlamaCppBackend(Backend):
    """Logits from llama.cpp, whose sequences share the cells of what begins alike.

    Attributes:
        engine: the model.
        max_context: tokens a context may have: the model's own limit, or the cells if they are
            fewer.
    """

    def __init__(
        self, engine: Engine, *, cells: int, sequences: int, max_context: int | None
    ) -> None:
        """Wrap a loaded model.

        Args:
            engine: the model.
            cells: tokens whose keys and values it holds.
            sequences: texts that it holds.
            max_context: the model's own limit, or None where it names none.
        """
        self.engine = engine
        self.max_context: int | None = min(cells, max_context or cells)
        self._limits = cells, sequences
        self._cells = Cells(cells, sequences, engine.copy, engine.drop)
        # The book and the library go together, and runs may be in several threads.
        self._one_at_a_time = threading.Lock()

    @property
    def forwards(self) -> int:  # type: ignore[override]
        """Batches that llama.cpp computed so far."""
        return self.engine.calls

    def forget(self) -> None:
        """Drop all keys and values."""
        with self._one_at_a_time:
            self._clear()

    async def logits(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        """Next-token logits of distinct contexts: float32, shape (contexts, vocabulary)."""
        return self._evaluate([[context] for context in contexts])

    async def score(self, pairs: Sequence[tuple[Prefix, Tokens]]) -> list[torch.Tensor]:
        """Logits before each token of (context, tokens) pairs: float32, (tokens, vocabulary)."""
        chains = []
        for context, tokens in pairs:
            chain = [context]
            for token in tokens[:-1]:
                chain.append(chain[-1].then(token))
            chains.append(chain)
        rows = self._evaluate(chains)
        places = _outputs(chains)
        return [rows[[places[node] for node in chain]] for chain in chains]

    def _evaluate(self, chains: Sequence[Sequence[Prefix]]) -> torch.Tensor:
        """Logits after each node of chains, a node once, in the order in which they come."""
        outputs = _outputs(chains)
        out = torch.empty((len(outputs), self.engine.size), dtype=torch.float32)
        with self._one_at_a_time:
            # What goes on by a token first: it would be forgotten for what is new.
            fresh = [chain[-1].length - self._cells.known(chain[0]).length for chain in chains]
            order = sorted(range(len(chains)), key=fresh.__getitem__)
            most = self._limits[1]
            groups = [order[i : i + most] for i in range(0, len(order), most)]
            try:
                while groups:
                    group = groups.pop(0)
                    if self._group([chains[i] for i in group], outputs, out):
                        continue
                    if len(group) == 1:
                        raise self._too_long(chains[group[0]][-1])
                    half = len(group) // 2
                    groups[:0] = [group[:half], group[half:]]
            except BaseException:
                self._clear()  # the book and the library may differ by now
                raise
        return out

    def _group(
        self, chains: Sequence[Sequence[Prefix]], outputs: dict[Prefix, int], out: torch.Tensor
    ) -> bool:
        """Evaluate chains as one batch; False where there is no room for all of them."""
        keep: set[int] = set()
        # By what is known before it, too: llama.cpp refuses a token that two sequences share where
        # they are not equally long.
        new: dict[tuple[Prefix, Prefix], list[int]] = {}
        for chain in chains:
            known = self._cells.known(chain[0])
            sequence = self._cells.begin(known, keep)
            if sequence is None:
                return False
            keep.add(sequence)
            node = known
            for token in chain[-1].after(known):
                node = node.then(token)
                new.setdefault((known, node), []).append(sequence)
        if not self._cells.make_room(len(new), keep):
            return False
        wanted = {node for chain in chains for node in chain}
        rows = []
        for (_, node), sequences in new.items():
            output = outputs[node] if node in wanted else None
            wanted.discard(node)
            rows.append(Row(node.token, node.length - 1, sequences, output))
        self.engine.decode(rows, out)
        for (_, node), sequences in new.items():
            self._cells.add(node, sequences)
        return True

    def _clear(self) -> None:
        self.engine.clear()
        self._cells = Cells(*self._limits, self.engine.copy, self.engine.drop)

    def _too_long(self, context: Prefix) -> FollowerError:
        cells = self._limits[0]
        return FollowerError(
            f"a context of {context.length} tokens finds no room in the {cells} cells of this "
            f"follower; load it with more, as in llamacpp:PATH,context={2 * cells}"
        )


def _outputs(chains: Sequence[Sequence[Prefix]]) -> dict[Prefix, int]:
    """A row for each node of chains, in the order in which they come."""
    nodes = dict.fromkeys(node for chain in chains for node in chain)
    return {node: row for row, node in enumerate(nodes)}
