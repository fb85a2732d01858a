"""COLLIE's tasks on a single word: how many letters it has, and which of them are given."""

from __future__ import annotations

import re

from ...errors import TaskNotUnderstood
from . import grammar as g
from .constraints import LAST, Range, Word

__all__ = ["parse_word"]

_TASK = re.compile(
    r"\s*(?:please\s+)?(?:generate|write|give|find|name|produce|think of)(?:\s+me)?\s+"
    r"an?\s+(?:single\s+|english\s+)*word\b(?!s)",
    re.I,
)
_LETTERS = r"(?:characters?|letters?)"
_COUNT = re.compile(rf"(?P<count>{g.RANGE})[\s-]+{_LETTERS}(?:\s+long)?", re.I)
_PLACED = re.compile(rf"{g.ORDS}\s+{_LETTERS}{g.BE}{g.QS}", re.I)
_EDGE = re.compile(
    rf"\b(?:(?P<first>{g.START})|{g.END})\s+(?:the\s+)?(?:{_LETTERS}\s+)?(?P<quoted><\d+>)", re.I
)
_FILLER = re.compile(
    r"\b(?:with|that|which|and|has|have|having|is|the|a|its|of|to|be|whose|should|must)\b|[\s.,;:]+"
)
_LONGEST = 30


def parse_word(instruction: str) -> Word | None:
    """The word that a task asks for, or None where it asks for something else.

    Raises:
        TaskNotUnderstood: it asks for a word, and a part of it cannot be read, or contradicts
            another one.
    """
    quoted: list[str] = []

    def cut_out(match: re.Match[str]) -> str:
        quoted.append(match.group(1))
        return f"<{len(quoted) - 1}>"

    begun = _TASK.match(instruction)
    if begun is None:
        return None
    text = g.QUOTED.sub(cut_out, instruction[begun.end() :])
    text = " " + re.sub(r"\s+", " ", g.ENUMERATOR.sub(" ; ", text))
    length, given = Range(1), dict[int, str]()

    def place(where: int, letter: str) -> None:
        if len(letter) != 1 or not letter.isascii() or not letter.isalpha():
            raise TaskNotUnderstood(f"{letter!r} is no letter from a to z, which a word is made of")
        # Case is no contradiction: COLLIE compares without it.
        if given.setdefault(where, letter.lower()) != letter.lower():
            raise TaskNotUnderstood(f"the task gives two letters for one place: {letter!r}")

    for match in _PLACED.finditer(text):
        places = [g.place_of(p) for p in re.findall(g.ORD, match["places"], flags=re.I)]
        letters = [quoted[int(k)] for k in re.findall(r"<(\d+)>", match["quoted"])]
        if len(places) != len(letters) or 0 in places:
            raise TaskNotUnderstood(
                f"{len(places)} places and {len(letters)} letters; give one letter for each place, "
                "and count the places from 1"
            )
        for where, letter in zip(places, letters, strict=True):
            place(where, letter)
    text = _PLACED.sub(" ; ", text)
    for match in _EDGE.finditer(text):
        place(1 if match["first"] else LAST, quoted[int(re.sub(r"\D", "", match["quoted"]))])
    text = _EDGE.sub(" ; ", text)
    for match in _COUNT.finditer(text):
        length &= g.range_of(match["count"])
    text = _COUNT.sub(" ; ", text)
    if rest := _FILLER.sub(" ", text.lower()).strip():
        for number, letter in enumerate(quoted):
            rest = rest.replace(f"<{number}>", repr(letter))
        raise TaskNotUnderstood(
            f"the expert planner cannot read {rest!r}: of a word it understands how many "
            "characters it has ('exactly 9 characters', 'at least 12 characters') and which of "
            "them are given ('the 4th, 8th characters to be 'a', 'b' respectively', 'the last "
            "character to be 'c''). For other tasks use another planner (--planner openai:MODEL)"
        )
    return _whole(length, given)


def _whole(length: Range, given: dict[int, str]) -> Word:
    length &= Range(max(0, *given, 1))
    if length.empty or length.low > _LONGEST:
        raise TaskNotUnderstood(
            f"there is no word with {Range(length.low, length.high).phrase('letters')} and these "
            "places; change the length or the places"
        )
    last, exact = given.get(LAST), length.exact
    if last is not None and exact is not None and given.get(exact, last) != last:
        raise TaskNotUnderstood(f"letter {exact} is the last one, and the task gives two for it")
    return Word(length, tuple(sorted(given.items(), key=lambda p: (p[0] == LAST, p[0]))))
