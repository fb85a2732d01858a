r"""How a text is cut into word tokens: the rules of NLTK 3.8.1, frozen.

The table holds the facts of NLTK 3.8.1's ``NLTKWordTokenizer`` (what
``nltk.word_tokenize(text, preserve_line=True)`` does), restated as one ordered list of
rewrites. Later NLTK releases cut dashes and quotes differently, and COLLIE's data was made with
these rules, so they are kept here rather than taken from whatever NLTK is installed.

The rules derive from NLTK, Copyright (C) 2001-2023 NLTK Project, licensed under the Apache
License, Version 2.0 (http://www.apache.org/licenses/LICENSE-2.0). Changes: one flat table,
the steps that never alter the list of tokens and the unused options left out.
"""

from __future__ import annotations

import re

__all__ = ["SPLIT_WORDS", "tokens"]

SPLIT_WORDS = frozenset({"cannot", "gimme", "gonna", "gotta", "lemme", "wanna"})
"""The purely alphabetic words, in lower case, that the rules cut in two ("can" + "not")."""

_CLOSERS = r"\]\)}>\"'"

_PAD, _SPLIT = r" \g<0> ", r"\1 \2 "

# Order matters: each rewrite sees the text that the one before it left.
_BEFORE_PADDING: tuple[tuple[str, str], ...] = (
    # Opening quotes.
    (r"[«“‘„]|`+", _PAD),
    (r"^\"", "``"),
    (r"``", _PAD),
    (r"([ (\[{<])(?:\"|'{2})", r"\1 `` "),
    (r"(?i)(')(?!re|ve|ll|m|t|s|d|n)(\w)\b", r"\1 \2"),
    # Punctuation. A full stop is a token of its own only at the very end of the text.
    (rf"([^.])(\.)([{_CLOSERS}»”’ ]*)\s*$", r"\1 \2 \3 "),
    (r"([:,])(\D)", r" \1 \2"),
    (r"([:,])$", r" \1 "),
    (r"\.{2,}", _PAD),
    (r"[;@#$%&]", _PAD),
    (rf"([^.])(\.)([{_CLOSERS}]*)\s*$", r"\1 \2\3 "),
    (r"[?!]", _PAD),
    (r"([^'])' ", r"\1 ' "),
    (r"\*", _PAD),
    (r"[\]\[(){}<>]", _PAD),
    (r"--", " -- "),
)
_AFTER_PADDING: tuple[tuple[str, str], ...] = (
    # Closing quotes and clitics.
    (r"[»”’]", _PAD),
    (r"''", " '' "),
    (r"\"", " '' "),
    (r"([^' ])('[sS]|'[mM]|'[dD]|') ", _SPLIT),
    (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", _SPLIT),
    # Contractions without an apostrophe, and old ones with it.
    *(
        (rf"(?i)\b({head})({tail})\b", r" \1 \2 ")
        for head, tail in (
            ("can", "not"),
            ("d", "'ye"),
            ("gim", "me"),
            ("gon", "na"),
            ("got", "ta"),
            ("lem", "me"),
            ("more", "'n"),
        )
    ),
    (r"(?i)\b(wan)(na)(?=\s)", r" \1 \2 "),
    (r"(?i) ('t)(is)\b", r" \1 \2 "),
    (r"(?i) ('t)(was)\b", r" \1 \2 "),
)


def _compiled(rules: tuple[tuple[str, str], ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), replacement) for pattern, replacement in rules)


_BEFORE, _AFTER = _compiled(_BEFORE_PADDING), _compiled(_AFTER_PADDING)


def tokens(text: str) -> list[str]:
    """Cut a text into word and punctuation tokens, as NLTK 3.8.1 does.

    Straight double quotes come back as two backquotes or two apostrophes, as in NLTK.

    Args:
        text: any text; sentence boundaries inside it are not looked for.

    Returns:
        The tokens in order, none of them empty.
    """
    for pattern, replacement in _BEFORE:
        text = pattern.sub(replacement, text)
    text = f" {text} "
    for pattern, replacement in _AFTER:
        text = pattern.sub(replacement, text)
    return text.split()
