"""Programs for the four PUZZLES: poem, abstract, ingredients and itinerary.

What must be right is decided by the program (how many words, which price, what time); what must
read well is left to the follower.
"""

from __future__ import annotations

import re

from .constraints import Abstract, Ingredients, Itinerary, Poem
from .emit import Sketch, assign

__all__ = ["emit_puzzle"]


def emit_puzzle(puzzle: Poem | Abstract | Ingredients | Itinerary) -> str:
    """The program for one of the four puzzles."""
    match puzzle:
        case Poem():
            return _poem(puzzle).source()
        case Abstract():
            return _abstract(puzzle).source()
        case Ingredients():
            return _ingredients(puzzle).source()
        case Itinerary():
            return _itinerary(puzzle).source()


def _poem(poem: Poem) -> Sketch:
    prompt = f"Write a poem about {poem.topic}." if poem.topic else "Write a poem."
    return Sketch(
        summary=f"Writes a poem with {poem.lines} lines of exactly {poem.words} words.",
        max_tokens=poem.lines * (4 * poem.words + 4),
        prior=prompt,
        proposal=prompt,
        granularity="line",
        strategy=f"{poem.words} words, the first in capitals, then a mark where one is wanted.",
        end=f"{poem.lines} lines.",
        state=["self.line = 0"],
        step=[
            f"for place in range({poem.words}):",
            "    await self.next_word(capital=place == 0)",
            "self.line += 1",
            f"if self.line == {poem.lines}:",
            '    await self.end_sentence(".!?")',
            "    await self.end()",
            "    return",
            # Asked, not forced: a line of a poem may well end without a mark.
            'if await self.wants(",.;!?"):',
            '    await self.end_sentence(",.;!?")',
            'await self.force("\\n")',
        ],
        check=[
            "lines = [line.split() for line in units.lines(text)]",
            f"return [len(words) for words in lines] == [{poem.words}] * {poem.lines}",
        ],
    )


def _abstract(abstract: Abstract) -> Sketch:
    topic = _allowed_topic(abstract)
    low, high = abstract.words.low, abstract.words.high or abstract.words.low + 25
    # The label may be counted or not: both counts must be in the range.
    high = max(low, high - 1)
    prompt = f"Write an abstract about {topic}." if topic else "Write an abstract."
    return Sketch(
        summary=f"Writes a grant proposal's abstract of {low} to {high} words without some terms.",
        max_tokens=4 * high + 16,
        prior=prompt,
        proposal=prompt,
        granularity="sentence",
        strategy="sentences that leave room for the rest; a particle that uses a term is dropped.",
        end=f"there are {low} words or more.",
        state=assign("terms", _stems(abstract.avoids)),
        step=[
            "if not self.text:",
            '    await self.force("Abstract:")',
            "    await self.next_word(avoid=self.terms, capital=True)",
            *_sentence(high - low, high),
            "self.condition(not any(term in self.text.lower() for term in self.terms))",
            f"if len(self.text.split()) > {low}:  # the label is not counted",
            "    await self.end()",
        ],
        check=[
            'label, _, body = text.partition(" ")',
            f"return label == 'Abstract:' and {low} <= len(body.split()) <= {high} and not any(",
            "    term in text.lower() for term in self.terms",
            ")",
        ],
    )


def _sentence(slack: int, high: int) -> list[str]:
    """Statements that write a sentence of the abstract."""
    if slack >= 24:  # whatever its length, the text can end after it or go on
        return ["await self.next_sentence(min_words=5, max_words=24, avoid=self.terms)"]
    return [
        f"left = {high + 1} - len(self.text.split())",
        f"least, most = (max(1, left - {slack}), left) if left <= 24 else (5, min(24, left - 5))",
        "await self.next_sentence(min_words=least, max_words=most, avoid=self.terms)",
    ]


def _stems(terms: tuple[str, ...]) -> tuple[str, ...]:
    """The terms, and where a plural is spelled otherwise, the plural."""
    plurals = (f"{term[:-1]}ies" for term in terms if term.endswith("y"))
    return (*map(str.lower, terms), *map(str.lower, plurals))


def _allowed_topic(abstract: Abstract) -> str:
    """The words of the topic that the abstract may use."""
    words = re.findall(r"[A-Za-z-]+", abstract.topic)
    terms = _stems(abstract.avoids)
    fine = [w for w in words if not any(term in w.lower() for term in terms)]
    while fine and fine[-1] in ("and", "or", "of", "in", "on", "for", "the", "a"):
        # A topic must not end in a word that led to one that is left out.
        fine.pop()
    return " ".join(fine)


