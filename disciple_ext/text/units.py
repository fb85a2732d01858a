r"""What a word, a sentence, a line, a paragraph and a character are: one definition.

Masks, hints, programs' ``check`` methods and the evaluation all count with these functions, so
that a text that a program believes to be right is right. They agree with COLLIE's official
checker (``collie-bench`` 0.1.0 under NLTK 3.8.1):

- a *character* is a Python code point; nothing is trimmed;
- a *word* is a token of `word_rules` that is not a run of ``string.punctuation``, with outer
  white space and dots taken off. ``don't`` is two words, ``cannot`` too, ``well-known`` is one,
  and quotation marks and ``--`` count (COLLIE's quirks, kept on purpose);
- a *sentence* is what the Punkt algorithm finds, here with parameters of our own.

Pure Python and ``re``: programs use this module inside the sandbox.
"""

from __future__ import annotations

import re
import string

from disciple_ext.text.sentence_rules import ABBREVIATIONS, STARTERS, split
from disciple_ext.text.word_rules import SPLIT_WORDS, tokens

__all__ = [
    "SPLIT_WORDS",
    "characters",
    "ends_safely",
    "lines",
    "normal_word",
    "paragraphs",
    "same_word",
    "sentences",
    "words",
]

_LAST_WORD = re.compile(r"(?:^|\s)([A-Za-z]+(?:-[A-Za-z]+)*)$")
_LAST_NUMBER = re.compile(r"(?:^|\s)\d+(?:,\d{3})*$")

# Of words of one or two letters only these are never short for something else.
_SHORT_WORDS = frozenset("be by do go he hi if in is it me my of oh on or so to up us we".split())

# Short forms that other splitters know, or that NLTK's trained parameters may know. A stop after
# one of them ends a sentence for some splitters and not for others.
_DOUBTFUL = ABBREVIATIONS | frozenset(
    "abt acad am approx appt apr apt ark assn assoc atty aug bldg capt chap chg cie cit cmdr "
    "comdr comm cont cos cpl del dep dept dist div ed eds eg encl eng eq equip esp esq est etc "
    "ex ext fig figs fut gal gov govt hon hosp hwy ibid ie ind insp inst intl ital jour jul jun "
    "jurisd lang lat lib lieut loc mar mass med misc mon mont mus nat nd no nos obs op ord org "
    "orig oz par para pct phd phil pl plc pm pres proc prov pseud publ pvt qty ref res ret rev "
    "rom sec secs sect sens ser sgt st supp suppl supt surg syn tel temp thu thur trans treas "
    "tue univ usu vet viz vol vols wisc wk wks wyo yd yds yr yrs".split()
)


def characters(text: str) -> int:
    """Count the characters of a text.

    Args:
        text: any text.

    Returns:
        The number of code points, white space included.
    """
    return len(text)


def words(text: str) -> list[str]:
    """Cut a text into COLLIE's words.

    Args:
        text: any text.

    Returns:
        The words in order. An ellipsis inside a text counts as an empty word, as in COLLIE.
    """
    # `in` is COLLIE's own substring test: ",-." is dropped, "--" and "``" are not.
    return [t.strip().strip(".") for t in tokens(text) if t not in string.punctuation]


def sentences(text: str) -> list[str]:
    """Cut a text into sentences, with their end marks.

    Args:
        text: any text.

    Returns:
        The sentences in order, none of them empty.
    """
    return split(text)


def lines(text: str) -> list[str]:
    r"""Cut a text into its lines that hold more than white space.

    Args:
        text: any text.

    Returns:
        The lines in order, without outer white space.
    """
    return [line.strip() for line in text.split("\n") if line.strip()]


def paragraphs(text: str) -> list[str]:
    r"""Cut a text into paragraphs at blank lines.

    Args:
        text: any text.

    Returns:
        The paragraphs in order, without outer white space, none of them empty.
    """
    return [part.strip() for part in re.split(r"\n[^\S\n]*\n", text) if part.strip()]


def normal_word(word: str) -> str:
    """Give the form in which COLLIE compares words.

    Args:
        word: one word.

    Returns:
        The word in lower case without outer punctuation and spaces; a word made only of
        punctuation stays as it is.
    """
    return word.lower().strip(string.punctuation + " ") or word


def same_word(a: str, b: str) -> bool:
    """Tell whether two words are the same for COLLIE: case and outer punctuation do not count.

    Args:
        a: one word.
        b: another.

    Returns:
        True if they are the same.
    """
    return normal_word(a) == normal_word(b)


def ends_safely(text: str, after: str | None = None) -> bool:
    """Tell whether a full stop right after this text ends a sentence for every splitter.

    It does after an ordinary word of letters. It may not after an abbreviation, an initial, a
    number, a word without a vowel or anything with a stop, an apostrophe or a quote in it; then
    the answer is False, in doubt too. ``!`` and ``?`` end a sentence after any word.

    Args:
        text: the text before the full stop.
        after: the word that will follow, where it is known. A plain number ends safely before
            the capitalised form of a common first word ("in 1982. The ...").

    Returns:
        True if no splitter takes the stop for a part of the last word.
    """
    if after is not None and _LAST_NUMBER.search(text):
        return after.istitle() and after.lower() in STARTERS
    match = _LAST_WORD.search(text)
    if match is None:
        return False
    parts = match.group(1).lower().split("-")
    return all(_is_ordinary(part) for part in parts)


def _is_ordinary(word: str) -> bool:
    """Whether a word of letters is no abbreviation as far as anybody knows."""
    if len(word) <= 2:
        return word in _SHORT_WORDS
    return word not in _DOUBTFUL and any(char in "aeiouy" for char in word)
