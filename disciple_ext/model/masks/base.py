"""Masks: what the tokens drawn inside an ``async with`` block may be.

    async with MaxCharsMask(self, max_chars=10), AvoidCharsMask(self, '"'):
        token = await self.next_token()

Masks nest as intersections, and every draw under them corrects the particle's weight by the
mass that they rule out. A mask holds the particle's mask stack, never the particle, so that a
copied particle drags no other along. Stateless masks are one class each over a memoised token
mask; stateful ones follow the text with ``consume``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ...protocol.prefix import Prefix
from ...protocol.utf8 import bytes_of
from ...protocol.vocabulary import TokenMask, Vocabulary, intersect, unfinished

if TYPE_CHECKING:
    from ..base import BaseModel

__all__ = [
    "AvoidCharsMask",
    "AvoidWordsMask",
    "CharsMask",
    "ChoiceMask",
    "Mask",
    "MaskStack",
    "MaxCharsMask",
    "PunctuationMask",
    "WordLengthMask",
]


class MaskStack:
    """The masks in force on one particle, outermost first, and the bytes of its text.

    Attributes:
        tokens: the text's tokens; characters that are not tokens yet are not among them.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.masks: list[Mask] = []
        self.text = bytearray()
        self.tokens = Prefix.ROOT

    def current(self, within: TokenMask | None, without: Mask | None = None) -> TokenMask | None:
        """The masks in force together with ``within``; None where nothing is ruled out.

        Args:
            within: what else is asked for, or None.
            without: a mask to leave out.
        """
        for mask in self.masks:
            allowed = None if mask is without else mask.allowed(self.vocabulary)
            if allowed is not None:
                within = allowed if within is None else intersect(within, allowed)
        return within

    def consume(self, token: int) -> None:
        """A token was added to the text."""
        data = self.vocabulary.tokens[token]
        for mask in self.masks:
            mask.follow(token, data)
        self.text += data
        self.tokens = self.tokens.then(token)

    def consume_bytes(self, data: bytes) -> None:
        """These bytes were added to the text; their tokens are put into ``tokens`` later."""
        for mask in self.masks:
            mask.consume(data)
        self.text += data

    @property
    def may_end(self) -> bool | None:
        """Whether the text may end here; None where no mask bears on that."""
        verdicts = [v for mask in self.masks if (v := mask.complete) is not None]
        return all(verdicts) if verdicts else None

    def describe(self) -> str:
        """The masks in force, for messages."""
        return ", ".join(repr(mask) for mask in self.masks) or "no mask"


