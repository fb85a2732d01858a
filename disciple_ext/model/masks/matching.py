"""Where a text stands in a grammar, and which tokens may follow: llguidance's exact masks.

A :class:`State` never changes: consuming a token leads to another one. So particles at the same
place share a state and its mask, and a particle's copy costs nothing. States are kept by grammar
and tokens, masks by content.

llguidance is used in its exact mode (``no_forcing``): by default it drops all but one way to cut a
forced stretch into tokens, which biases weights. It starts no thread here. Its tokenizer is built
of the vocabulary's own bytes, so that this works in a locked worker, where no file can be opened.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import llguidance
import numpy as np

from ...protocol.prefix import Prefix
from ...protocol.token_mask import MaskMemo, TokenMask, from_ids
from ...protocol.vocabulary import Vocabulary

__all__ = ["Grammars", "Position", "State", "TooHard", "grammars"]

_EXACT = '%llguidance {"no_forcing": true}\n'
_MOST_STATES = 512
"""States remembered beyond those in use; each takes some tens of kilobytes."""
_MOST_PATTERNS = 128
_LIMITS: dict[str, Any] = {
    "step_lexer_fuel": 2_000_000,
    "max_lexer_states": 50_000,
    "verbose_errors": False,
}


class TooHard(ValueError):
    """A grammar is refused by the library, or took it too much work at some place."""


class Position(Protocol):
    """A place in a grammar; it never changes."""

    @property
    def allowed(self) -> TokenMask:
        """Tokens that may follow; the ends of text are among them where it is complete."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the text may end here."""
        ...

    def then(self, token: int) -> Position:
        """Where a token leads."""
        ...


class State:
    """A place in a grammar of the library's.

    Attributes:
        grammar: the grammar's text.
        consumed: the tokens since its beginning.
    """

    def __init__(
        self, home: Grammars, grammar: str, consumed: Prefix, matcher: llguidance.LLMatcher
    ) -> None:
        self.grammar = grammar
        self.consumed = consumed
        self._home = home
        self._matcher = matcher

    @cached_property
    def complete(self) -> bool:
        """Whether the text may end here."""
        return not self._matcher.is_error() and bool(self._matcher.is_accepting())

    @cached_property
    def allowed(self) -> TokenMask:
        """Tokens that may follow; the ends of text are among them where it is complete."""
        if self._matcher.is_error():
            return self._home.nothing
        bits = self._matcher.compute_bitmask()
        if self._matcher.is_error():
            if self._matcher.stop_reason() == "NoExtensionBias":  # the vocabulary lacks a token
                return self._home.nothing
            told = self._matcher.get_error().split("\n")[0]
            raise TooHard(
                f"the constraint became too hard to follow ({told}); write it with fewer "
                "alternatives and repeats, or test a part of it in `check(self, text)`"
            )
        return self._home.mask(bits)

    def then(self, token: int) -> State:
        """Where a token leads; the state after one that is not allowed allows nothing."""
        if token in self._home.vocabulary.special:
            return self
        key = (self.grammar, self.consumed.then(token))
        found = self._home.known(key)
        if found is None:
            matcher = self._matcher.deep_copy()
            matcher.consume_token(token)
            found = self._home.keep(State(self._home, *key, matcher))
        return found


class Grammars:
    """Grammars over one vocabulary: the library's tokenizer, and the states in use.

    Attributes:
        vocabulary: the tokens.
        nothing: the mask of no token.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.nothing = from_ids((), vocabulary.size, "nothing")
        self._tokenizer = llguidance.LLTokenizer(
            _Tokens(vocabulary),  # type: ignore[arg-type]  # it has what the library reads
            n_vocab=vocabulary.size,
            eos_token=sorted(vocabulary.eos),
        )
        self._limits = llguidance.LLParserLimits(**_LIMITS)
        self._states: OrderedDict[tuple[str, Prefix], State] = OrderedDict()
        self._masks: MaskMemo[bytes] = MaskMemo()
        self._beginnings: dict[str, Position] = {}

    def start(self, grammar: str) -> State:
        """The beginning of a grammar, in the library's Lark dialect.

        Raises:
            TooHard: the library refuses it; the message is its own.
        """
        key = (grammar, Prefix.ROOT)
        found = self.known(key)
        if found is None:
            matcher = llguidance.LLMatcher(
                self._tokenizer, _EXACT + grammar, log_level=0, limits=self._limits
            )
            # The library raises nothing: each error has to be asked for.
            if matcher.is_error():
                raise TooHard(matcher.get_error())
            found = self.keep(State(self, *key, matcher))
        return found

    def beginning(self, pattern: str, make: Callable[[Grammars, str], Position]) -> Position:
        """The beginning of a pattern that ``make`` reads; remembered."""
        found = self._beginnings.get(pattern)
        if found is None:
            if len(self._beginnings) >= _MOST_PATTERNS:
                self._beginnings.clear()
            found = self._beginnings[pattern] = make(self, pattern)
        return found

    def mask(self, bits: bytes) -> TokenMask:
        """The one mask of these bits, the lowest first."""

        def build() -> TokenMask:
            packed = np.frombuffer(bits, np.uint8)
            array = np.unpackbits(packed, count=self.vocabulary.size, bitorder="little")
            return TokenMask(array.view(np.bool_), "what the constraint allows")

        return self._masks.get(bits, build)

    def known(self, key: tuple[str, Prefix]) -> State | None:
        """The state of a grammar and tokens, where it is remembered."""
        found = self._states.pop(key, None)
        if found is not None:
            self._states[key] = found
        return found

    def keep(self, state: State) -> State:
        """Remember a state; the one used longest ago is forgotten."""
        self._states[state.grammar, state.consumed] = state
        if len(self._states) > _MOST_STATES:
            self._states.popitem(last=False)
        return state


class _Tokens:
    """A vocabulary as the library asks for it."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.tokens = vocabulary.tokens
        self.special_token_ids = sorted(vocabulary.special)
        self.eos_token_id = min(vocabulary.eos)

    def __call__(self, text: str) -> list[int]:
        return []  # how a text is cut matters to its forcing only, which is off


def grammars(vocabulary: Vocabulary) -> Grammars:
    """The grammars over a vocabulary; the first call builds the tokenizer (1 s for 128k)."""
    return vocabulary.derived(Grammars)
