"""The ``check`` of a program: COLLIE's own conditions on a finished text."""

from __future__ import annotations

from .constraints import LAST, Range, Writing

__all__ = ["check_lines"]


def check_lines(writing: Writing) -> list[str]:
    """Statements of ``check``."""
    lines: list[str] = []
    tests: list[str] = []
    every = writing.sentence_words or writing.every_placed or writing.first_words
    # Cut only what a test needs: `check` runs for each finished text.
    if writing.sentences or every or writing.last_words:
        cut = "[units.words(s) for s in units.sentences(text)]"
        lines.append(f"sentences = {cut}")
    if writing.words or writing.word_chars or writing.placed or writing.contains or writing.avoids:
        lines.append("words = units.words(text)")
    if writing.characters:
        tests.append(_within("len(text)", writing.characters))
    if writing.words:
        tests.append(_within("len(words)", writing.words))
    if writing.sentences:
        tests.append(_within("len(sentences)", writing.sentences))
    if writing.sentence_words:
        tests.append(f"all({_within('len(s)', writing.sentence_words)} for s in sentences)")
    if writing.word_chars:
        tests.append(f"all({_within('len(w)', writing.word_chars)} for w in words)")
    for place, word in writing.placed:
        tests.append(_same("words", place, word))
    for place, word in writing.every_placed:
        tests.append(f"all({_same('s', place, word)} for s in sentences)")
    for index, ends in ((0, writing.first_words), (-1, writing.last_words)):
        if ends:
            name = "self.firsts" if index == 0 else "self.lasts"
            tests.append(f"len(sentences) == {len(ends)}")
            tests.append(
                f"all(s and units.same_word(s[{index}], w) for s, w in zip(sentences, {name}))"
            )
    if writing.contains:
        tests.append(
            f"all(any(units.same_word(w, x) for x in words) for w in {list(writing.contains)!r})"
        )
    if writing.avoids:
        tests.append("not any(units.same_word(w, x) for w in self.avoid for x in words)")
    if not tests:
        # No constraint was read: an empty text is still no answer.
        tests = ["bool(text)"]
    if len(tests) == 1:
        lines.append(f"return {tests[0]}")
    else:
        lines += ["return (", f"    {tests[0]}", *(f"    and {test}" for test in tests[1:]), ")"]
    return lines


def _within(count: str, limit: Range) -> str:
    if limit.exact is not None:
        return f"{count} == {limit.exact}"
    if limit.high is None:
        return f"{count} >= {limit.low}"
    if not limit.low:
        return f"{count} <= {limit.high}"
    return f"{limit.low} <= {count} <= {limit.high}"


def _same(words: str, place: int, word: str) -> str:
    index = place if place == LAST else place - 1
    # A text may be too short for the place: then the check must say False and not raise.
    length = f"{words}" if place == LAST else f"len({words}) > {index}"
    return f"{length} and units.same_word({words}[{index}], {word!r})"
