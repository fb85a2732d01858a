"""The next-token distributions that a follower has computed, by context and measure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from ..protocol.requests import Request, RowKey
from ..protocol.vocabulary import TokenMask
from .backend import Backend
from .engine import drawing, warping
from .engine.drawing import Distributions, Row

__all__ = ["Remembered"]


class Remembered:
    """Distributions that were computed, the latest ones kept.

    Attributes:
        backend: what computes them.
        masks: what is known of masks, by the batch.
        rows: each distribution, as a row of the batch that it was computed in.
    """

    def __init__(self, backend: Backend, most: int) -> None:
        """Begin with none.

        Args:
            backend: what computes logits.
            most: distributions kept.
        """
        self.backend = backend
        self.masks = drawing.MaskCache()
        self.rows: dict[RowKey, Row] = {}
        self._batches: OrderedDict[Distributions, list[RowKey]] = OrderedDict()
        self._most = most

    def forget(self) -> None:
        """Drop them all."""
        self.rows.clear()
        self._batches.clear()

    def answers(self, request: Request) -> bool:
        """Whether the answer to a request is made of what is there."""
        rows = self.rows
        known = False  # what needs no distribution is no matter of these
        for key in request.rows:
            known = key in rows
            if not known:
                return False
        return known

    async def compute(self, requests: Sequence[Request]) -> None:
        """Have the backend compute every distribution that requests need and that is not there."""
        needed: dict[RowKey, list[TokenMask | None]] = {}
        for request in requests:
            masks = request.measured
            for key in request.rows:
                needed.setdefault(key, []).extend(masks)
                masks = ()  # those of the first context, from which is drawn
        missing = []
        for key in needed:
            row = self.rows.get(key)
            if row is None:
                missing.append(key)
            else:
                self._batches.move_to_end(row.batch)
        if not missing:
            return
        contexts = list(dict.fromkeys(context for context, _ in missing))
        logits = await self.backend.logits(contexts)
        log_z = None
        # At temperature 1 the logits are used as they are: to divide would copy the batch.
        if len(contexts) < len(missing) or any(how != 1.0 for _, how in missing):
            index = {context: i for i, context in enumerate(contexts)}
            places = [index[context] for context, _ in missing]
            logits, log_z = warping.warped(logits, places, [how for _, how in missing])
        wanted = [(i, mask) for i, key in enumerate(missing) for mask in needed[key]]
        batch = Distributions(logits, self.masks, wanted, log_z)
        self.rows.update((key, Row(batch, i)) for i, key in enumerate(missing))
        # A row keeps its whole batch, so that whole batches are forgotten.
        self._batches[batch] = missing
        used = {self.rows[key].batch for key in needed}
        while len(self.rows) > self._most:
            oldest = next(iter(self._batches))
            # What this round is about to read stays, whatever the bound.
            if oldest in used:
                break
            for key in self._batches.pop(oldest):
                del self.rows[key]