def _ingredients(task: Ingredients) -> Sketch:
    lines = min(task.most, 6)
    prompt = f"Write an ingredients list for {task.dish}."
    dollars = f"${task.budget / 100:.2f}"
    return Sketch(
        summary=(
            f"Writes an ingredients list for {task.dish}: at most {task.most} lines, for less "
            f"than {dollars}."
        ),
        max_tokens=24 * lines + 16,
        prior=prompt,
        proposal=prompt,
        granularity="line",
        strategy="an amount, a name of one to three words, and a price that leaves enough.",
        end=f"{lines} ingredients.",
        state=[
            f"self.left = {task.budget - 1}  # cents",
            f"self.lines = {lines}",
            "self.names = []",
            *assign("amounts", list(_AMOUNTS)),
        ],
        step=[
            'await self.force("\\n-" if self.text else "Ingredients:\\n-")',
            "begin = len(self.text)",
            "async with ChoiceMask(self, self.amounts):",
            "    while self.text[begin:] not in self.amounts:",
            "        await self.next_token()",
            "for place in range(3):",
            '    name = await self.next_word(avoid=self.names, punctuation="")',
            '    if place == 2 or await self.wants_word("("):',
            "        break",
            "self.names.append(name)",
            f"share = min({(task.budget - 1) // lines}, self.left // self.lines)",
            "price = self.random.randint((share + 1) // 2, share)",
            "price = price - price % 25 if price >= 50 else price",
            "self.left, self.lines = self.left - price, self.lines - 1",
            'await self.force(f" (${price / 100:.2f})")',
            "if not self.lines:",
            "    await self.end()",
        ],
        check=[
            "heading, *items = units.lines(text)",
            'prices = [re.findall(r"\\$(\\d+)\\.(\\d\\d)", item) for item in items]',
            "total = sum(int(d) * 100 + int(c) for found in prices for d, c in found)",
            f"return heading == 'Ingredients:' and 1 <= len(items) <= {task.most} and all(",
            '    item.startswith("- ") and len(found) == 1 for item, found in zip(items, prices)',
            f") and total < {task.budget}",
        ],
    )


# No amount begins another one, so that a finished one is known by its text.
_AMOUNTS = (
    " 1 cup",
    " 2 cups",
    " 3 cups",
    " 1/2 cup",
    " 1/3 cup",
    " 1/4 cup",
    " 3/4 cup",
    " 1 teaspoon",
    " 2 teaspoons",
    " 1/2 teaspoon",
    " 1/4 teaspoon",
    " 1 tablespoon",
    " 2 tablespoons",
    " 1 pound",
    " 2 large",
    " 3 large",
)


def _itinerary(trip: Itinerary) -> Sketch:
    span = "a day" if trip.days == 1 else f"{trip.days} days"
    prompt = f"Write an itinerary for {span} in {trip.place}."
    awake = (24 - trip.free_hours) * 60
    activities = trip.activities + 1 if (trip.activities + 1) * 60 <= awake else trip.activities
    # Half-hour slots: as long as a day allows, two hours at most.
    longest = max(1, min(4, awake // 30 // activities))
    return Sketch(
        summary=(
            f"Writes an itinerary of {span} in {trip.place}: {activities} activities a day, "
            f"{trip.free_hours} hours of the day or more left free."
        ),
        max_tokens=trip.days * (activities * 56 + 16),
        prior=prompt,
        proposal=prompt,
        granularity="line",
        strategy="the program sets the times; the follower says what to do, and never the same.",
        end=f"the last activity of day {trip.days}.",
        state=["self.day = self.done = self.clock = 0", "self.seen = []"],
        step=[
            "if not self.done:  # a new day",
            "    self.day += 1",
            f"    self.clock = {_start_of_day(activities, longest)} * 60",
            '    await self.force(f"Day {self.day}:\\n")',
            f"end = self.clock + 30 * self.random.randint({(longest + 1) // 2}, {longest})",
            'times = [f"{t // 60:02d}:{t % 60:02d}" for t in (self.clock, end)]',
            'await self.force(f"[{times[0]}-{times[1]}]")',
            f"self.clock, self.done = end, (self.done + 1) % {activities}",
            f"last = self.day == {trip.days} and not self.done",
            'breaks = ["\\n", "\\n\\n"]',
            "for place in range(8):",
            '    word = await self.next_word(avoid=self.seen, capital=place == 0, punctuation="")',
            "    if place < 2:",
            "        continue",
            "    if place == 7 or await (self.wants_to_end() if last else self.wants(breaks)):",
            "        break",
            "self.seen.append(word)",
            "await (self.end() if last else self.force(breaks[not self.done]))",
        ],
        check=[
            "days = [units.lines(day) for day in units.paragraphs(text)]",
            'times = re.compile(r"\\[(\\d\\d):(\\d\\d)-(\\d\\d):(\\d\\d)\\] \\w")',
            f"if len(days) != {trip.days} or any(len(day) <= {trip.activities} for day in days):",
            "    return False",
            "for number, (heading, *plans) in enumerate(days, 1):",
            "    found = [times.match(plan) for plan in plans]",
            '    if heading != f"Day {number}:" or not all(found):',
            "        return False",
            "    spans = [(int(h) * 60 + int(m), int(i) * 60 + int(n))",
            "             for h, m, i, n in (match.groups() for match in found)]",
            f"    if sum(end - start for start, end in spans) > {awake}:",
            "        return False",
            "return True",
        ],
    )


def _start_of_day(activities: int, longest: int) -> int:
    """The hour of the first activity: nine, or earlier where the day would run past midnight."""
    # `-(-x // 2)` rounds half hours up; the 1 keeps the end before 24:00, which is no time of day.
    return max(0, min(9, 24 - 1 - -(-activities * longest // 2)))
