"""A follower's tokens, and masks over them that are built once.

Masks are made once per (kind, argument) and shared: nothing here does per-vocabulary Python work
on the hot path. This module needs numpy only, so that it also loads inside the sandbox.
"""

from __future__ import annotations

import base64
import codecs
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .token_mask import BoolArray, MaskMemo, TokenMask, from_ids, intersect
from .trie import ByteTrie

__all__ = ["TokenMask", "Vocabulary", "WordShapes", "from_ids", "intersect", "unfinished"]

T = TypeVar("T")


class Vocabulary:
    """The tokens of a follower.

    Attributes:
        tokens: bytes of each token; empty for special tokens and ids the tokenizer lacks.
        size: length of the model's logits; may exceed the tokenizer's vocabulary.
        special: ids that are no text: end of text, padding, roles, ids beyond the tokenizer.
        eos: ids that end a text (a subset of ``special``).
    """

    def __init__(
        self,
        tokens: Sequence[bytes],
        *,
        eos: Iterable[int],
        special: Iterable[int] = (),
        encode: Callable[[str], Sequence[int]],
        size: int | None = None,
    ) -> None:
        self.size = size if size is not None else len(tokens)
        self.eos = frozenset(int(i) for i in eos)
        beyond = range(len(tokens), self.size)
        self.special = frozenset(int(i) for i in special) | self.eos | frozenset(beyond)
        padded = [*(bytes(t) for t in tokens), *(b"" for _ in beyond)][: self.size]
        self.tokens = [b"" if i in self.special else t for i, t in enumerate(padded)]
        self._encode = encode
        self._n_tokenizer = min(len(tokens), self.size)
        self._derived: dict[Any, Any] = {}
        self._masks: MaskMemo[Hashable] = MaskMemo(entries=2048, nbytes=2**26)

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of ``text`` in the middle of a text: no BOS, no special token."""
        return tuple(int(i) for i in self._encode(text))

    def decode(self, ids: Iterable[int]) -> str:
        """Text of token ids; special tokens are empty, an unfinished code point is left out."""
        data = b"".join(self.tokens[i] for i in ids)
        return data[: len(data) - len(unfinished(data))].decode("utf-8", errors="replace")

    def __deepcopy__(self, memo: object) -> Vocabulary:
        return self  # immutable but for its caches

    def to_dict(self) -> dict[str, Any]:
        """The vocabulary as JSON-safe data, without its way to encode."""
        # One blob with places in it: tokens need not be valid UTF-8, so JSON could not hold them.
        known = self.tokens[: self._n_tokenizer]
        return {
            "blob": base64.b64encode(b"".join(known)).decode(),
            "ends": list(accumulate(map(len, known))),
            "eos": sorted(self.eos),
            "special": sorted(self.special),
            "size": self.size,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], encode: Callable[[str], Sequence[int]]) -> Vocabulary:
        """A vocabulary from what :meth:`to_dict` gave."""
        blob, ends = base64.b64decode(data["blob"]), data["ends"]
        tokens = [blob[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        eos, special, size = data["eos"], data["special"], data["size"]
        return cls(tokens, eos=eos, special=special, encode=encode, size=size)

    def derived(self, make: Callable[[Vocabulary], T]) -> T:
        """What ``make`` computes of this vocabulary, computed once."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return self._derived[make]  # type: ignore[no-any-return]

    # Masks ---------------------------------------------------------------------------------

    def mask(self, key: Hashable, name: str, build: Callable[[], BoolArray]) -> TokenMask:
        """The mask memoised under ``key``, built on first use."""
        return self._masks.get(key, lambda: TokenMask(build(), name))

    def where(self, key: Hashable, name: str, test: Callable[[str], bool]) -> TokenMask:
        """The text tokens whose whole text passes ``test``; tokens cut inside a code point fail."""
        return self.mask(key, name, lambda: self._from_text(test))

    def _from_text(self, test: Callable[[str], bool]) -> BoolArray:
        texts = self.texts
        return np.fromiter(
            (t is not None and bool(t) and test(t) for t in texts), np.bool_, count=self.size
        )

    @cached_property
    def texts(self) -> list[str | None]:
        """Text of each token; None where its bytes are not whole code points."""
        out: list[str | None] = []
        for token in self.tokens:
            try:
                out.append(token.decode("utf-8"))
            except UnicodeDecodeError:
                out.append(None)
        return out

    @cached_property
    def trie(self) -> ByteTrie:
        """The text tokens by their bytes, for what is drawn by the character."""
        return ByteTrie(self.tokens)

    @cached_property
    def flat(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
        """Bytes of each token, where they begin, and the bytes of all tokens one after another."""
        lengths = np.array([len(t) for t in self.tokens])
        flat = np.frombuffer(b"".join(self.tokens), np.uint8)
        return lengths, np.cumsum(lengths) - lengths, flat

    @cached_property
    def words(self) -> WordShapes:
        """What each token is as a word; masks over words are made of it without Python loops."""
        shapes = [_shape(text) for text in self.texts]
        letters, spaced, capital = (np.array(column) for column in zip(*shapes, strict=True))
        return WordShapes(letters, spaced, capital)

    @cached_property
    def exists(self) -> TokenMask | None:
        """Ids the tokenizer knows, or None where these are all: extra logits are never drawn."""
        # LLaMPPL leaves the extra ids in: some of its masked draws were ids of no token.
        if self._n_tokenizer == self.size:
            return None
        return TokenMask(np.arange(self.size) < self._n_tokenizer, "known tokens")

    @cached_property
    def text_mask(self) -> TokenMask:
        """Tokens that are text: no special token, no end of text."""
        return TokenMask(np.array([bool(t) for t in self.tokens]), "text")

    @cached_property
    def eos_mask(self) -> TokenMask:
        """Tokens that end the text."""
        return from_ids(self.eos, self.size, "end of text")

    @cached_property
    def by_lower(self) -> dict[str, list[int]]:
        """Ids of the text tokens with a given lower-cased text."""
        out: dict[str, list[int]] = {}
        for i, text in enumerate(self.texts):
            if text:
                out.setdefault(text.lower(), []).append(i)
        return out

    def max_chars(self, budget: int, begun: bytes = b"") -> TokenMask:
        """Tokens that keep within ``budget`` code points and keep the text valid UTF-8.

        Args:
            budget: code points left. A token that begins one counts it at once, so that room for
                its end is left.
            begun: bytes of an unfinished code point at the end of the text.
        """
        # Beyond the longest token all budgets allow the same: one mask serves them.
        budget = max(0, min(budget, int(self._code_points.max(initial=0))))
        # A mask of its own: its Python loop over the tokens does not depend on the budget.
        joins = self.mask(("joins", begun), "valid UTF-8", lambda: self._joining(begun))
        return self.mask(
            ("max_chars", budget, begun),
            f"at most {budget} characters",
            lambda: joins.array & (self._code_points <= budget),
        )

    def _joining(self, begun: bytes) -> BoolArray:
        # A special token has no bytes, and would fit every budget (as in LLaMPPL's masks).
        return np.fromiter((bool(t) and _valid(begun + t) for t in self.tokens), np.bool_)

    @cached_property
    def _code_points(self) -> NDArray[np.int64]:
        """Code points that each token begins (continuation bytes begin none)."""
        return np.array([sum(b & 0xC0 != 0x80 for b in t) for t in self.tokens])


class WordShapes(NamedTuple):
    """For each token, what it is as a word; arrays of shape (vocabulary size,).

    Attributes:
        letters: ASCII letters, where the token is nothing else but perhaps one space before
            them; else 0.
        spaced: whether a space comes first.
        capital: whether the first letter is a capital.
    """

    letters: NDArray[np.int64]
    spaced: BoolArray
    capital: BoolArray


def _shape(text: str | None) -> tuple[int, bool, bool]:
    word = (text or "").removeprefix(" ")
    if not (word.isascii() and word.isalpha()):
        return 0, False, False
    return len(word), text != word, word[0].isupper()


def _valid(data: bytes) -> bool:
    """Whether some bytes after ``data`` make it valid UTF-8."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def unfinished(data: bytes | bytearray) -> bytes:
    """The bytes at the end of ``data`` that begin a code point without finishing it."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            need = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return bytes(data[-back:]) if back < need else b""
    return b""
