"""From a follower's tokens to what a potential reads: bytes, characters, or tokens of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from genlm.backend.tokenization import Token

from ..errors import UsageError
from ..protocol.vocabulary import unfinished

__all__ = ["units_of"]

Units = Callable[[Sequence[Any]], Sequence[Any]]
"""Tokens of a follower's (``bytes``) to the units of a potential."""


def units_of(potential: Any, tokens: Sequence[Any]) -> Units:
    """How a potential reads a follower's tokens.

    Bytes are cut out of the tokens' own. Characters are read once their bytes are whole. A language
    model with the follower's tokens gets them as they are; one with other tokens gets the text in
    its own, which is a score of the text so far rather than of its tokens.

    Args:
        potential: what reads them.
        tokens: all text tokens of the follower.

    Raises:
        UsageError: its vocabulary has nothing in common with them.
    """
    units = potential.vocab
    if all(isinstance(unit, int) for unit in units):
        return b"".join
    if all(isinstance(unit, Token) for unit in units):
        own = {unit.token_id: unit for unit in units}
        if all(t.token_id in own and bytes(own[t.token_id]) == bytes(t) for t in tokens):
            return list
        tokenize = getattr(potential, "tokenize", None)
        if tokenize is not None:
            return lambda context: tokenize(_text(context)) if context else []
    elif all(isinstance(unit, bytes) for unit in units):
        if all(len(unit) == 1 for unit in units):
            return lambda context: [bytes([byte]) for byte in b"".join(context)]
        if set(units) & set(map(bytes, tokens)):
            return lambda context: [bytes(token) for token in context]
    elif all(isinstance(unit, str) for unit in units):
        if all(len(unit) == 1 for unit in units):
            return lambda context: list(_text(context))
        if set(units) & {bytes(token).decode(errors="replace") for token in tokens}:
            return lambda context: [bytes(token).decode(errors="replace") for token in context]
    raise UsageError(
        f"the vocabulary of {potential!r:.80} is neither bytes, characters nor tokens of the "
        "follower: say with units=... what it reads for a list of the follower's tokens"
    )


def _text(tokens: Sequence[bytes]) -> str:
    data = b"".join(tokens)
    return data[: len(data) - len(unfinished(data))].decode("utf-8", errors="replace")
