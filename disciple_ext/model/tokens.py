"""The next token, what it may be, and the end of the text: draws that correct the weight."""

from __future__ import annotations

from collections.abc import Iterable

from ..protocol.vocabulary import intersect
from .bytewise import BytewiseText
from .distributions import Token
from .masks.characters import marks

__all__ = ["TokenMethods"]


class TokenMethods(BytewiseText):
    """The tokens of :class:`BaseModel`; text that is drawn by the character may stand before."""

    async def next_token(self) -> Token:
        """Draw the next token of the text: never an end of text or a special token."""
        return await self._draw(self.context.follower.vocabulary.text_mask)

    async def wants(self, chars: str | Iterable[str]) -> bool:
        """Is the next token one of these marks? A draw, weight corrected, pending.

        Args:
            chars: marks of one character each as a string, or the texts of whole tokens.
        """
        await self._settle()
        vocabulary = self.context.follower.vocabulary
        return await self._branch(marks(vocabulary, chars), self._allowed(vocabulary.text_mask))

    async def wants_to_end(self) -> bool:
        """Does the text want to end here? A draw from the proposal, weight corrected.

        The outcome stays pending: the :meth:`end` or token that follows is scored given it.
        """
        if self.spelled is not None:
            return await self._wants_to_end_chars(self.spelled)
        vocabulary = self.context.follower.vocabulary
        within, may_end = self.context.drawable, self.masks.may_end
        if may_end is not None:  # other masks rule on text, and do not bear on whether it ends
            over = vocabulary.eos_mask
            over = over if within is None else intersect(within, over)
            text = self._allowed(vocabulary.text_mask)
            assert text is not None
            within = text | over if may_end else text
        return await self._branch(vocabulary.eos_mask, within)

    async def end(self) -> None:
        """Close the text: the weight is multiplied by the prior's mass of the end of text.

        It has no proposal term. On a finished particle it does nothing; after a drawn end of
        text it only finishes.
        """
        if self.finished:
            return
        if self.spelled is not None and self.finish_reason != "ended":
            await self._end_chars()
            self.finish_reason = "ended"
        if self.finish_reason != "ended":
            if self.masks.may_end is False:
                self._die_of_mask(None, "the end of the text")
            await self._observe_mask(self.context.follower.vocabulary.eos_mask, "end")
            self.finish_reason = "ended"
        # After `finish_reason` is set, so that the services hear that the text is whole.
        await self._charge_whole()
        self.finish()

    def finish(self) -> None:
        """Finish the particle as it is (LLaMPPL's ``finish``)."""
        self._write_tokens()
        super().finish()
        if self.finish_reason is None:
            self.finish_reason = "ended"
