r"""Python's regular expressions in llguidance's dialect, and in counted pieces where they can be.

A pattern is read by Python's own parser and written anew, so that whatever the library then
accepts is a text that ``re.fullmatch`` accepts. ``\d``, ``\w`` and ``\s`` stand for ASCII
characters; their negations leave out all that they stand for in Unicode. What a mask cannot keep
to (looking around, back references) is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

__all__ = ["Piece", "Regex", "Refused", "translate"]

ASCII = frozenset(map(chr, range(128)))


class Refused(ValueError):
    """A part of a pattern, grammar or schema cannot be kept to.

    Attributes:
        part: what it is called.
        instead: what to write instead.
    """

    def __init__(self, part: str, instead: str) -> None:
        super().__init__(part)
        self.part = part
        self.instead = instead


@dataclass(frozen=True)
class Piece:
    """One class of characters, and how often it may come.

    Attributes:
        source: the class in the library's dialect.
        chars: its ASCII characters.
        spans: first and last code points of what is in it, or out of it where it is ``negated``.
        negated: see ``spans``.
        unsure: whether only the library knows which other characters it has.
        least, most: how often it comes; ``most`` is None where there is no limit.
    """

    source: str
    chars: frozenset[str]
    spans: tuple[tuple[int, int], ...]
    negated: bool
    unsure: bool
    least: int
    most: int | None

    def holds(self, char: str) -> bool | None:
        """Whether a character is in the class; None where only the library knows."""
        if char.isascii():
            return char in self.chars
        if self.unsure:
            return None
        return any(low <= ord(char) <= high for low, high in self.spans) != self.negated

    def overlaps(self, other: Piece) -> bool:
        """Whether some character may belong to both."""
        return bool(self.chars & other.chars) or (self._wide and other._wide)

    @property
    def _wide(self) -> bool:
        return self.unsure or self.negated or any(high > 127 for _, high in self.spans)


@dataclass(frozen=True)
class Regex:
    """A pattern, translated.

    Attributes:
        source: the whole in the library's dialect.
        pieces: all of it, where it is a sequence of pieces; or what it begins with, as far as
            where one piece ends and the next begins does not depend on what comes after.
        tail: what follows them, in the library's dialect.
    """

    source: str
    pieces: tuple[Piece, ...]
    tail: str


def translate(pattern: str) -> Regex:
    """Read a pattern.

    Raises:
        Refused: it is no regular expression, or has a part that a mask cannot keep to.
    """
    try:
        # Private, but another parser might read a pattern otherwise than `re.fullmatch` does.
        tree = _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise Refused(f"what Python's re cannot read ({error})", "correct the pattern") from None
    flags = tree.state.flags
    if flags & re.LOCALE:
        raise Refused("the flag L", "leave it out")
    nodes = list(tree)
    # The whole text is matched anyhow, so that anchors at the two ends say nothing.
    if nodes and nodes[0] in ((op.AT, op.AT_BEGINNING), (op.AT, op.AT_BEGINNING_STRING)):
        nodes = nodes[1:]
    if nodes and nodes[-1] in ((op.AT, op.AT_END), (op.AT, op.AT_END_STRING)):
        nodes = nodes[:-1]
    whole = _sequence(nodes, flags)
    if flags & re.IGNORECASE:
        # No pieces: their classes hold the letters as they are written, in one case.
        return Regex(f"(?i:{whole})", (), f"(?i:{whole})")
    pieces = _pieces(nodes, flags)
    return Regex(whole, tuple(pieces), _sequence(nodes[len(pieces) :], flags))


def _sequence(nodes: Sequence[Any], flags: int) -> str:
    return "".join(_write(kind, value, flags) for kind, value in nodes)


def _write(kind: Any, value: Any, flags: int) -> str:
    """One node of Python's tree in the library's dialect."""
    if kind in _CHARACTER:
        return _class(kind, value, flags)
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT):  # lazy or not, the texts are the same
        least, most, inner = value
        end = "" if most is op.MAXREPEAT else most
        return f"(?:{_sequence(inner, flags)}){{{least},{end}}}"
    if kind is op.BRANCH:
        return f"(?:{'|'.join(_sequence(branch, flags) for branch in value[1])})"
    if kind is op.SUBPATTERN:
        _, added, removed, inner = value
        text = _sequence(inner, (flags | added) & ~removed)
        sign = "i" if added & re.IGNORECASE else "-i" if removed & re.IGNORECASE else ""
        return f"(?{sign}:{text})"
    raise Refused(*_REFUSED.get(kind, (str(kind).lower(), "leave it out")))


_CHARACTER = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)
_CHECK = "leave it out, and test it in `check(self, text)`"
_REFUSED = {
    op.ASSERT: ("a lookahead or lookbehind", _CHECK),
    op.ASSERT_NOT: ("a negative lookahead or lookbehind", _CHECK),
    op.GROUPREF: ("a back reference", "write out what may be repeated, or " + _CHECK),
    op.GROUPREF_EXISTS: ("a conditional group", "write the cases with `|`"),
    op.ATOMIC_GROUP: ("an atomic group", "write a plain group, `(?:...)`"),
    op.POSSESSIVE_REPEAT: ("a possessive repeat", "write it without the last `+`"),
    op.AT: ("an anchor or word boundary (^, $ or \\b) inside the pattern",
            "leave it out: the pattern is matched from the beginning to the end"),
}  # fmt: skip


# Classes of characters ------------------------------------------------------------------------

# What a category is by itself, and what it is under a negation, which must not let more through.
_NARROW = {
    op.CATEGORY_DIGIT: "0-9",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_WORD: "0-9A-Za-z_",
    op.CATEGORY_NOT_WORD: r"[^\w\p{N}]",
    op.CATEGORY_SPACE: r"\x20\t\n\r\f\v",
    op.CATEGORY_NOT_SPACE: r"[^\s\x1c-\x1f]",
}
_WIDE = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"[^0-9]",
    op.CATEGORY_WORD: r"\w\p{N}",
    op.CATEGORY_NOT_WORD: r"[^0-9A-Za-z_]",
    op.CATEGORY_SPACE: r"\s\x1c-\x1f",
    op.CATEGORY_NOT_SPACE: r"[^\x20\t\n\r\f\v]",
}


def _class(kind: Any, value: Any, flags: int) -> str:
    if kind is op.LITERAL:
        return _char(value)
    if kind is op.NOT_LITERAL:
        return f"[^{_char(value)}]"
    if kind is op.ANY:
        return r"(?s:.)" if flags & re.DOTALL else r"[^\n]"
    negated = value[0][0] is op.NEGATE
    table = _WIDE if negated else _NARROW
    out = []
    for item, content in value[1:] if negated else value:
        if item is op.LITERAL:
            out.append(_char(content))
        elif item is op.RANGE:
            out.append(f"{_char(content[0])}-{_char(content[1])}")
        else:
            out.append(table[content])
    return f"[{'^' if negated else ''}{''.join(out)}]"


def _char(code: int) -> str:
    if 0xD800 <= code < 0xE000:
        raise Refused("half of a surrogate pair", "write the whole character")
    char = chr(code)
    # By number, so that nothing of the pattern has a meaning in the library's own syntax.
    return char if char.isascii() and char.isalnum() else f"\\x{{{code:X}}}"


# Pieces ---------------------------------------------------------------------------------------


def _pieces(nodes: Sequence[Any], flags: int) -> list[Piece]:
    """All of the pattern as pieces, or those at its beginning whose ends are beyond doubt."""
    pieces: list[Piece] = []
    for kind, value in nodes:
        least, most = 1, 1
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT) and len(value[2]) == 1:
            least, most, ((kind, value),) = value
        if kind not in _CHARACTER:
            break
        limit = None if most is op.MAXREPEAT else int(most)
        pieces.append(_piece(kind, value, flags, int(least), limit))
    if len(pieces) < len(nodes):
        while pieces and not _certain(pieces):
            pieces.pop()
    return pieces


def _piece(kind: Any, value: Any, flags: int, least: int, most: int | None) -> Piece:
    negated, unsure = kind is op.NOT_LITERAL, False
    spans: list[tuple[int, int]] = []
    named: set[str] = set()
    if kind is op.ANY:
        negated, spans = True, [] if flags & re.DOTALL else [(10, 10)]
    elif kind in (op.LITERAL, op.NOT_LITERAL):
        spans = [(value, value)]
    else:
        negated = value[0][0] is op.NEGATE
        for item, content in value[1:] if negated else value:
            if item is op.CATEGORY:
                category = (_WIDE_ASCII if negated else _NARROW_ASCII).get(content)
                named.update(c for c in ASCII if re.match(category or _CATEGORY[content], c))
                # Without a negation on either side, it stands for ASCII characters alone.
                unsure |= negated or content in _NEGATIVE
            else:
                spans.append((content, content) if item is op.LITERAL else content)
    found = {c for c in ASCII if c in named or any(a <= ord(c) <= b for a, b in spans)}
    chars = ASCII - found if negated else frozenset(found)
    return Piece(_class(kind, value, flags), chars, tuple(spans), negated, unsure, least, most)


_NEGATIVE = (op.CATEGORY_NOT_DIGIT, op.CATEGORY_NOT_WORD, op.CATEGORY_NOT_SPACE)
_CATEGORY = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
}
# Python takes the separators \x1c to \x1f for white space, and the grammar's engine does not.
_NARROW_ASCII = {op.CATEGORY_SPACE: r"[ \t\n\r\f\v]"}
_WIDE_ASCII = {op.CATEGORY_NOT_SPACE: r"[^ \t\n\r\f\v]"}


def _certain(pieces: Sequence[Piece]) -> bool:
    """Whether each character says by itself to which piece it belongs, where more follows.

    A piece that may go on and may end needs a class apart from all that may come next, up to the
    first piece that must come.
    """
    for i, piece in enumerate(pieces):
        if piece.least == piece.most:
            continue
        for after in pieces[i + 1 :]:
            if piece.overlaps(after):
                return False
            if after.least:
                break
        else:
            return False
    return True
