"""Whole texts and spans under a mask that says when they may end.

Where a text may both end and go on, that is a draw of the follower's like any other, and the
weight is corrected for it. So the target stays the prior restricted to the constraint.
"""

from __future__ import annotations

from .masks.base import Mask
from .tokens import TokenMethods

__all__ = ["FillMethods"]


class FillMethods(TokenMethods):
    """Texts drawn until a mask is satisfied, for :class:`BaseModel`."""

    async def fill(self, mask: Mask, tokens: int | None = None) -> bool:
        """Draw the rest of a whole text under ``mask``, until it is complete and wants to end.

        Then write ``await self.end()``. With ``tokens``, at most so many are drawn, and False
        means that the text goes on, in the next step.

        Args:
            mask: a mask in force that says when the text may end.
            tokens: tokens to draw at most, or None for no limit.
        """
        _need_ends("fill", mask)
        drawn = 0
        while tokens is None or drawn < tokens:
            if mask.complete and (self._is_done(mask) or await self.wants_to_end()):
                return True
            await self.next_token()
            drawn += 1
        return False

    async def fill_span(self, mask: Mask) -> str:
        """Draw a part of the text under ``mask``; other text follows it.

        Where the part is complete but could go on, the Follower says whether the next token goes
        on with it; if not, that stays pending, so that what follows it cannot be taken for more
        of it.

        Args:
            mask: a mask in force that says when its part of the text is complete.
        """
        _need_ends("fill_span", mask)
        begin, support = len(self.text), self.context.follower.vocabulary.text_mask
        while not (mask.complete and self._is_done(mask)):
            if mask.complete:
                more = self._allowed(support)
                assert more is not None
                # Given the other masks only: under this one, too, the answer would always be yes.
                others = self.masks.current(self.context.drawable, without=mask)
                if not more or not await self._branch(more, others):
                    break
            await self.next_token()
        return self.text[begin:]

    def _is_done(self, mask: Mask) -> bool:
        """Whether a complete mask no longer rules anything out: it was for what came before."""
        return mask.allowed(self.masks.vocabulary) is None


def _need_ends(method: str, mask: Mask) -> None:
    if getattr(mask, "complete", None) is None:
        raise TypeError(
            f"{method}() takes a mask that says when a text is complete, such as RegexMask or "
            f"JsonMask, not {type(mask).__name__}; draw under it with 'await self.next_token()'"
        )
