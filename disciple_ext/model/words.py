"""Words, sentences and lines, drawn token by token: the units that programs count in.

A word here is a run of ASCII letters that every word tokenizer takes for one word. That it ends
is a draw like any other ("does the next token continue it?"), so the weights stay right.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..protocol.vocabulary import TokenMask, Vocabulary, from_ids, intersect
from ..text import units
from .masks.characters import PunctuationMask, avoid_words, marks
from .tokens import TokenMethods

__all__ = ["WordMethods", "warm"]

LONGEST_WORD = 20
"""Letters after which a word is ended: beyond it small models write debris."""


class WordMethods(TokenMethods):
    """The text units of :class:`BaseModel`."""

    @property
    def words(self) -> list[str]:
        """The words of the text so far, as every mask and check counts them."""
        return list(_words(self.text))

    async def wants_word(self, word: str) -> bool:
        """Does the next token begin this word? A draw, weight corrected, pending.

        After True, write the word with ``await self.force(" " + word)``.
        """
        vocabulary = self.context.follower.vocabulary
        spaced = bool(self.text) and not self.text[-1].isspace()
        first = vocabulary.encode(" " + word if spaced else word)[:1]
        mask = vocabulary.mask(
            ("begins", first),
            f"the beginning of {word!r}",
            lambda: from_ids(first, vocabulary.size).array,
        )
        return await self._branch(mask, self._allowed(vocabulary.text_mask))

    async def next_word(
        self,
        max_chars: int | None = None,
        min_chars: int = 1,
        avoid: Iterable[str] = (),
        punctuation: str = ",",
        capital: bool = False,
    ) -> str:
        """Draw one word, with the space before it where the text needs one.

        The word may follow one of the ``punctuation`` marks. That the word is over stays
        pending, so the token after it does not continue it.

        Args:
            max_chars: letters it may have at most.
            min_chars: letters it must have at least.
            avoid: words it may not be, any case.
            punctuation: marks that may stand before it (none at the start of a text or line).
            capital: whether its first letter must be a capital.

        Returns:
            The bare word.
        """
        vocabulary = self.context.follower.vocabulary
        # COLLIE counts each of SPLIT_WORDS as two: one of them would make the count wrong.
        banned = units.SPLIT_WORDS | {w.lower() for w in avoid}
        longest = min(max_chars or LONGEST_WORD, LONGEST_WORD)
        spaced = bool(self.text) and not self.text[-1].isspace()
        start = _starts(vocabulary, spaced, longest, capital)
        start = _without(start, vocabulary, banned, spaced)
        if spaced and punctuation and self.text[-1].isalnum():
            token = await self._draw(start | marks(vocabulary, punctuation))
            if token in punctuation:
                token = await self._draw(start)
        else:
            token = await self._draw(start)
        word = token.strip()
        while True:
            more = _continues(vocabulary, longest - len(word))
            rest = avoid_words(vocabulary, word, banned)
            more = more if rest is None else intersect(more, rest)
            given = self._allowed(vocabulary.text_mask)
            possible = more if given is None else intersect(more, given)
            may_end = len(word) >= min_chars and word.lower() not in banned
            if may_end and not possible:
                # Nothing is left to draw between, so that the word is over is observed.
                await self._observe_mask(~letters(vocabulary))
                return word
            over = ~letters(vocabulary)
            if may_end and given is not None and not intersect(given, over):
                # The masks in force leave nothing that could follow the word, so they rule on
                # its letters only.
                within = self.context.drawable
                given = possible | (over if within is None else intersect(over, within))
            if may_end and not await self._branch(letters(vocabulary), given):
                return word
            word += await self._draw(more)

    async def end_sentence(self, marks: str = ".!?") -> str:
        """Draw the mark that ends the sentence; returns it."""
        async with PunctuationMask(self, marks):
            return str(await self.next_token())

    async def next_sentence(
        self,
        min_words: int = 1,
        max_words: int = 40,
        avoid: Iterable[str] = (),
        max_word_chars: int | None = None,
        marks: str = ".!?",
    ) -> str:
        """Draw one sentence: a capital, words, a mark, where every splitter agrees on its end.

        A sentence that has begun (after ``force(" The")``, say) goes on, and the words that it
        has count. It ends where the follower wants it to, from ``min_words`` on, and at
        ``max_words`` at the latest.

        Returns:
            The sentence, without the space before it.

        Raises:
            ValueError: ``max_words`` is smaller than ``min_words`` or than 1.
        """
        if max_words < max(1, min_words):
            raise ValueError(f"max_words={max_words} leaves no room for min_words={min_words}")
        avoid = tuple(avoid)
        begun = _open_sentence(self.text)
        begin = len(self.text) - len(begun)
        words = len(units.words(begun))
        while True:
            await self.next_word(max_word_chars, avoid=avoid, capital=not words)
            words += 1
            safe = units.ends_safely(self.text)
            if words >= max_words:
                # "!" and "?" end a sentence for every splitter, a full stop not always.
                await self.end_sentence(marks if safe else marks.replace(".", "") or "!")
                break
            if words >= min_words and safe and await self.wants(marks):
                await self.end_sentence(marks)
                break
        return self.text[begin:].strip()

    async def next_line(
        self, min_words: int = 1, max_words: int = 30, avoid: Iterable[str] = ()
    ) -> str:
        """Draw the words of one line, up to and not including the line break; returns it."""
        begin, avoid = len(self.text), tuple(avoid)
        for words in range(1, max_words + 1):
            await self.next_word(avoid=avoid, capital=words == 1)
            if min_words <= words < max_words and await self.wants("\n"):
                break
        return self.text[begin:].strip()


@functools.lru_cache(maxsize=256)
def _words(text: str) -> tuple[str, ...]:
    return tuple(units.words(text))


def _open_sentence(text: str) -> str:
    """The part of the text after its last end mark: a sentence that has begun, or nothing."""
    return text[max(text.rfind(mark) for mark in ".!?\n") + 1 :]


def letters(vocabulary: Vocabulary) -> TokenMask:
    """Tokens that go on with a word: letters, and nothing else."""
    return _continues(vocabulary, None)


def _continues(vocabulary: Vocabulary, room: int | None) -> TokenMask:
    if room is not None:
        room = max(0, min(room, LONGEST_WORD))

    def build() -> np.ndarray[Any, np.dtype[np.bool_]]:
        shapes = vocabulary.words
        longest = shapes.letters.max(initial=0) if room is None else room
        return np.asarray((shapes.letters <= longest) & (shapes.letters > 0) & ~shapes.spaced)

    name = "letters" if room is None else f"at most {room} letters"
    return vocabulary.mask(("continues", room), name, build)


def _starts(vocabulary: Vocabulary, spaced: bool, longest: int, capital: bool) -> TokenMask:
    def build() -> np.ndarray[Any, np.dtype[np.bool_]]:
        shapes = vocabulary.words
        fits = (shapes.letters > 0) & (shapes.letters <= longest) & (shapes.spaced == spaced)
        return np.asarray(fits & shapes.capital if capital else fits)

    name = f"a word of at most {longest} letters" + (", capitalised" if capital else "")
    return vocabulary.mask(("starts", spaced, longest, capital), name, build)


def _without(
    start: TokenMask, vocabulary: Vocabulary, banned: frozenset[str] | set[str], spaced: bool
) -> TokenMask:
    """``start`` without the tokens that are a banned word as they stand."""
    banned = frozenset(banned)

    def build() -> np.ndarray[Any, np.dtype[np.bool_]]:
        array = start.array.copy()
        for word in banned:
            array[vocabulary.by_lower.get(" " + word if spaced else word, [])] = False
        return array

    # The key needs no `spaced`: `start` is one mask with the space, another without it.
    return vocabulary.mask(("without", start, banned), start.name, build)


def warm(vocabulary: Vocabulary) -> None:
    """Build the masks that nearly every program uses, so that forked workers share them."""
    vocabulary.max_chars(0)
    # Cached properties, built by being read.
    _ = vocabulary.text_mask, vocabulary.eos_mask, vocabulary.exists, vocabulary.by_lower
    _ = vocabulary.words
