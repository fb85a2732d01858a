"""Draw chat examples from the corpus: which sources, which kinds, how often."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from training import forms
from training.corpus import (
    MAX_SENTENCES,
    clean_paragraph,
    clean_sentences,
    is_clean,
    read_documents,
    words_of,
)
from training.examples import (
    Example,
    finish,
    paragraph_prompt,
    sentence_prompt,
    topic_of,
)
from training.mixture import (
    KINDS,
    PARAGRAPH_WEIGHTS,
    SENTENCE_WEIGHTS,
    STORY_WEIGHTS,
)

_SINGLE = ("common-voice-sentences", "tatoeba", "coco-captions")
_GROUPABLE = ("common-voice-sentences", "tatoeba")


class Cycle:
    """An endless walk through a list, shuffled anew on every round."""

    def __init__(self, items: list[str], rng: random.Random) -> None:
        """Keep the list and the random source."""
        self._items, self._rng, self._next = list(items), rng, len(items)

    def __len__(self) -> int:
        """Return the number of items in one round."""
        return len(self._items)

    def take(self) -> str:
        """Return the next item."""
        if self._next >= len(self._items):
            self._rng.shuffle(self._items)
            self._next = 0
        self._next += 1
        return self._items[self._next - 1]


def _usable(source: str, sentence: str) -> bool:
    """Captions are often bare noun phrases; keep those with a verb we know."""
    if source == "coco-captions" and not {"is", "are"} & set(sentence.split()):
        return False
    return is_clean(sentence)


class Maker:
    """Draws chat examples from the corpus, deterministically from a seed."""

    def __init__(self, corpus: Path, seed: int, story_characters: int = 1400) -> None:
        """Read the corpus and set up one walk per source.

        Args:
            corpus: the compressed corpus.
            seed: seed of every draw.
            story_characters: length at which a story is cut off, after the paragraph.
        """
        self._story_characters = story_characters
        self.rng = random.Random(seed)
        texts: dict[str, list[str]] = defaultdict(list)
        for source, text in read_documents(corpus):
            texts[source].append(text)
        blocks = {
            source: [b for d in docs for b in d.split("\n\n")] if source not in _SINGLE else docs
            for source, docs in texts.items()
        }
        self._blocks = {source: Cycle(items, self.rng) for source, items in blocks.items()}
        self._docs = {source: Cycle(items, self.rng) for source, items in texts.items()}
        self._groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._starts: dict[str, list[str]] = defaultdict(list)
        for source in _GROUPABLE:
            for sentence in texts.get(source, []):
                if is_clean(sentence):
                    self._starts[words_of(sentence)[0]].append(sentence)
                    self._groups["", topic_of(sentence, self.rng).split(" ")[-1]].append(sentence)
        self._start_words = [w for w, s in self._starts.items() if len(s) >= 4]
        self._start_weights = [len(self._starts[w]) ** 0.5 for w in self._start_words]
        self._topics = [k for k, s in self._groups.items() if len(s) >= 4 and k[1]]

    def _source(self, weights: dict[str, int]) -> str:
        known = [s for s in weights if s in self._docs]
        return self.rng.choices(known, [weights[s] for s in known])[0]

    def sentence(self) -> Example | None:
        """One sentence, whole or out of a paragraph."""
        source = self._source(SENTENCE_WEIGHTS)
        block = self._blocks[source].take()
        if source == "schema-guided-dialogue":
            block = self.rng.choice(block.split("\n")).partition(": ")[2]
        if source == "gsm8k":
            block = block.split("\n")[0]
        found = [s for s in clean_sentences(block) if _usable(source, s)]
        if not found:
            return None
        text = self.rng.choice(found)
        return finish(sentence_prompt(text, self.rng), text, [text], self.rng)

    def _paragraph_of(self, sentences: list[str], title: str = "") -> Example:
        prompt = paragraph_prompt(sentences, title, self.rng)
        return finish(prompt, " ".join(sentences), sentences, self.rng)

    def paragraph(self) -> Example | None:
        """A natural paragraph of two to eight sentences."""
        source = self._source(PARAGRAPH_WEIGHTS)
        unquote = self.rng.random() < (0.7 if source == "global-asp-stories" else 0.2)
        sentences = clean_paragraph(self._blocks[source].take(), unquote)
        if len(sentences) < 2:
            return None
        if len(sentences) > MAX_SENTENCES or self.rng.random() < 0.3:
            start = self.rng.randrange(max(1, len(sentences) - 2))
            sentences = sentences[start : start + self.rng.randint(2, 5)]
        return self._paragraph_of(sentences) if len(sentences) > 1 else None

    def same_start(self) -> Example | None:
        """Sentences that begin with the same word, from one document or from single sentences."""
        count = self.rng.randint(2, 5)
        if self.rng.random() < 0.6:
            document = self._docs[self._source(STORY_WEIGHTS)].take()
            by_first: dict[str, list[str]] = defaultdict(list)
            for sentence in clean_sentences(document[:6000]):
                if sentence not in by_first[words_of(sentence)[0]]:
                    by_first[words_of(sentence)[0]].append(sentence)
            choices = [s for s in by_first.values() if len(s) >= 2]
            return self._paragraph_of(self.rng.choice(choices)[:count]) if choices else None
        pool = self._starts[self.rng.choices(self._start_words, self._start_weights)[0]]
        return self._paragraph_of(self.rng.sample(pool, min(count, len(pool))))

    def topic_group(self) -> Example:
        """Single sentences that share a noun."""
        pool = self._groups[self.rng.choice(self._topics)]
        return self._paragraph_of(self.rng.sample(pool, min(self.rng.randint(2, 4), len(pool))))

    def story(self) -> Example | None:
        """Several paragraphs of one document in a row."""
        source = self._source(STORY_WEIGHTS)
        blocks = self._docs[source].take().split("\n\n")
        title = blocks[0] if len(blocks[0]) < 50 and blocks[0][-1:] not in ".!?" else ""
        start = self.rng.randrange(max(1, len(blocks) - 4))
        kept: list[str] = []
        for block in blocks[start:]:
            sentences = clean_paragraph(block, unquote=source == "global-asp-stories")
            if sentences:
                kept.append(" ".join(sentences))
            elif kept:
                break
            if sum(map(len, kept)) > self._story_characters:
                break
        if not kept:
            return None
        text = "\n\n".join(kept)
        topic = title.strip("' ") or topic_of(text, self.rng)
        fiction = source in ("global-asp-stories", "standardebooks")
        kind = "story" if fiction else self.rng.choice(["text", "article"])
        article = "an" if kind == "article" else "a"
        return Example(f"Write {article} {kind}{f' about {topic}' if topic else ''}.", text)

    def form(self, kind: str) -> Example | None:
        """A poem, a list, an ingredients list, an abstract or an itinerary."""
        rng = self.rng
        if kind == "itinerary":
            return forms.itinerary(rng)
        if kind == "poem" and "poems-public-domain" in self._docs:
            return forms.poem(self._docs["poems-public-domain"].take(), rng)
        if kind == "list" and "corpora-lists" in self._docs:
            return forms.listing(self._docs["corpora-lists"].take(), rng)
        if kind == "ingredients" and "recipes" in self._docs:
            return forms.ingredients(self._docs["recipes"].take(), rng)
        if kind == "abstract" and rng.random() < 0.7:
            return forms.abstract(self._docs["scitldr"].take(), rng)
        if kind == "abstract":
            document = self._docs["wikipedia-leads"].take()
            return forms.abstract(document, rng)
        return None

    def example(self) -> Example:
        """Draw one example of any kind."""
        makers: dict[str, Callable[[], Example | None]] = {
            "sentence": self.sentence,
            "paragraph": self.paragraph,
            "story": self.story,
            "same-start": self.same_start,
            "topic-group": self.topic_group,
        }
        kind = self.rng.choices(list(KINDS), list(KINDS.values()))[0]
        while True:  # the kind stays: a source that often fails must not thin out its kind
            made = makers[kind]() if kind in makers else self.form(kind)
            if made is not None:
                return made
