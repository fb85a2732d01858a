"""Formal constraints: texts of a regular expression, a grammar, a JSON schema, or given words.

    async with JsonMask(self, schema) as json_text:
        await self.fill(json_text)
    await self.end()

They follow the text from where the block begins, across tokens, and know when it may end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ...protocol.vocabulary import TokenMask, Vocabulary, intersect
from ...text.shorten import clipped
from .base import HasMasks, Mask, last_word
from .counting import Counted, Counting, terminal
from .matching import Grammars, Position, TooHard, grammars
from .refusals import GRAMMAR_REFUSED, first_line, json_advice
from .regex import Refused, translate

__all__ = [
    "FORMAL_MASKS",
    "FormalMask",
    "GrammarMask",
    "JsonMask",
    "RegexMask",
    "Unfinished",
    "WordsMask",
]


# No Exception, for the same reason as `Stop`.
class Unfinished(BaseException):
    """A mask's block is left before its text is complete; the particle ends there."""


class FormalMask(Mask):
    """Base of the masks whose text is complete or not.

    Attributes:
        whole: whether the whole text is meant, however often the block is entered, and not what
            is written in the block.
    """

    def __init__(self, particle: HasMasks, whole: bool) -> None:
        super().__init__(particle)
        self.whole = bool(whole)
        self._start = self._place = self._begin(grammars(self._stack.vocabulary))

    def _begin(self, home: Grammars) -> Position:
        """The beginning of the constraint.

        Raises:
            ValueError: it cannot be kept to.
        """
        raise NotImplementedError

    @property
    def complete(self) -> bool:
        """Whether the text may end here."""
        return self._place.complete

    @property
    def over(self) -> bool:
        """Whether the text is complete and nothing can follow."""
        text = self._stack.vocabulary.text_mask
        return self.complete and not intersect(self._place.allowed, text)

    def enter(self) -> None:
        """Begin: with the text as it is now, or with all of it."""
        self._place = self._start
        if self.whole:
            self._replay(self._stack.tokens.tokens)

    def _replay(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self._place = self._place.then(token)

    async def __aexit__(self, *exc: object) -> None:
        await super().__aexit__(*exc)
        # Where the block is left by an exception, that one counts.
        if exc[:1] in ((), (None,)) and not self.whole and not self.complete:
            raise Unfinished(f"the block of {self!r} was left before its text was complete")

    def allowed(self, vocabulary: Vocabulary) -> TokenMask:
        """The tokens allowed next; the ends of text are among them where it is complete."""
        return self._place.allowed

    def follow(self, token: int, data: bytes) -> None:
        """Follow the text by one token."""
        self._place = self._place.then(token)

    def _refusal(self, part: str, instead: str) -> ValueError:
        return ValueError(f"{type(self).__name__} cannot keep to {part}; {instead}")


class RegexMask(FormalMask):
    """A text that matches ``pattern`` from beginning to end, as ``re.fullmatch`` says."""

    def __init__(self, particle: HasMasks, pattern: str, whole: bool = False) -> None:
        self.pattern = pattern
        super().__init__(particle, whole)

    def _begin(self, home: Grammars) -> Position:
        if not isinstance(self.pattern, str):
            raise TypeError(f"RegexMask takes a pattern as a string, not {self.pattern!r:.80}")
        try:
            return home.beginning(self.pattern, self._translated)
        except Refused as error:
            raise self._refusal(error.part, error.instead) from None
        except TooHard as error:
            message = first_line(str(error))
            raise self._refusal(f"this pattern ({message})", "write a simpler one") from None

    @staticmethod
    def _translated(home: Grammars, pattern: str) -> Position:
        regex = translate(pattern)
        if Counted.suits(regex):
            return Counting(Counted(home, regex))
        return home.start(terminal(regex.source))

    def __repr__(self) -> str:
        return f"RegexMask({clipped(self.pattern, 60)!r})"


class GrammarMask(FormalMask):
    """A text of a context-free grammar in Lark's notation, from its rule ``start``."""

    def __init__(self, particle: HasMasks, grammar: str, whole: bool = False) -> None:
        self.grammar = grammar
        super().__init__(particle, whole)

    def _begin(self, home: Grammars) -> Position:
        try:
            return home.start(self.grammar.strip() + "\n")
        except TooHard as error:
            message = str(error)
            for sign, part, instead in GRAMMAR_REFUSED:
                if sign in message:
                    raise self._refusal(f"{part} ({first_line(message)})", instead) from None
            raise self._refusal(
                f"this grammar ({first_line(message)})",
                'write rules such as `start: NAME "=" INT` and terminals such as `NAME: /[a-z]+/`',
            ) from None

    def __repr__(self) -> str:
        return f"GrammarMask({clipped(' '.join(self.grammar.split()), 60)!r})"


class JsonMask(FormalMask):
    """A JSON text that is valid under ``schema``; without spaces, unless ``whitespace``."""

    def __init__(
        self,
        particle: HasMasks,
        schema: dict[str, Any] | str,
        whitespace: bool = False,
        whole: bool = False,
    ) -> None:
        self.schema = schema
        self.whitespace = bool(whitespace)
        super().__init__(particle, whole)

    def _begin(self, home: Grammars) -> Position:
        schema = self.schema
        try:
            schema = json.loads(schema) if isinstance(schema, str) else schema
            if not isinstance(schema, dict):
                raise TypeError(f"it is a {type(schema).__name__}")
            # The library's default would allow white space, line breaks too, between the parts.
            options = {"x-guidance": {"whitespace_flexible": self.whitespace}}
            text = json.dumps({**schema, **options}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise self._refusal(
                f"what is no JSON Schema ({error})", 'give a dict such as {"type": "object"}'
            ) from None
        try:
            return home.start(f"start: %json {text}\n")
        except TooHard as error:
            raise self._refusal(*json_advice(str(error))) from None

    def __repr__(self) -> str:
        return f"JsonMask({clipped(str(self.schema), 60)})"


class WordsMask(FormalMask):
    """A text with every word of ``require`` and none of ``avoid``: whole words, any case."""

    def __init__(
        self,
        particle: HasMasks,
        avoid: Iterable[str] = (),
        require: Iterable[str] = (),
        whole: bool = False,
    ) -> None:
        self.avoid, self.require = _words("avoid", avoid), _words("require", require)
        super().__init__(particle, whole)

    def _begin(self, home: Grammars) -> Position:
        # `&` and `~` work in terminals only. Without the first part, `~` would go by bytes, and
        # take what is no valid UTF-8.
        parts = ["/(?s:.*)/"]
        parts += [f"/{_contains(_literal(word), _CLEAR)}/" for word in self.require]
        if self.avoid:
            banned = "|".join(map(_literal, self.avoid))
            parts.append(f"~/{_contains(f'(?:{banned})', _APART)}/")
        try:
            return home.start(f"start: TEXT\nTEXT: {' & '.join(parts)}\n")
        except TooHard as error:
            message = first_line(str(error))
            raise self._refusal(f"these words ({message})", "give fewer words") from None

    def enter(self) -> None:
        """Begin; a word that has begun before goes on."""
        super().enter()
        if self.whole:
            return
        begun, tokens = len(last_word(self._stack.text).encode()), []
        node = self._stack.tokens
        while begun > 0 and node.parent is not None:
            tokens.append(node.token)
            begun -= len(self._stack.vocabulary.tokens[node.token])
            node = node.parent
        self._replay(reversed(tokens))
        if not self.complete and not self._place.allowed:
            self._place = self._start  # what it forbids was there before

    def __repr__(self) -> str:
        return f"WordsMask(avoid={list(self.avoid)}, require={list(self.require)})"


_APART = (
    r"[\x00-\x2F:-@\x5B-`\x7B-\xA9\xAB-\xB4\xB6-\xB9\xBB-\xBF\xD7\xF7"
    r"\u{2000}-\u{2BFF}\u{3000}-\u{303F}\u{FE00}-\u{FE6F}\u{1F000}-\u{1FAFF}]"
)
_CLEAR = r"[\x00- !\x22(),.:;?\[\]\u{2000}-\u{200A}\u{201C}\u{201D}\u{2026}]"
"""What stands beside a whole word: for an avoided one anything but a letter or digit, for a
required one what every way to count words takes for its end. As few ranges as will do: classes
of Unicode's, negated, take the library thousands of times the work."""


def _words(name: str, words: Iterable[str]) -> tuple[str, ...]:
    given = [words] if isinstance(words, str) else list(words)
    if not all(isinstance(word, str) and word.strip() for word in given):
        raise ValueError(f"WordsMask: {name} takes words, not {given!r:.80}")
    # Sorted: equal sets of words are then one grammar, whose states particles share.
    return tuple(sorted({word.strip().lower() for word in given}))


def _literal(word: str) -> str:
    return translate(re.escape(word)).source


def _contains(word: str, apart: str) -> str:
    return f"(?s:(.*{apart})?(?i:{word})({apart}.*)?)"


FORMAL_MASKS: tuple[type[Mask], ...] = (GrammarMask, JsonMask, RegexMask, WordsMask)
