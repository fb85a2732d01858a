r"""How a text is cut into sentences: the Punkt algorithm, with parameters of our own.

The algorithm is that of Kiss and Strunk, "Unsupervised Multilingual Sentence Boundary
Detection" (Computational Linguistics 32, 2006), in the form that NLTK gives it
(``PunktSentenceTokenizer``): the same patterns, the same two passes, the same realignment of
closing quotes and brackets. ``PLAIN_ENGLISH`` are parameters of our own: common abbreviations
and words that, capitalised, begin a sentence. With NLTK's trained parameters
(`disciple_ext.evaluation.suites.punkt` reads them where a user has them) the cuts are NLTK's.

The patterns derive from NLTK, Copyright (C) 2001-2023 NLTK Project, licensed under the Apache
License, Version 2.0 (http://www.apache.org/licenses/LICENSE-2.0). Changes: rewritten as
functions over one frozen record of parameters; training and debugging left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["ABBREVIATIONS", "PLAIN_ENGLISH", "STARTERS", "PunktParameters", "split"]

# Orthographic contexts: how a word was seen in the training text (bits of NLTK's table).
_MIDDLE_UPPER = 1 << 2
_UPPER = 1 << 1 | 1 << 2 | 1 << 3
_BEGINNING_LOWER = 1 << 4
_MIDDLE_LOWER = 1 << 5
_LOWER = 1 << 4 | 1 << 5 | 1 << 6

_NON_WORD = r"[)\";}\]*:@'({\[?!]"
_MULTI = r"-{2,}|\.{2,}|(?:\.\s){2,}\."
_TOKEN = re.compile(
    rf"""{_MULTI}
    | (?=[^("`{{\[:;&\#*@)}}\]\-,])\S+?
      (?=\s|$|{_NON_WORD}|{_MULTI}|,(?=$|\s|{_NON_WORD}|{_MULTI}))
    | \S""",
    re.VERBOSE,
)
_CONTEXT = re.compile(rf"[.?!](?=(?P<after>{_NON_WORD}|\s+(?P<next>\S+)))")
_CLOSING = re.compile(r"[\"')\]}]+?(?:\s+|(?=--)|$)", re.MULTILINE)
_NUMBER = re.compile(r"^-?[.,]?\d[\d,.-]*\.?$")
_INITIAL = re.compile(r"[^\W\d]\.$")
_ELLIPSIS = re.compile(r"\.\.+$")
_ASCII_SPACE = " \t\n\r\x0b\x0c"


@dataclass(frozen=True)
class PunktParameters:
    """What the Punkt algorithm knows of a language.

    Attributes:
        abbreviations: lower-case words, without their last stop, after which a stop is no end.
        collocations: pairs of types that a stop between them does not part.
        starters: lower-case words that often begin a sentence.
        contexts: how a lower-case word was seen: bits of NLTK's orthographic contexts.
    """

    abbreviations: frozenset[str]
    collocations: frozenset[tuple[str, str]] = frozenset()
    starters: frozenset[str] = frozenset()
    contexts: Mapping[str, int] = field(default_factory=dict)


ABBREVIATIONS = frozenset(
    # titles and ranks
    "adm col dr fr gen jr lt maj messrs mr mrs ms prof ph.d rep reps sen sr st "
    # companies
    "bros co corp cos inc ltd s.a s.p.a "
    # months and days
    "jan feb apr aug sep sept oct nov dec tues wed thurs fri "
    # the states of the USA, in the newspapers' short forms
    "ala ariz calif colo conn d.c fla ga ill kan ky mich minn n.c n.d n.h n.j n.m "
    "n.y neb nev okla ore pa r.i s.c s.d tenn tex va vt w.va wash wis "
    # places, streets, peoples
    "ave blvd ct e.u ft rd u.k u.n u.s u.s.a "
    # times, degrees, contests, the points of the compass
    "a.m p.m a.d b.c m.b.a vs ne nw se sw".split()
) | frozenset(
    # the commoner initials ("J. Smith" needs none: see _revise), and a spaced ellipsis
    [*"cdfghklmnprstvw", ". . "]
)
"""Abbreviations after which a full stop does not end a sentence (lower case, last stop off)."""

STARTERS = frozenset(
    "a according after all also although among an and another any are as at because before both "
    "but by can could despite did do does during each even every few finally first for from had "
    "has have he her here his how however i if in indeed instead is it its later many may "
    "meanwhile more moreover most my nevertheless next nor not now on once one only or other "
    "our over people perhaps several she should since so some soon still such than that the "
    "their then there these they this those though three through thus to two under until we "
    "were what when where whether which while why will with within without would yet you "
    "your".split()
)
"""Words that, capitalised after an abbreviation or an ellipsis, begin a sentence."""

PLAIN_ENGLISH = PunktParameters(
    abbreviations=ABBREVIATIONS,
    starters=STARTERS,
    # As if seen in lower case: only then a capital says that a sentence begins.
    contexts=dict.fromkeys(STARTERS, _MIDDLE_LOWER),
)
"""Our own parameters: enough for plain prose without rare abbreviations."""


class _Token:
    """A Punkt token with the marks that the two passes leave on it."""

    __slots__ = ("abbreviation", "breaks", "ellipsis", "kind", "text")

    def __init__(self, text: str, parameters: PunktParameters) -> None:
        self.text = text
        self.kind = _NUMBER.sub("##number##", text.lower())
        self.abbreviation = self.ellipsis = False
        self.breaks = text in (".", "?", "!")
        if not self.breaks and _ELLIPSIS.match(text):
            self.ellipsis = True
        elif not self.breaks and text.endswith(".") and not text.endswith(".."):
            bare = text[:-1].lower()
            known = parameters.abbreviations
            self.abbreviation = bare in known or bare.rsplit("-", 1)[-1] in known
            self.breaks = not self.abbreviation

    @property
    def bare_kind(self) -> str:
        return self.kind[:-1] if len(self.kind) > 1 and self.kind.endswith(".") else self.kind

    @property
    def kind_here(self) -> str:
        """The type, without its stop where that stop ends a sentence."""
        return self.bare_kind if self.breaks else self.kind


def _starts_sentence(token: _Token, parameters: PunktParameters) -> bool | None:
    """Whether a token begins a sentence by its case; None where its case does not tell."""
    if token.text in (";", ":", ",", ".", "!", "?"):
        return False
    seen, first = parameters.contexts.get(token.kind_here, 0), token.text[0]
    if first.isupper() and seen & _LOWER and not seen & _MIDDLE_UPPER:
        return True
    if first.islower() and (seen & _UPPER or not seen & _BEGINNING_LOWER):
        return False
    return None


def _revise(token: _Token, after: _Token, parameters: PunktParameters) -> None:
    """The second pass: what follows a word with a stop may change what the stop means."""
    if not token.text.endswith("."):
        return
    kind, next_kind = token.bare_kind, after.kind_here
    if (kind, next_kind) in parameters.collocations:
        token.breaks = False
        return
    initial = _INITIAL.match(token.text) is not None
    upper = after.text[0].isupper()
    if (token.abbreviation or token.ellipsis) and not initial:
        starter = upper and next_kind in parameters.starters
        if _starts_sentence(after, parameters) or starter:
            token.breaks = True
            return
    if initial or kind == "##number##":
        starts = _starts_sentence(after, parameters)
        lower_seen = parameters.contexts.get(next_kind, 0) & _LOWER
        if starts is False or (starts is None and initial and upper and not lower_seen):
            token.breaks = False


def _breaks(context: str, parameters: PunktParameters) -> bool:
    """Whether a sentence ends inside a context: a word, its end mark and what follows."""
    found = [
        _Token(token.group(), parameters)
        for line in context.split("\n")
        for token in _TOKEN.finditer(line)
    ]
    for token, after in zip(found, found[1:], strict=False):
        _revise(token, after, parameters)
    # As in NLTK, a break counts only where a token follows it.
    return any(token.breaks for token in found[:-1])


def _contexts(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each mark that may end a sentence, with its word before and what comes after."""
    start = stop = 0
    last: re.Match[str] | None = None
    for match in _CONTEXT.finditer(text):
        before = text[stop : match.start()]
        space = max(before.rfind(char) for char in _ASCII_SPACE)
        # NLTK takes a space at the very start of the stretch for none; we must do the same.
        begin = stop + space + 1 if space > 0 else start
        # Of marks that share their word ("acting!!!") only the last one counts.
        if last is not None and stop <= begin:
            yield last, text[start:stop] + last.group() + last.group("after")
        last, start, stop = match, begin, match.start()
    if last is not None:
        yield last, text[start:stop] + last.group() + last.group("after")


def split(text: str, parameters: PunktParameters = PLAIN_ENGLISH) -> list[str]:
    """Cut a text into sentences.

    Newlines alone do not end a sentence; white space between sentences is dropped.

    Args:
        text: any text.
        parameters: what to know of the language.

    Returns:
        The sentences with their end marks, none of them empty.
    """
    spans, begin = [], 0
    for match, context in _contexts(text):
        if _breaks(context, parameters):
            spans.append((begin, match.end()))
            begin = match.start("next") if match.group("next") else match.end()
    spans.append((begin, len(text.rstrip())))
    found, shift = [], 0
    for (start, stop), after in zip(spans, [*spans[1:], None], strict=True):
        start += shift
        shift = 0
        closing = _CLOSING.match(text[after[0] : after[1]]) if after else None
        if after and closing:  # a closing quote or bracket belongs to the sentence it closes
            found.append(text[start : after[0] + len(closing.group().rstrip())])
            shift = closing.end()
        elif text[start:stop]:
            found.append(text[start:stop])
    return found
