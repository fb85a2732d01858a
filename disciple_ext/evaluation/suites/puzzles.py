"""PUZZLES: the paper's four tasks outside COLLIE, and their ground truth.

Each verifier is written from the words of its prompt. Where the prompt can be read in two ways,
the stricter reading counts, so that a text that passes is right for every reader; the docstrings
say what that means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from ...errors import EvaluationError
from ...text import units

__all__ = ["PUZZLES", "Puzzle", "Verdict", "verify_puzzle"]

BANNED_TERMS = (
    "conservation, sustainability, environment, ecology, wildlife, africa, asia, society, "
    "community, biodiversity, endangered, threatened, species, habitat, poaching, science, research"
).split(", ")

_PRICE = re.compile(r"\$(\d+\.\d\d)(?!\d)")
_ACTIVITY = re.compile(r"\[([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)\] (?=.*[A-Za-z])")
_MINUTES_AWAKE = (24 - 9) * 60


@dataclass(frozen=True)
class Verdict:
    """What a puzzle's verifier says of a text.

    Attributes:
        passed: whether the text meets the task.
        reason: the first demand that it does not meet; empty if it passed.
    """

    passed: bool
    reason: str = ""

    def __bool__(self) -> bool:
        """Give ``passed``, so that a verdict can be used as a condition."""
        return self.passed


def _plain_words(text: str) -> list[str]:
    """The words as a reader counts them: between spaces, a lone dash or bullet not included."""
    return [word for word in text.split() if any(char.isalnum() for char in word)]


def square_poem(text: str) -> Verdict:
    """Judge "Write a poem with 8 lines, where each line has exactly 8 words.".

    Lines with nothing on them part stanzas and do not count; a title does count as a line. Words
    are what stands between spaces and holds a letter or digit: "don't" and "sea-green" are one.

    Args:
        text: the poem.

    Returns:
        The verdict.
    """
    lines = units.lines(text)
    if len(lines) != 8:
        return Verdict(False, f"{len(lines)} lines, not 8")
    for number, line in enumerate(lines, 1):
        if (count := len(_plain_words(line))) != 8:
            return Verdict(False, f"line {number} has {count} words, not 8")
    return Verdict(True)


def grant_abstract(text: str) -> Verdict:
    """Judge the grant proposal's abstract: label, 75 to 100 words, no banned term.

    The text begins with "Abstract: ". The number of words lies between 75 and 100 whether or not
    the label is counted. A banned term may not stand inside another word either
    ("environmental"), in any case, nor in the plural ("societies"). The paper is milder: an
    answer that it prints as valid says "habitats".

    Args:
        text: the whole answer.

    Returns:
        The verdict.
    """
    label = "Abstract: "
    if not text.startswith(label):
        return Verdict(False, 'it does not start with "Abstract: "')
    # Below 100, not up to it: with the label there is one word more.
    count = len(_plain_words(text[len(label) :]))
    if not 75 <= count < 100:
        return Verdict(False, f"{count} words and the label, not 75 to 100 either way")
    lowered = text.lower()
    for term in BANNED_TERMS:
        # Other plurals hold the term itself, so the test of substrings finds them.
        plural = term[:-1] + "ies" if term.endswith("y") else term
        if term in lowered or plural in lowered:
            return Verdict(False, f"the banned term {term!r}")
    return Verdict(True)


def ingredients_list(text: str) -> Verdict:
    """Judge the list of ingredients: at most 7 dashed lines, priced, for less than $18.00.

    The first line is "Ingredients:" and nothing else. Every other line that is not blank is one
    ingredient: "- ", a name with a letter in it, and exactly one price such as $2.50. No other
    text is allowed, a total included, as it would stand in the list as an ingredient.

    Args:
        text: the whole answer.

    Returns:
        The verdict.
    """
    if not text.startswith("Ingredients:"):
        return Verdict(False, 'it does not start with "Ingredients:"')
    heading, *items = units.lines(text)
    if heading != "Ingredients:":
        return Verdict(False, 'the line of "Ingredients:" holds more than that')
    if not 1 <= len(items) <= 7:
        return Verdict(False, f"{len(items)} ingredients, not 1 to 7")
    # Not float: 17.99 and its like must add up to the cent.
    total = Decimal(0)
    for number, item in enumerate(items, 1):
        if not item.startswith("- "):
            return Verdict(False, f'ingredient {number} does not start with "- "')
        prices = _PRICE.findall(item)
        if len(prices) != 1 or item.count("$") != 1:
            return Verdict(False, f"ingredient {number} has not exactly one price like $2.50")
        if not re.search("[A-Za-z]", _PRICE.sub("", item).replace("USD", "")):
            return Verdict(False, f"ingredient {number} has no name")
        total += Decimal(prices[0])
    if total >= 18:
        return Verdict(False, f"the total is ${total}, not less than $18.00")
    return Verdict(True)


def trip_itinerary(text: str) -> Verdict:
    """Judge the itinerary: three days parted by blank lines, four activities a day or more.

    Each day is one block without blank lines. Its first line begins with "Day 1:" (2, 3); a title
    may follow. Every other line is one activity: "[11:00-13:00] " with two digits each, 00:00 to
    23:59, and a description. The activities of a day are in order, end after they start and do
    not overlap; at most 15 hours are busy, so that 9 are free.

    Args:
        text: the whole answer.

    Returns:
        The verdict.
    """
    if not text.startswith("Day 1:"):
        return Verdict(False, 'it does not start with "Day 1:"')
    days = units.paragraphs(text)
    if len(days) != 3:
        return Verdict(False, f"{len(days)} blocks between blank lines, not 3 days")
    for number, day in enumerate(days, 1):
        heading, *activities = units.lines(day)
        if not heading.startswith(f"Day {number}:"):
            return Verdict(False, f'block {number} does not start with "Day {number}:"')
        if fault := _day_fault(activities):
            return Verdict(False, f"day {number}: {fault}")
    return Verdict(True)


def _day_fault(activities: list[str]) -> str:
    """What is wrong with the activities of a day; empty if nothing is."""
    if len(activities) < 4:
        return f"{len(activities)} activities, not 4 or more"
    busy, free_from = 0, 0
    for activity in activities:
        match = _ACTIVITY.match(activity)
        if match is None:
            return f"{activity!r} does not start with a time range like [11:00-13:00] and a text"
        hour, minute, end_hour, end_minute = map(int, match.groups())
        start, end = 60 * hour + minute, 60 * end_hour + end_minute
        if not free_from <= start < end:
            return f"{activity!r} is out of order, overlaps or has no duration"
        busy, free_from = busy + end - start, end
    return f"{busy} minutes are busy, more than 15 hours" if busy > _MINUTES_AWAKE else ""


@dataclass(frozen=True)
class Puzzle:
    """One of the four puzzles.

    Attributes:
        name: its name in logs.
        prompt: the task in words, as the paper gives it.
        verify: the ground truth.
    """

    name: str
    prompt: str
    verify: Callable[[str], Verdict]


_POEM = "Write a poem with 8 lines, where each line has exactly 8 words."
_ABSTRACT = (
    "Write an abstract for a grant proposal on elephant ecology and conservation. Your response "
    'should start with "Abstract: <YOUR ABSTRACT>". The abstract must be between 75-100 words. '
    "You are not allowed to use any of the following terms: " + ", ".join(BANNED_TERMS) + "."
)
_INGREDIENTS = (
    "Please write an ingredients list for chocolate chip brownies with at most 7 ingredients "
    "costing less than $18.00 total. The list should be in dashed bullet point format starting "
    'with "Ingredients:". Each ingredient should be listed on a separate line with the price '
    "given in USD."
)
_ITINERARY = (
    "I'm planning a 3-day trip to Singapore. Please write me a detailed day-by-day itinerary that "
    'includes at least four activities per day. The itinerary should start with "Day 1:" and end '
    'with "Day 3:", with a blank line between each day. Each activity should be listed on a '
    "separate line starting with a time range in 24-hour format in square brackets (for example, "
    '"[11:00-13:00] Visit the Gardens by the Bay"). Make sure to leave at least 9 hours of free '
    "time each day for rest."
)

PUZZLES: Mapping[str, Puzzle] = {
    "square_poem": Puzzle("square_poem", _POEM, square_poem),
    "grant_abstract": Puzzle("grant_abstract", _ABSTRACT, grant_abstract),
    "ingredients_list": Puzzle("ingredients_list", _INGREDIENTS, ingredients_list),
    "trip_itinerary": Puzzle("trip_itinerary", _ITINERARY, trip_itinerary),
}
"""The four puzzles by name."""


def verify_puzzle(name: str, text: str) -> Verdict:
    """Judge an answer to one of the four puzzles.

    Args:
        name: one of the keys of `PUZZLES`.
        text: the answer, without outer blank lines.

    Returns:
        The verdict.

    Raises:
        EvaluationError: there is no such puzzle.
    """
    if name not in PUZZLES:
        raise EvaluationError(f"Unknown puzzle {name!r}. Choose from: {', '.join(PUZZLES)}.")
    return PUZZLES[name].verify(text)
