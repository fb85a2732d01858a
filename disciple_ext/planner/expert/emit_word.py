"""From a word under constraints to a program that spells it."""

from __future__ import annotations

from .constraints import LAST, Word
from .emit import Sketch, assign, listed
from .prompts import ordinal

__all__ = ["emit_word"]

_MORE = 3
"""Lengths that are tried where the task gives only the least one."""


def emit_word(word: Word) -> str:
    """The program for a word."""
    given = {place: letter for place, letter in word.given if place != LAST}
    last, exact = dict(word.given).get(LAST), word.length.exact
    high = word.length.high
    most = word.length.low + _MORE - 1 if high is None else min(high, word.length.low + _MORE - 1)
    if word.length.low < 3 < (high or 4):
        most = max(most, min(high or 7, 7))  # a length of one or two letters says little
    sketch = Sketch(
        summary=_summary(word),
        max_tokens=2 * most + 8,
        prior="Write a sentence.",
        proposal="Write a sentence.",
        granularity="the whole word.",
        strategy="the letters are drawn with a look ahead, so that the beginning leaves room for "
        "what must come later.",
        end="the word is over, and no letter follows it.",
    )
    if given:
        sketch.state += assign("given", given)
    length = str(exact)
    if exact is None:
        length = "length"
        drawn = f"{word.length.low} + self.random.randrange({most - word.length.low + 1})"
    free = "string.ascii_lowercase"
    if given:
        places = f"[self.given.get(p, {free}) for p in range(1, {length} + 1)]"
    else:
        places = f"[{free}] * {length}"
    sketch.step = [
        'await self.preface("It was a ")  # a word as it stands in a sentence',
        *([f"length = {drawn}"] if exact is None else []),
        f"places = {places}",
        *([f"places[-1] = {last!r}"] if last else []),
        "await self.spell(places, after=string.ascii_letters, bold=0.9)",
        "await self.end_word()",
        "self.score(-sum(self.char_log_probs[:4]))  # any beginning counts alike",
        "self.finish()",
    ]
    sketch.check = _check(word, given, last)
    return sketch.source()


def _summary(word: Word) -> str:
    parts = [f"with {word.length.phrase('letters')}"] if word.length else []
    parts += [f"with {letter!r} as the {ordinal(place)} letter" for place, letter in word.given]
    return f"Writes a word {listed(parts)}".rstrip() + "."


def _check(word: Word, given: dict[int, str], last: str | None) -> list[str]:
    length = word.length
    tests = ["text.isalpha()"]
    if length.exact is not None:
        tests.append(f"len(text) == {length.exact}")
    elif length.high is None:
        tests.append(f"len(text) >= {length.low}")
    else:
        tests.append(f"{length.low} <= len(text) <= {length.high}")
    if given:
        tests.append("all(text[p - 1].lower() == c for p, c in self.given.items())")
    if last:
        tests.append(f"text.lower().endswith({last!r})")
    return [f"return {' and '.join(tests)}"]
