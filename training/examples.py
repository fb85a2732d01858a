"""Chat examples made from sentences and paragraphs: prompts that are true of their texts."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass

from training.corpus import words_of

CANONICAL_SHARE = 0.85
HINT_SHARE = 0.10

_NOUN = re.compile(
    r"\b([Tt]he|[Aa]n?|[Mm]y|[Hh]is|[Hh]er|[Tt]heir|[Oo]ur|[Yy]our|[Ss]ome|[Tt]wo|[Tt]hree|[Mm]any)"
    r" ([a-z]{3,})(?=[.,;!?]| (?:of|in|on|is|was|and|to|for|with|that|at|from|by|are|were|had|has"
    r"|as|or|who|will|can|near|under|over|into)\b)"
)
_NOT_NOUNS = frozenset(
    "same other first last most only one two few lot best next rest own all more many much such "
    "way man's some each both end use very new old part number time it's kind sort bit fact".split()
)
_VERBS = ["Write", "Write", "Please write", "Compose", "Give me"]


@dataclass(frozen=True)
class Example:
    """One exchange: the user's prompt and the assistant's text.

    Attributes:
        prompt: the user's message.
        text: the assistant's text, without the hint line.
        hint: the hint that opens the assistant's turn, or an empty string.
        learn_from: offset in the text before which nothing is learnt (the hint is true there).
    """

    prompt: str
    text: str
    hint: str = ""
    learn_from: int = 0


def topic_of(text: str, rng: random.Random) -> str:
    """Return a likely noun phrase of the text, such as 'the sea', or an empty string."""
    found: list[tuple[str, str]] = [
        (d.lower(), n) for d, n in _NOUN.findall(text) if n not in _NOT_NOUNS
    ]
    if not found:
        return ""
    counts = Counter(noun for _, noun in found)
    best = max(counts.values())
    determiner, noun = rng.choice([pair for pair in found if counts[pair[1]] == best])
    if determiner in ("the", "a", "an") and rng.random() < 0.6:
        return f"{determiner} {noun}"
    return noun


def quote_list(words: list[str]) -> str:
    """Return words as in prompts: 'dog', 'throw'."""
    return ", ".join(f"'{w}'" for w in words)


def pick_words(text: str, most: int, rng: random.Random) -> list[str]:
    """Pick one to ``most`` words of the text, in order, preferring content words."""
    words = words_of(text)
    places = list(range(len(words)))
    weights = [3.0 if len(words[i]) >= 4 else 1.0 for i in places]
    chosen: list[int] = []
    for _ in range(min(rng.randint(1, most), len(words))):
        place = rng.choices(places, weights)[0]
        weights[place] = 0.0
        chosen.append(place)
        if not any(weights):
            break
    picked = [words[i] for i in sorted(chosen)]
    return list(dict.fromkeys(picked))


def _with_words(words: list[str], rng: random.Random) -> str:
    if len(words) == 1 and rng.random() < 0.5:
        return f"with the word {quote_list(words)}"
    return f"with the words {quote_list(words)}"


def _opening(kind: str, rng: random.Random) -> str:
    """Return 'Write a sentence', mostly, or a paraphrase of it."""
    if rng.random() < CANONICAL_SHARE:
        return f"Write a {kind}"
    return f"{rng.choice(_VERBS)} {rng.choice(['a', 'a', 'one', 'another'])} {kind}"


def _last_word(sentence: str) -> str:
    words = words_of(sentence)
    return words[-1] if words else ""


def sentence_prompt(text: str, rng: random.Random) -> str:
    """Return a prompt of one of the sentence families that is true of the text."""
    words = words_of(text)
    n_words, n_chars = len(text.split()), len(text)
    opening = _opening("sentence", rng)
    short = max(map(len, words)) <= 7 and n_words <= 12
    family = rng.choices(
        ["plain", "about", "words", "count", "chars", "starts", "ends", "short", "combo"],
        [26, 10, 20, 8, 5, 6, 7, 5, 13],
    )[0]
    if family == "about" and (topic := topic_of(text, rng)):
        return f"{opening} about {topic}."
    if family == "words":
        return f"{opening} {_with_words(pick_words(text, 5, rng), rng)}."
    if family == "count":
        return f"{opening} with {n_words} words."
    if family == "chars":
        return f"{opening} with {n_chars} characters."
    if family == "starts":
        return f"{opening} that starts with '{words[0]}'."
    if family == "ends":
        return f"{opening} that ends with '{words[-1]}'."
    if family == "short" and short:
        return "Write a short sentence with short words."
    if family == "combo":
        return _combo_prompt(text, opening, rng)
    return f"{opening}."


def _combo_prompt(text: str, opening: str, rng: random.Random) -> str:
    words = words_of(text)
    size = rng.choice([f"with {len(text.split())} words", f"with {len(text)} characters"])
    listed = _with_words(pick_words(text, 3, rng), rng)
    topic = topic_of(text, rng)
    about = f"about {topic} " if topic else ""
    return rng.choice(
        [
            f"{opening} {size} {listed}.",
            f"{opening} {size} {listed}.",
            f"{opening} {about}{size}.",
            f"{opening} {about}{listed}.",
            f"{opening} {size} that starts with '{words[0]}'.",
            f"{opening} {size} that ends with '{words[-1]}'.",
            f"{opening} that starts with '{words[0]}' and ends with '{words[-1]}'.",
        ]
    )


def paragraph_prompt(sentences: list[str], title: str, rng: random.Random) -> str:
    """Return a prompt of one of the paragraph families that is true of the sentences."""
    text = " ".join(sentences)
    opening = _opening("paragraph", rng)
    count = len(sentences)
    topic = title if title and rng.random() < 0.5 else topic_of(text, rng)
    firsts = {words_of(s)[0] for s in sentences}
    if len(firsts) == 1 and count > 1 and rng.random() < 0.9:
        start = f"where every sentence starts with '{firsts.pop()}'"
        size = f"with {count} sentences " if rng.random() < 0.2 else ""
        about = f"about {topic} " if topic and rng.random() < 0.2 else ""
        return f"{opening} {about}{size}{start}."
    family = rng.choices(
        ["plain", "about", "count", "ends", "long", "words", "count+about", "count+words"],
        [24, 22, 14, 14, 6, 8, 6, 6],
    )[0]
    if family in ("about", "count+about") and topic:
        return f"{opening} about {topic}{f' with {count} sentences' if '+' in family else ''}."
    if family == "count":
        return f"{opening} with {count} sentences."
    if family == "ends" and count <= 5:
        ends = quote_list([_last_word(s) for s in sentences])
        return f"{opening} with {count} sentences that end with {ends}."
    if family == "long" and len(text.split()) / count >= 17:
        return f"{opening} with long sentences."
    if family in ("words", "count+words"):
        size = f"with {count} sentences " if "+" in family else ""
        return f"{opening} {size}{_with_words(pick_words(text, 5, rng), rng)}."
    return f"{opening}."


def with_hint(prompt: str, text: str, sentences: list[str], rng: random.Random) -> Example:
    """Return the example with a hint that is true at some point of its text."""
    # Cut before a word: what comes before the cut is given, what follows is learnt.
    cuts = [0] + [m.start() for m in re.finditer(r"(?<=\S) (?=[A-Za-z])", text)]
    cut = rng.choice(cuts[:-1] or cuts) if rng.random() < 0.7 else 0
    rest = text[cut:].strip()
    rest_words = words_of(rest)
    left = len(rest.split())
    last = _last_word(text)
    kinds = [f"The next word is '{rest_words[0]}'.", f"Use the word '{rest_words[0]}' next."]
    if len(sentences) == 1:
        kinds += [
            f"{left} word{'s' * (left > 1)} left.",
            f"End the sentence with '{last}'.",
            f"Use the words {quote_list(pick_words(rest, 3, rng))}.",
        ]
    else:
        which = rng.randrange(len(sentences))
        cut = len(" ".join(sentences[:which]))
        count = len(sentences)
        kinds = [
            f"Write sentence {which + 1} of {count}.",
            f"Write sentence {which + 1} of {count}. "
            f"End the sentence with '{_last_word(sentences[which])}'.",
            f"Start the sentence with '{words_of(sentences[which])[0]}'.",
            f"End the sentence with '{_last_word(sentences[which])}'.",
        ]
    return Example(prompt, text, rng.choice(kinds), cut)


def finish(prompt: str, text: str, sentences: list[str], rng: random.Random) -> Example:
    """Return the example, with a hint in one case out of ten."""
    if rng.random() < HINT_SHARE:
        return with_hint(prompt, text, sentences, rng)
    return Example(prompt, text)
