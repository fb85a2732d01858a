"""Masks over the characters and words of what comes next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...protocol.utf8 import bytes_of
from ...protocol.vocabulary import TokenMask, Vocabulary, unfinished
from ...text.shorten import clipped
from .base import HasMasks, Mask, last_word

__all__ = [
    "ALL_MASKS",
    "AvoidCharsMask",
    "AvoidWordsMask",
    "CharsMask",
    "ChoiceMask",
    "MaxCharsMask",
    "PunctuationMask",
    "WordLengthMask",
    "avoid_words",
    "marks",
]


class MaxCharsMask(Mask):
    """At most ``max_chars`` more characters in the whole block.

    The budget is set at entry and falls with each token. Characters are code points; a token
    that ends inside one counts it already, and the text stays valid UTF-8.
    """

    def __init__(self, particle: HasMasks, max_chars: int) -> None:
        super().__init__(particle)
        self.max_chars = int(max_chars)
        self.left = self.max_chars

    def enter(self) -> None:
        self.left = self.max_chars
        # A character that began before the block is not counted again when it ends in it.
        self.begun = unfinished(self._stack.text)

    def allowed(self, vocabulary: Vocabulary) -> TokenMask:
        return vocabulary.max_chars(self.left, self.begun)

    def allowed_bytes(self, begun: bytes) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        return None if begun or self.left > 0 else np.zeros(256, np.bool_)

    def consume(self, data: bytes) -> None:
        self.left -= sum(b & 0xC0 != 0x80 for b in data)
        self.begun = unfinished(self.begun + data)

    def __repr__(self) -> str:
        return f"MaxCharsMask(max_chars={self.max_chars}, {self.left} left)"


class PunctuationMask(Mask):
    """The next token is exactly one of ``chars``, by default a mark that ends a sentence."""

    def __init__(self, particle: HasMasks, chars: str = ".!?") -> None:
        super().__init__(particle)
        self.chars = chars

    def allowed(self, vocabulary: Vocabulary) -> TokenMask:
        return marks(vocabulary, self.chars)

    def allowed_bytes(self, begun: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return bytes_of(frozenset(self.chars), begun)

    def __repr__(self) -> str:
        return f"PunctuationMask({self.chars!r})"


class CharsMask(Mask):
    """Tokens made of ``chars`` only."""

    def __init__(self, particle: HasMasks, chars: Iterable[str]) -> None:
        super().__init__(particle)
        self.chars = frozenset(chars)

    def allowed(self, vocabulary: Vocabulary) -> TokenMask:
        chars = self.chars
        name = f"only characters of {clipped(''.join(sorted(chars)))}"
        return vocabulary.where(("chars", chars), name, lambda text: chars.issuperset(text))

    def allowed_bytes(self, begun: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return bytes_of(self.chars, begun)

    def __repr__(self) -> str:
        return f"CharsMask({clipped(''.join(sorted(self.chars)))})"


class AvoidCharsMask(Mask):
    """No token that contains one of ``chars``."""

    def __init__(self, particle: HasMasks, chars: Iterable[str]) -> None:
        super().__init__(particle)
        self.chars = frozenset(chars)

    def allowed(self, vocabulary: Vocabulary) -> TokenMask:
        chars = self.chars
        name = f"no character of {clipped(''.join(sorted(chars)))}"
        return vocabulary.where(("avoid", chars), name, lambda text: chars.isdisjoint(text))

    def allowed_bytes(self, begun: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
        # Ruled out at its last byte: other characters may share the bytes before.
        last = frozenset(c for c in self.chars if len(c.encode()) == len(begun) + 1)
        return np.asarray(~bytes_of(last, begun))

    def __repr__(self) -> str:
        return f"AvoidCharsMask({clipped(''.join(sorted(self.chars)))})"


class WordLengthMask(Mask):
    """No run of letters grows longer than ``max_chars``."""

    def __init__(self, particle: HasMasks, max_chars: int) -> None:
        super().__init__(particle)
        self.max_chars = int(max_chars)

    def allowed(self, vocabulary: Vocabulary) -> TokenMask:
        used = min(len(last_word(self._stack.text)), self.max_chars)
        limit = self.max_chars

        def fits(text: str) -> bool:
            run = used
            for char in text:
                run = run + 1 if char.isalpha() else 0
                if run > limit:
                    return False
            return True

        return vocabulary.where(("word", limit, used), f"words of at most {limit} letters", fits)

    def allowed_bytes(self, begun: bytes) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        if begun or len(last_word(self._stack.text)) < self.max_chars:
            return None
        array = np.ones(256, np.bool_)
        # A byte beyond ASCII may begin a letter, which cannot be known before its last one.
        array[[byte for byte in range(256) if byte >= 0x80 or chr(byte).isalpha()]] = False
        return array

    def __repr__(self) -> str:
        return f"WordLengthMask(max_chars={self.max_chars})"


class AvoidWordsMask(Mask):
    """No word of ``words``, any case: a token that would complete one is ruled out.

    A token sequence that spells a longer word through a banned one in separate tokens (``is``
    then ``land``) is ruled out with it; tokenizers write such words otherwise.
    """

    def __init__(self, particle: HasMasks, words: Iterable[str]) -> None:
        super().__init__(particle)
        self.words = frozenset(w.lower() for w in words)

    def allowed(self, vocabulary: Vocabulary) -> TokenMask | None:
        return avoid_words(vocabulary, last_word(self._stack.text), self.words)

    def __repr__(self) -> str:
        return f"AvoidWordsMask({sorted(self.words)})"


class ChoiceMask(Mask):
    """The next tokens spell one of ``choices``, however they are cut; then nothing is ruled out."""

    def __init__(self, particle: HasMasks, choices: Iterable[str]) -> None:
        super().__init__(particle)
        # Sorted: what is left of them is the key of a mask, which equal choices share.
        self.choices = tuple(sorted({c.encode() for c in choices}))

    def enter(self) -> None:
        self.left: tuple[bytes, ...] = self.choices

    def allowed(self, vocabulary: Vocabulary) -> TokenMask | None:
        if b"" in self.left:
            return None
        left = self.left

        def build() -> np.ndarray[Any, np.dtype[np.bool_]]:
            return np.array(
                [bool(t) and any(c.startswith(t) for c in left) for t in vocabulary.tokens]
            )

        shown = clipped(" | ".join(c.decode() for c in left), 60)
        return vocabulary.mask(("choice", left), f"one of {shown}", build)

    def allowed_bytes(self, begun: bytes) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        if b"" in self.left:
            return None
        array = np.zeros(256, np.bool_)
        array[[rest[0] for rest in self.left]] = True
        return array

    def consume(self, data: bytes) -> None:
        if b"" not in self.left:
            self.left = tuple(c[len(data) :] for c in self.left if c.startswith(data))

    @property
    def complete(self) -> bool:
        return b"" in self.left

    def __repr__(self) -> str:
        return f"ChoiceMask({clipped(str([c.decode() for c in self.choices]), 60)})"


# Token masks that masks and units share -----------------------------------------------------


def marks(vocabulary: Vocabulary, chars: str | Iterable[str]) -> TokenMask:
    """Tokens whose whole text is one of ``chars``: of its characters, where it is a string."""
    allowed = frozenset(chars)
    return vocabulary.where(("marks", allowed), f"one of {chars}", lambda text: text in allowed)


def avoid_words(vocabulary: Vocabulary, begun: str, words: frozenset[str]) -> TokenMask | None:
    """Tokens that complete no word of ``words``, given the word begun so far."""
    begun = begun.lower()
    if not words:
        return None
    rests = frozenset(w[len(begun) :] for w in words if w.startswith(begun) and w != begun)
    key = ("avoid words", rests, words)

    def build() -> np.ndarray[Any, np.dtype[np.bool_]]:
        array = np.ones(vocabulary.size, dtype=np.bool_)
        banned = [*rests, *(sep + w for w in words for sep in _BEFORE_WORDS)]
        for text in banned:
            array[vocabulary.by_lower.get(text, [])] = False
        return array

    return vocabulary.mask(key, f"none of {clipped(', '.join(sorted(words)))}", build)


_BEFORE_WORDS: tuple[str, ...] = (" ", "\n", "(", '"', "-")


ALL_MASKS: tuple[type[Mask], ...] = (
    AvoidCharsMask,
    AvoidWordsMask,
    CharsMask,
    ChoiceMask,
    MaxCharsMask,
    PunctuationMask,
    WordLengthMask,
)
