"""Examples of the forms that are not plain prose: poems, lists, recipes, abstracts, itineraries."""

from __future__ import annotations

import random
import re

from training.corpus import clean_sentences
from training.examples import Example, topic_of

_ODD_VERSE = re.compile(
    r'["_\[\]*]|--|\b(?:[Tt]hee|[Tt]hou|[Tt]hy|[Tt]hine|doth|hath|ye|art|wilt|hast|shalt)\b|o\'er|\'d\b'
)
_LIST_HEAD = re.compile(r"^(?:Here are|Some kinds of|Kinds of|Some|Types of|A list of|List of)\s+")
_LIST_COUNT = re.compile(r"^(?:two|three|four|five|six|seven|eight|nine|ten|\d+)\s+")
_CITIES = (
    "Paris London Rome Madrid Berlin Vienna Prague Lisbon Dublin Athens Tokyo Kyoto Seoul Sydney "
    "Boston Chicago Seattle Denver Toronto Montreal Oslo Stockholm Helsinki Amsterdam Brussels "
    "Barcelona Florence Venice Istanbul Cairo Nairobi Lima Bogota Mumbai Delhi Bangkok"
).split() + ["New York", "San Francisco", "Cape Town", "Mexico City", "Buenos Aires", "Hong Kong"]
_MORNING = (
    "Have breakfast at a small cafe; Visit the National Museum; Walk through the old town; "
    "Take a guided tour of the castle; Climb the tower for a view of the city; Visit the "
    "cathedral; Stroll in the botanical garden; Shop at the farmers' market; Take a boat trip"
    " on the river; Explore the art gallery; Rent a bike and ride in the park"
).split("; ")
_NOON = (
    "Have lunch at a local restaurant; Eat street food at the market; Have a picnic in the "
    "park; Try the fish at a place by the harbor; Have soup and bread at a small bistro"
).split("; ")
_AFTERNOON = (
    "Visit the science museum; Relax in the city park; See the royal palace; Take a walk "
    "along the river; Go shopping in the main street; Visit the zoo; Swim at the public "
    "beach; Look at the shops in the harbor; Visit the city library; Take a tram to the hill;"
    " Have coffee and cake at a cafe; Visit the modern art museum"
).split("; ")
_EVENING = (
    "Have dinner at a rooftop restaurant; Listen to a concert at the opera house; Watch the "
    "sunset from the bridge; Have dinner with live music; See a play at the theater; Take a "
    "night walk in the center; Try the local food at a family restaurant"
).split("; ")


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def itinerary(rng: random.Random) -> Example:
    """Make a plan of one to three days from templates; the corpus has none."""
    city = rng.choice(_CITIES)
    days = rng.choice([1, 1, 1, 2, 3])
    lines: list[str] = []
    used: set[str] = set()
    for day in range(1, days + 1):
        lines.append(f"Day {day}:")
        minutes = rng.choice([480, 510, 540, 570])
        plan = [_MORNING, _MORNING, _NOON, _AFTERNOON, _AFTERNOON, _EVENING][rng.randint(0, 1) :]
        for choices in plan:
            fresh = [c for c in choices if c not in used] or choices
            activity = rng.choice(fresh)
            used.add(activity)
            length = rng.choice([60, 60, 90, 90, 120])
            lines.append(f"[{_clock(minutes)}-{_clock(minutes + length)}] {activity}")
            minutes += length + rng.choice([0, 15, 30])
    span = "a day" if days == 1 else f"{days} days"
    return Example(f"Write an itinerary for {span} in {city}.", "\n".join(lines))


def poem(text: str, rng: random.Random) -> Example | None:
    """Take a short run of plain, short lines from a poem."""
    blocks = [b.split("\n") for b in text.split("\n\n")]
    title = blocks[0][0] if len(blocks[0]) == 1 and len(blocks[0][0]) < 40 else ""
    stanzas = [b for b in blocks if 2 <= len(b) <= 12 and all(8 <= len(x) <= 56 for x in b)]
    stanzas = [b for b in stanzas if not _ODD_VERSE.search("\n".join(b))]
    if not stanzas:
        return None
    first = rng.randrange(len(stanzas))
    lines = list(stanzas[first])
    if first + 1 < len(stanzas) and len(lines) + len(stanzas[first + 1]) <= 12:
        lines += stanzas[first + 1]
    body = "\n".join(line.strip() for line in lines)
    body = body.rstrip(" ,;:-")
    if body[-1] not in ".!?":
        body += "."
    topic = topic_of(body, rng)
    if rng.random() < 0.4 or not (topic or title):
        prompt = "Write a poem."
    else:
        prompt = f"Write a poem about {topic or title}."
    return Example(prompt, body)


def listing(text: str, rng: random.Random) -> Example | None:
    """Turn a list of the corpus into a dashed list; keep the short and plain ones."""
    head, _, rest = text.partition("\n")
    items = [re.sub(r"^(?:- |\d+\. )", "", line).strip() for line in rest.split("\n")]
    if not rest and ":" in head:
        head, _, rest = head.partition(":")
        items = [item.strip(" .") for item in rest.split(",")]
    items = [item for item in items if 2 < len(item) < 40]
    topic = _LIST_COUNT.sub("", _LIST_HEAD.sub("", head.strip(" :")))
    if len(items) < 3 or not topic or len(topic) > 40:
        return None
    topic = topic[0].lower() + topic[1:]
    items = items[: rng.randint(3, 10)]
    prompt = f"Write a list of {topic}." if rng.random() < 0.8 else f"List {len(items)} {topic}."
    return Example(prompt, "\n".join(f"- {item}" for item in items))


def ingredients(text: str, rng: random.Random) -> Example | None:
    """Cut the ingredients out of a recipe; add made-up prices in half of the cases."""
    title = text.split("\n", 1)[0].strip("' ")
    found = re.search(r"Ingredients:\s*\n+((?:- .+\n?)+)", text)
    if not found or not 3 <= len(title) <= 50:
        return None
    lines = [x.strip() for x in found.group(1).strip().split("\n") if 4 < len(x) < 60][:14]
    if len(lines) < 3:
        return None
    if rng.random() < 0.5:
        lines = [
            f"{line} (${rng.randint(0, 5)}.{rng.randint(1, 9)}{rng.choice('0055')})"
            for line in lines
        ]
    prompt = f"Write an ingredients list for {title[0].lower() + title[1:]}."
    return Example(prompt, "Ingredients:\n" + "\n".join(lines))


def abstract(text: str, rng: random.Random, title: str = "") -> Example | None:
    """Take up to six clean sentences of an abstract or of other expository text."""
    body = text.removeprefix("Abstract").replace('"', "").strip().split("\n\nIn short")[0]
    sentences = clean_sentences(body)[: rng.randint(3, 6)]
    if len(sentences) < 3:
        return None
    prose = " ".join(sentences)
    topic = title or topic_of(prose, rng)
    prompt = f"Write an abstract about {topic}." if topic else "Write an abstract."
    return Example(prompt, f"Abstract: {prose}")
