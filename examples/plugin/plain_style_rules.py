"""What programs see: a mask and a function. It is imported in the sandbox's worker, too."""

from __future__ import annotations

from disciple_ext.model.masks.base import Mask
from disciple_ext.protocol.vocabulary import TokenMask, Vocabulary

__all__ = ["LowerCaseMask", "long_words"]


class LowerCaseMask(Mask):
    """No capital letters."""

    def allowed(self, vocabulary: Vocabulary) -> TokenMask:
        """The tokens without a capital; the mask is built once for each vocabulary."""
        return vocabulary.where("lower case", "no capital", lambda text: text == text.lower())


def long_words(text: str, letters: int = 9) -> list[str]:
    """The words of a text with more letters than that."""
    return [word for word in text.split() if sum(map(str.isalpha, word)) > letters]
