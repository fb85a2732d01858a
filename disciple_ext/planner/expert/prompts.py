"""A writing task in words: the summary of its program, and the prompts of prior and proposal."""

from __future__ import annotations

from .constraints import LAST, Writing
from .emit import listed, quoted
from .layout import Layout

__all__ = ["ordinal", "prompt", "summary"]


def summary(writing: Writing) -> str:
    """One sentence that says what the program writes."""
    parts = []
    for limit, unit in (
        (writing.characters, "characters"),
        (writing.words, "words"),
        (writing.sentences, "sentences"),
    ):
        if limit:
            parts.append(f"with {limit.phrase(unit)}")
    if writing.sentence_words:
        parts.append(f"with sentences of {writing.sentence_words.phrase('words')}")
    if writing.word_chars:
        parts.append(f"with words of {writing.word_chars.phrase('characters')}")
    for places, scope in ((writing.placed, ""), (writing.every_placed, " of every sentence")):
        if places:
            where = listed([ordinal(place) for place, _ in places])
            plural = "words" if len(places) > 1 else "word"
            parts.append(f"with {quoted(w for _, w in places)} as the {where} {plural}{scope}")
    if writing.first_words:
        parts.append(f"whose sentences start with {quoted(writing.first_words)}")
    if writing.last_words:
        parts.append(f"whose sentences end with {quoted(writing.last_words)}")
    if writing.contains:
        parts.append(f"that contains {quoted(writing.contains)}")
    if writing.avoids:
        parts.append(f"without the words {quoted(writing.avoids)}")
    about = f" about {writing.topic}" if writing.topic else ""
    return f"Writes a {writing.level}{about} {', '.join(parts)}".rstrip() + "."


def ordinal(place: int) -> str:
    """A place in words and figures: ``4th``, ``last``."""
    if place == LAST:
        return "last"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{'th' if 10 < place % 100 < 14 else ending}"


def prompt(writing: Writing, layout: Layout, *, constrained: bool) -> str:
    """A prompt of the kinds that the embedded follower was tuned on."""
    parts = [f"Write a {writing.level}"]
    if writing.topic:
        parts.append(f"about {writing.topic}")
    if not constrained:
        return " ".join(parts) + "."
    sentence = writing.level == "sentence"
    exact = writing.characters.exact
    if sentence and exact is not None:
        parts.append(f"with {exact} characters")
    elif sentence and writing.words.exact is not None:
        parts.append(f"with {writing.words.exact} words")
    elif not sentence and writing.sentences.exact is not None:
        parts.append(f"with {writing.sentences.exact} sentences")
    if writing.last_words:
        parts.append(f"that end with {quoted(writing.last_words)}")
    elif not sentence and 1 in layout.every:
        parts.append(f"where every sentence starts with '{layout.every[1]}'")
    words = [*dict(sorted(layout.given.items())).values(), *writing.contains]
    if words:
        parts.append(f"with the word{'s' * (len(words) > 1)} {quoted(words)}")
    elif sentence and layout.last:
        parts.append(f"that ends with '{layout.last}'")
    elif not sentence and len(parts) == 1 and layout.sentence_words.low >= 17:
        parts.append("with long sentences")
    return " ".join(parts) + "."
