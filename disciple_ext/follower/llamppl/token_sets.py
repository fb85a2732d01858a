"""LLaMPPL's masks as they are, in sets that remember what they are as arrays."""

from __future__ import annotations

from typing import Any

from llamppl import llms

from ...protocol.vocabulary import TokenMask, from_ids

__all__ = ["Masks", "TokenSet"]


class TokenSet(set[int]):
    """A set of token ids, which our contexts turn into a mask once and not at every step."""

    _mask: TokenMask | None = None

    def as_mask(self, size: int) -> TokenMask:
        """The set as a mask over ``size`` ids; made anew only after the set has changed."""
        if self._mask is None or self._mask.size != size:
            self._mask = from_ids(self, size)
        return self._mask

    def copy(self) -> TokenSet:
        """Another set of the same ids."""
        twin = TokenSet(self)
        twin._mask = self._mask
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> TokenSet:
        return self.copy()


def _forgetting(name: str) -> Any:
    change = getattr(set, name)

    def method(self: TokenSet, *args: Any) -> Any:
        self._mask = None
        return change(self, *args)

    method.__name__, method.__doc__ = name, change.__doc__
    return method


# Every method that changes a set: a mask that is left over would be another set's.
for _name in (
    *("add", "clear", "discard", "pop", "remove", "update"),
    *("difference_update", "intersection_update", "symmetric_difference_update"),
    *("__iand__", "__ior__", "__isub__", "__ixor__"),
):
    setattr(TokenSet, _name, _forgetting(_name))


class Masks(llms.Masks):  # type: ignore[misc]  # llamppl ships no types
    """LLaMPPL's own masks, computed by its own code."""

    def __init__(self, lm: Any, size: int) -> None:
        """Compute the masks.

        Args:
            lm: what has ``str_vocab`` and ``tokenizer``.
            size: length of the model's logits.
        """
        super().__init__(lm)
        self._size = size
        for name, value in vars(self).items():
            if isinstance(value, set):
                setattr(self, name, TokenSet(value))
        self._by_length: dict[tuple[int | None, int | None], TokenSet] = {}

    def token_length_mask(self, min: int | None = None, max: int | None = None) -> TokenSet:
        """Tokens of ``min`` to ``max`` characters; special tokens have length 0, as in LLaMPPL."""
        known = self._by_length.get((min, max))
        if known is None:
            known = TokenSet(super().token_length_mask(min, max))
            known.as_mask(self._size)
            if len(self._by_length) >= 256:
                self._by_length.clear()
            self._by_length[min, max] = known
        return known.copy()  # the caller's own: a set may be changed

    def __deepcopy__(self, memo: object) -> Masks:
        return self
