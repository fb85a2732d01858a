"""The four PUZZLES of the paper, with other numbers where a task gives them."""

from __future__ import annotations

import re

from ...errors import TaskNotUnderstood
from .constraints import Abstract, Ingredients, Itinerary, Poem, Range

__all__ = ["parse_puzzle"]

_SMALL = "zero one two three four five six seven eight nine ten eleven twelve".split()
_N = rf"(\d+|{'|'.join(_SMALL)})"
_ASK = r"(?:please\s+)?(?:write|generate|create|compose)(?:\s+me)?\s+"

_POEM = re.compile(
    rf"{_ASK}(?:a poem(?: about (?P<topic>[\w' -]+?))?,? (?:with|of) {_N} lines|"
    rf"an? {_N}[- ]line poem(?: about (?P<topic2>[\w' -]+?))?),?"
    rf"(?: where| in which| and| with)? (?:each|every) line (?:has|having|with|of)"
    rf"(?: exactly)? {_N} words\.?",
    re.I,
)
_ABSTRACT = re.compile(
    rf"{_ASK}an abstract for a grant proposal (?:on|about) (?P<topic>[^.]+?)\. "
    r"Your response should start with \"Abstract: (?:<YOUR ABSTRACT>)?\"\. "
    rf"The abstract must be between {_N}\s*(?:-|–|and|to)\s*{_N} words(?: long)?\. "
    r"You are not allowed to use any of the following (?:terms|words): (?P<terms>[^.]+)\.?",
    re.I,
)
_INGREDIENTS = re.compile(
    rf"{_ASK}an ingredients list for (?P<dish>[^.$]+?) with at most {_N} ingredients,? "
    r"(?:that cost|costing) (?:less than|under) \$(?P<budget>\d+(?:\.\d\d)?)(?: in)?(?: total)?\. "
    r"The list should be in dashed bullet point format,? starting with \"Ingredients:\"\. "
    r"Each ingredient should be listed on a separate line with the price given in USD\.?",
    re.I,
)
_ITINERARY = re.compile(
    rf"I(?:'m| am) planning a {_N}[- ]day trip to (?P<place>[^.]+?)\. (?:Please )?write(?: me)? a "
    rf"detailed day-by-day itinerary that includes at least {_N} activit(?:y|ies) per day\. The "
    rf"itinerary should start with \"Day 1:\" and end with \"Day {_N}:\", with a blank line "
    r"between each day\. Each activity should be listed on a separate line starting with a time "
    r"range in 24-hour format in square brackets(?: \(for example, [^)]*\))?\. "
    rf"Make sure to leave at least {_N} hours of free time each day(?: for rest)?\.?",
    re.I,
)


def parse_puzzle(instruction: str) -> Poem | Abstract | Ingredients | Itinerary | None:
    """The puzzle that a task is, or None when it is none of the four.

    Raises:
        TaskNotUnderstood: it is one of the four, with numbers that no text can meet.
    """
    text = re.sub(r"\s+", " ", instruction.translate(_STRAIGHT)).strip()
    # The whole task: a demand that the pattern does not know must not be dropped in silence.
    if match := _POEM.fullmatch(text):
        numbers = [_number(n) for n in match.groups() if n and _is_number(n)]
        lines, words = numbers[0], numbers[-1]
        _positive(lines=lines, words=words)
        return Poem(lines, words, match["topic"] or match["topic2"])
    if match := _ABSTRACT.fullmatch(text):
        low, high = _number(match[2]), _number(match[3])
        if low > high or high < 1:
            raise TaskNotUnderstood(f"no abstract can have between {low} and {high} words")
        terms = tuple(t for t in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", match["terms"]) if t)
        return Abstract(match["topic"], Range(low, high), terms)
    if match := _INGREDIENTS.fullmatch(text):
        budget = round(float(match["budget"]) * 100)
        # Less than the budget, so that one cent less is the most that may be spent.
        _positive(ingredients=_number(match[2]), **{"US cents": budget - 1})
        return Ingredients(match["dish"], _number(match[2]), budget)
    if match := _ITINERARY.fullmatch(text):
        days, activities, end, free = (_number(match[k]) for k in (1, 3, 4, 5))
        _positive(days=days, activities=activities)
        if end != days:
            raise TaskNotUnderstood(f"a {days}-day trip cannot end with 'Day {end}:'")
        # The program's shortest activity is half an hour.
        if activities > (24 - free) * 2:
            raise TaskNotUnderstood(
                f"{activities} activities of half an hour or more and {free} free hours do not "
                "fit into a day"
            )
        return Itinerary(match["place"], days, activities, free)
    return None


_STRAIGHT = str.maketrans("“”‘’", "\"\"''")


def _is_number(text: str) -> bool:
    return text.isdigit() or text.lower() in _SMALL


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _SMALL.index(text.lower())


def _positive(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise TaskNotUnderstood(
                f"the task leaves room for {count} {name}; at least 1 is needed"
            )
