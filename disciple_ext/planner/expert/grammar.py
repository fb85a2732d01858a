"""The words and phrases of the constraint language, as patterns.

Upper-case names are fragments of regular expressions, to be matched without regard to case.
"""

from __future__ import annotations

import re

from .constraints import LAST, Range

NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
).split()
ORDINALS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
    "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()

# A quoted word is cut out first and stands as <k>, so that no pattern looks inside it.
QUOTED = re.compile(
    r"(?<!\w)(?:``|[`'\"‘“])('?[^\s'\"`‘’“”]+(?:['’][^\s'\"`‘’“”]+)*)(?:''|[`'\"’”])(?!\w)"
)
PHRASE = re.compile(r"(?<!\w)[`'\"‘“](?=\w)([^'\"`‘’“”\n<>]+ [^'\"`‘’“”\n<>]+)['\"`’”](?!\w)")
ENUMERATOR = re.compile(
    r"(?:^|(?<=[\n;:,.]))\s*(?:\(?\d{1,2}\)|\d{1,2}\.(?=\s)|[-*•](?=\s))\s*", re.M
)

NUM = rf"(?:\d[\d,]*|{'|'.join(NUMBERS)})"
RANGE = (
    rf"(?:(?:between|from)\s+{NUM}\s*(?:-|–|and|to)\s*{NUM}|{NUM}\s*(?:-|–|to)\s*{NUM}"
    rf"|(?:exactly|precisely|just|only|at least|at most|no (?:more|fewer|less) than|not more than"
    rf"|more than|over|fewer than|less than|under|up to|a (?:minimum|maximum) of)\s+{NUM}"
    rf"|{NUM}\s+or\s+(?:more|fewer|less)|{NUM})"
)
COUNT = rf"(?P<count>{RANGE}(?:,?\s+(?:and|but)\s+{RANGE})?)[\s-]+"
TAIL = (
    r"(?P<more>,?\s+(?:and|but)\s+(?:at least|at most|no (?:more|fewer|less) than)"
    rf"\s+{NUM}(?!\s*-?[\w<]))?"
)
ORD = rf"(?:\d+(?:st|nd|rd|th)|{'|'.join(ORDINALS)}|last|final)"
ORDS = rf"(?P<places>{ORD}(?:\s*(?:,|and|,\s*and)\s*{ORD})*)"
QS = r"(?P<quoted><\d+>(?:\s*(?:,|and|or|nor|,\s*(?:and|or|nor))\s*<\d+>)*)(?:,?\s+respectively)?"
HAVE = (
    r"(?:\s+(?:that|which|of which|should|must|shall|to|having|has|have|with|contains?|containing"
    r"|of|be|being|is|are|consists? of|consisting of|its|a|the|each|all))+"
)
BE = r"\s*(?:to be|being|is|are|be|as|should be|must be|=|:|of)\s*(?:the words?\s+)?"
EACH = r"(?:all|each|every|each and every)(?:\s+of)?(?:\s+(?:the|its|these))?"
START = r"(?:starts?|starting|begins?|beginning|opens?|opening)\s+with"
END = r"(?:ends?|ending|finish(?:es)?|finishing|closes?|closing)\s+(?:with|in|on)"
MODAL = r"(?:\s+(?:that|which|should|must|shall|to))*\s+"
THE_WORD = r"\s+(?:the\s+)?(?:words?\s+)?"


# Whole clauses. Words at places of sentences, and of the text.
EVERY_SENTENCE = rf"\b{EACH}\s+sentences?"
PLACED = rf"{HAVE}\s+{ORDS}\s+words?{BE}{QS}"
STARTING = rf"{MODAL}{START}{THE_WORD}{QS}"
ENDING = rf"{MODAL}{END}{THE_WORD}{QS}"
WORDS_AT = rf"\b{ORDS}\s+words?{BE}{QS}"
FIRST_WORD = rf"\b{START}{THE_WORD}(?P<quoted><\d+>)(?! *, *<)"
LAST_WORD = rf"\b{END}{THE_WORD}(?P<quoted><\d+>)(?! *, *<)"
# After a clause about the sentences, whose mark is ";;": "... and has at most 15 words".
GOES_ON = rf";; (?:,|and|\s)*\b(?:has|have|having|contains?|containing)\s+{COUNT}words?{TAIL}"

