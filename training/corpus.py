"""Read the corpus and cut it into clean sentences and paragraphs."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path

SIMPLE_SOURCES = frozenset(
    {
        "common-voice-sentences",
        "tatoeba",
        "coco-captions",
        "global-asp-stories",
        "e2e-restaurants",
        "wikisplit",
        "onestopenglish",
        "schema-guided-dialogue",
    }
)

MIN_WORDS, MAX_WORDS = 4, 35
MAX_SENTENCES = 8

_BOUNDARY = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9'])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Gen|Col|Lt|Capt|Sgt|Rev|Gov|Sen|Rep|Hon|No|vs|etc|Inc|Ltd"
    r"|Co|Corp|Jan|Feb|Aug|Sept|Oct|Nov|Dec|Mt|Ft|ft|e\.g|i\.e|al|ca|cf|Vol|Fig|approx|a\.m|p\.m)"
    r"|\b[A-Z]|[A-Z]\.[A-Z])\.$"
)
_WORD = re.compile(r"[A-Za-z0-9]+(?:['-][A-Za-z0-9]+)*")
_ODD = re.compile(r"[^A-Za-z0-9 ,.;:?!'()$%&-]|\.\.|,\.|\( |\(\)| ,|--|[?!]{2}|[A-Z]{6,}")


def read_documents(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (source family, text); all books of one publisher count as one family."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            yield record["source"].split(":")[0], record["text"]


def words_of(text: str) -> list[str]:
    """Return the words of a text, without punctuation marks."""
    return _WORD.findall(text)


def split_sentences(text: str) -> list[str]:
    """Split running text at sentence ends, keeping common abbreviations whole."""
    sentences: list[str] = []
    for piece in _BOUNDARY.split(" ".join(text.split())):
        if sentences and _ABBREVIATION.search(sentences[-1]):
            sentences[-1] += " " + piece
        else:
            sentences.append(piece)
    return sentences


def is_clean(sentence: str) -> bool:
    """Tell whether a sentence is complete, of a usual length and free of odd characters."""
    if not sentence or not sentence[0].isupper() or sentence[-1] not in ".!?":
        return False
    if sentence.count("(") != sentence.count(")") or _ODD.search(sentence):
        return False
    return MIN_WORDS <= len(sentence.split()) <= MAX_WORDS and len(sentence) <= 240


def clean_sentences(text: str) -> list[str]:
    """Return the clean sentences of a text."""
    return [s for s in split_sentences(text) if is_clean(s)]


def clean_paragraph(block: str, unquote: bool) -> list[str]:
    """Return the sentences of a paragraph, or an empty list if any of them is not clean.

    Args:
        block: the raw paragraph.
        unquote: drop double quotes instead of refusing the paragraph.
    """
    if unquote:
        block = block.replace('"', "")
    if '"' in block or block[:2] in ("- ", "1.") or "\n" in block.strip():
        return []
    sentences = split_sentences(block)
    # Children's stories have shorter sentences than the floor for single ones.
    fine = all(
        is_clean(s)
        or (
            2 <= len(s.split()) < MIN_WORDS
            and s[-1] in ".!?"
            and s[0].isupper()
            and not _ODD.search(s)
        )
        for s in sentences
    )
    return sentences if fine else []