class Mask:
    """Base of all masks: an async context manager on a particle's mask stack."""

    def __init__(self, particle: BaseModel) -> None:
        stack = getattr(particle, "masks", None)
        if not isinstance(stack, MaskStack):
            name = type(self).__name__
            raise TypeError(
                f"a mask takes the particle first: write {name}(self, ...), not "
                f"{name}({type(particle).__name__}, ...)"
            )
        self._stack = stack

    async def __aenter__(self) -> Self:
        self.enter()
        self._stack.masks.append(self)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._stack.masks.remove(self)

    def enter(self) -> None:
        """Begin: state is set from the text as it is now."""

    def allowed(self, vocabulary: Vocabulary) -> TokenMask | None:
        """The tokens allowed next, or None for all."""
        raise NotImplementedError

    def allowed_bytes(self, begun: bytes) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """What the next byte may be where text is drawn by the character.

        Args:
            begun: the bytes of the character that are there already.

        Returns:
            Booleans of shape (256,), or None for any byte.

        Raises:
            TypeError: this mask rules on tokens only.
        """
        raise TypeError(
            f"{type(self).__name__} rules on tokens, not on characters; with next_char() use "
            "CharsMask, AvoidCharsMask, MaxCharsMask or ChoiceMask"
        )

    def follow(self, token: int, data: bytes) -> None:
        """Follow the text by one token, for masks that go by its id, too."""
        self.consume(data)

    def consume(self, data: bytes) -> None:
        """Follow the text by the bytes of one token, or by one byte."""

    @property
    def complete(self) -> bool | None:
        """Whether the text may end here; None for a mask that does not bear on that."""
        return None

    def clone(self) -> Self:
        """A copy whose state is independent (a particle's copy copies its masks like this)."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        clone = memo[id(self)] = self.clone()
        clone._stack = copy.deepcopy(self._stack, memo)
        return clone

    def __repr__(self) -> str:
        return type(self).__name__


class MaxCharsMask(Mask):
    """At most ``max_chars`` more characters in the whole block.

    The budget is set at entry and falls with each token. Characters are code points; a token
    that ends inside one counts it already, and the text stays valid UTF-8.
    """

    def __init__(self, particle: BaseModel, max_chars: int) -> None:
        super().__init__(particle)
        self.max_chars = int(max_chars)
        self.left = self.max_chars

    def enter(self) -> None:
        self.left = self.max_chars
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

    def __init__(self, particle: BaseModel, chars: str = ".!?") -> None:
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

    def __init__(self, particle: BaseModel, chars: Iterable[str]) -> None:
        super().__init__(particle)
        self.chars = frozenset(chars)

    def allowed(self, vocabulary: Vocabulary) -> TokenMask:
        chars = self.chars
        name = f"only characters of {shorten(''.join(sorted(chars)))}"
        return vocabulary.where(("chars", chars), name, lambda text: chars.issuperset(text))

    def allowed_bytes(self, begun: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return bytes_of(self.chars, begun)

    def __repr__(self) -> str:
        return f"CharsMask({shorten(''.join(sorted(self.chars)))})"


class AvoidCharsMask(Mask):
    """No token that contains one of ``chars``."""

    def __init__(self, particle: BaseModel, chars: Iterable[str]) -> None:
        super().__init__(particle)
        self.chars = frozenset(chars)

    def allowed(self, vocabulary: Vocabulary) -> TokenMask:
        chars = self.chars
        name = f"no character of {shorten(''.join(sorted(chars)))}"
        return vocabulary.where(("avoid", chars), name, lambda text: chars.isdisjoint(text))

    def allowed_bytes(self, begun: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
        last = frozenset(c for c in self.chars if len(c.encode()) == len(begun) + 1)
        return np.asarray(~bytes_of(last, begun))

    def __repr__(self) -> str:
        return f"AvoidCharsMask({shorten(''.join(sorted(self.chars)))})"


class WordLengthMask(Mask):
    """No run of letters grows longer than ``max_chars``."""

    def __init__(self, particle: BaseModel, max_chars: int) -> None:
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
        array[[byte for byte in range(256) if byte >= 0x80 or chr(byte).isalpha()]] = False
        return array

    def __repr__(self) -> str:
        return f"WordLengthMask(max_chars={self.max_chars})"


class AvoidWordsMask(Mask):
    """No word of ``words``, any case: a token that would complete one is ruled out.

    A token sequence that spells a longer word through a banned one in separate tokens (``is``
    then ``land``) is ruled out with it; tokenizers write such words otherwise.
    """

    def __init__(self, particle: BaseModel, words: Iterable[str]) -> None:
        super().__init__(particle)
        self.words = frozenset(w.lower() for w in words)

    def allowed(self, vocabulary: Vocabulary) -> TokenMask | None:
        return avoid_words(vocabulary, last_word(self._stack.text), self.words)

    def __repr__(self) -> str:
        return f"AvoidWordsMask({sorted(self.words)})"


class ChoiceMask(Mask):
    """The next tokens spell one of ``choices``, however they are cut; then nothing is ruled out."""

    def __init__(self, particle: BaseModel, choices: Iterable[str]) -> None:
        super().__init__(particle)
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

        shown = shorten(" | ".join(c.decode() for c in left), 60)
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
        return f"ChoiceMask({shorten(str([c.decode() for c in self.choices]), 60)})"


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

    return vocabulary.mask(key, f"none of {shorten(', '.join(sorted(words)))}", build)


_BEFORE_WORDS: tuple[str, ...] = (" ", "\n", "(", '"', "-")


def last_word(text: bytearray | bytes) -> str:
    """The run of letters at the end of the text."""
    tail = bytes(text[-64:]).decode("utf-8", errors="ignore")
    run = 0
    while run < len(tail) and tail[-1 - run].isalpha():
        run += 1
    return tail[len(tail) - run :]


def shorten(text: str, limit: int = 40) -> str:
    """``text`` cut to ``limit`` characters for a message."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


ALL_MASKS: tuple[type[Mask], ...] = (
    AvoidCharsMask,
    AvoidWordsMask,
    CharsMask,
    ChoiceMask,
    MaxCharsMask,
    PunctuationMask,
    WordLengthMask,
)