# Words to contain and to avoid.
_USING = (
    r"(?:contain(?:s|ing)?|us(?:e|es|ing)|includ(?:e|es|ing)|mention(?:s|ing)?"
    r"|featur(?:e|es|ing))"
)
_NOT_USING = (
    rf"(?:(?:does |do |must |should |may |can )?not {_USING}|cannot {_USING}"
    rf"|without(?: {_USING})?|never {_USING}|avoid(?:s|ing)?(?: {_USING})?)"
)
_WORDS = r"(?:the\s+|these\s+)?(?:following\s+)?(?:words?|terms?)?\s*:?\s*"
AVOIDS = rf"\b{_NOT_USING}\s+(?:any\s+of\s+)?{_WORDS}{QS}"
CONTAINS = rf"\b(?:must |should |that )?{_USING}\s+(?:all\s+(?:of\s+)?)?{_WORDS}{QS}"
WITH_WORDS = (
    rf"\b(?:with|has|have|having)\s+(?:the|these|all)\s+(?:following\s+)?words?\s*:?\s*{QS}"
)

# Counts: of every word, of every sentence, of the text.
_CHARS = r"(?:characters?|chars?|letters?)(?:\s+(?:long|each|in length))*"
EVERY_WORD = rf"\b{EACH}\s+words?{HAVE}\s+{COUNT}{_CHARS}"
WORDS_OF = rf"\b(?:using |with )?(?:only )?words\s+(?:of|with|having)\s+{COUNT}{_CHARS}"
NO_WORD_LONGER = (
    r"\bno words?\s+(?:(?:is|are|being|that is|with|has|have|having)\s+)?(?:longer|more)\s+than"
    rf"\s+(?P<most>{NUM})\s+{_CHARS}"
)
SENTENCES_OF = rf"(?:{EVERY_SENTENCE}|\b{EACH}){HAVE}\s+{COUNT}words?(?:\s+long)?{TAIL}"
SENTENCES_EACH = rf"(?<=sentences) (?:of|with|having) {COUNT}words?(?:\s+(?:each|long))*{TAIL}"
COUNTS = {
    f"{unit}s": rf"(?<![\w<]){COUNT}{name}s?\b(?:\s+long)?{TAIL}"
    for unit, name in (("character", "(?:char|character)"), ("word", "word"), ("sentence",) * 2)
}

WHITE_SPACE = (
    r"\(?\binclud(?:e|ing) (?:the )?(?:white ?spaces?|spaces)(?: and punctuation)?"
    r"(?: (?:in|into) (?:your|the) (?:character )?count)?\)?"
)
TOPIC = (
    r"\babout\s+(?P<topic>[A-Za-z][\w' -]*?)"
    r"(?=\s*(?:[.,;:]|$|\b(?:with|containing|that|which|where|in which|having|using)\b))"
)
FILLER = re.compile(
    r"\b(?:please|can|could|you|generate|write|give|create|compose|produce|make|me|i|need|want"
    r"|would|like|a|an|the|one|single|fluent|grammatical|coherent|meaningful|english|new"
    r"|sentences?|paragraph|text|passage|with|and|that|which|it|its|there|is|are|has|have|having"
    r"|contains|be|should|must|in|of|where|whose|long|length|total|altogether|respectively|also"
    r"|but|while|meets?|satisf(?:y|ies)|these|this|following|constraints?|requirements?"
    r"|conditions?|such|so|for|each|all|every)\b|[\s.,;:()!?]+"
)


def number(text: str) -> int:
    """A number in figures or in words."""
    lower = text.lower()
    return NUMBERS.index(lower) if lower in NUMBERS else int(lower.replace(",", ""))


def place_of(text: str) -> int:
    """A position: 1-based, or ``LAST``."""
    lower = text.lower()
    if lower in ("last", "final"):
        return LAST
    return ORDINALS.index(lower) if lower in ORDINALS else int(re.sub(r"\D", "", lower))


def range_of(text: str) -> Range:
    """A count or a range of counts."""
    numbers = [number(n) for n in re.findall(rf"\b{NUM}\b", text, flags=re.I)]
    lower = text.lower()
    if len(numbers) == 2:
        return Range(numbers[0], numbers[1])
    count = numbers[0]
    # Before "more than" below, which is inside "no more than".
    if re.search(r"no more|not more|at most|up to|maximum|or (?:fewer|less)", lower):
        return Range(0, count)
    if re.search(r"at least|no (?:fewer|less)|minimum|or more", lower):
        return Range(count, None)
    if re.search(r"more than|over", lower):
        return Range(count + 1, None)
    if re.search(r"fewer than|less than|under", lower):
        return Range(0, count - 1)
    return Range(count, count)
