"""COLLIE's official checker, and the texts on which our verifier is held to its word.

``python tests/evaluation/official.py COLLIE_DIR`` writes ``data/official_verdicts.json`` again.
It needs ``collie-bench==0.1.0`` (installed with ``--no-deps``), ``nltk==3.8.1`` and ``rich``, an
environment of its own, and Punkt's parameters under ``COLLIE_DIR/nltk_data``. Texts of the data
are not copied: for each instance there is one digit for each of `VARIANTS`.
"""

from __future__ import annotations

import json
import random
import string
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

VERDICTS = Path(__file__).with_name("data") / "official_verdicts.json"

VARIANTS: tuple[Callable[[str], str], ...] = (
    lambda t: t,
    lambda t: t[:-1],
    lambda t: t + " ",
    lambda t: f'"{t}"',
    lambda t: f"“{t}”",
    lambda t: t[:-1] + '".',
    lambda t: t[:-1] + "...",
    lambda t: t[:-1] + "!",
    lambda t: t.replace(" ", " -- ", 1),
    lambda t: t.replace(" ", " — ", 1),
    lambda t: t.replace(" ", "\n", 1),
    lambda t: t.replace(". ", ".", 1),
    lambda t: t.replace(". ", "... ", 1),
    lambda t: t.replace(". ", " etc. ", 1),
    lambda t: t.replace(" the ", " The, "),
    lambda t: t.replace("'", "’"),
    lambda t: t.upper(),
    lambda t: t.replace(" ", " Mr. ", 1),
    lambda t: f"{t} {t}",
    lambda t: "I can't. " + t,
)

EDGE_TEXTS = (
    *("", " ", "\n", ".", "..", "...", ". . .", "!", "?!", '"', "--", "- - -", "…", "'", "''"),
    "This is a good sentence.",
    'He said "hello" to me.',
    "He said “hello” to me.",
    "He said 'hello' to me.",
    'He saw "it".',
    'He saw "it." She left.',
    '"Stop!" she cried. Then left.',
    "“Stop!” she cried. “Go.” Then he left.",
    "I don't know. I can't. We cannot. They're gonna go, you gotta see.",
    "I don’t know.",
    "'Tis the season. 'Twas a night. D'ye hear more'n that? Gimme! Lemme go. I wanna. I wanna go.",
    "The dogs' bones and James's hat, it's the boy's, I'd go, we'll see, they've been.",
    "Rock 'n' roll in the '90s and o'clock.",
    "Wait... what?",
    "Wait... The dog ran. Wait. . . The dog ran.",
    "He paused.. then went on.",
    "idea -- really",
    "A — B and word—word, 8–2 – so.",
    "A well-known state-of-the-art, a/b, and/or, x=y, e-mail.",
    "$5.00 (50%) & more #1 @home *bold* a_b c^d ~e |f| \\g",
    "3,000 people, 1:30 pm; a:b, c,d",
    "He left.She stayed.",
    "Line one\nLine two. Line three\n\nNext one. Last",
    "Mr. Smith met Dr. Jones. Mrs. Lee and Ms. Day left. Prof. Who stayed.",
    "She lives in the U.S. The weather is fine. The U.S. Senate met.",
    "J. K. Rowling and J.R.R. Tolkien wrote. It was I. He left. Plan B. It failed.",
    "It is No. 2 on the list. He said no. Then he left.",
    "At 5 p.m. he ate. At 6 a.m. The sun rose.",
    "In 1982. He won 12. the end. It cost 3.5. Then 7.",
    "e.g. this, i.e. that, etc. And so on. vs. them.",
    "Acme Inc. grew. Acme Co. The firm, Ltd. was sold. On Jan. 5 it ended. In Dec. It snowed.",
    "(He left.) She stayed. [It rained.] {All} <of> it.",
    "He left.) She stayed.' They ran.\" We sat.",
    "What?! No!!! Yes? ok. lower case start. and on.",
    "Tabs\tand  double  spaces .  A stop alone . And comma , too.",
    "naïve café Ünal ſcannot İstanbul ᾳ. Ende. Über alles.",
    "A\u00a0non-breaking space.\u2003An em space. The end.\u00a0Next.",
    "The cat sat on the mat. The dog ran to the park. The bird flew away.",
    "the end is near the end",
    "HE WENT TO THE U.K. AND SHOUTED. IT WAS LOUD.",
    "Ends with colon: ends with comma,",
    "A url http://x.org/a?b=c and a file.txt. Done.",
    "`code` and ``quoted'' text. 'Single quoted.' \"Double.\" Done.",
    "He met St. Paul at 5th St. It was late. Rd. Ave. Blvd. Gen. Lee.",
    "One. Two. Three. Four. Five.",
    "One two three four five six seven eight nine ten eleven.",
)

_PIECES = (
    *("the", "a", "He", "She", "The", "dog", "ran", "Smith", "market", "It", "and", "be", "is"),
    *("can't", "cannot", "Mr.", "U.S.", "Inc.", "J.", "No.", "2", "1982.", "3,000", "etc.", "--"),
    *("—", "...", ". . .", '"', "'", "“", "”", "'s", "(", ")", ".", "!", "?", ",", ";", ":", "\n"),
    *("\n\n", "went.", "home.", "sea!", "why?", 'said."', "left.)", "well-known", "$5.00", "50%"),
)


def made_texts(count: int = 250) -> list[str]:
    """Texts put together at random from `_PIECES`, always the same ones."""
    draw = random.Random(20240)
    return [
        "".join(
            draw.choice(_PIECES) + draw.choice((" ", " ", " ", ""))
            for _ in range(draw.randint(1, 24))
        )
        for _ in range(count)
    ]


def targets_for(words: list[str], sentences: list[list[str]]) -> list[tuple[str, Any]]:
    """Targets that a text meets or nearly meets, from its official words."""
    count, longest = len(words), max(map(len, words), default=0)
    placed = [words[i] if i < count else "x" for i in (3, 7, 10)]
    first = sentences[0][0] if sentences and sentences[0] else "The"
    last = [part[-1] if part else "" for part in sentences]
    lengths = [len(part) for part in sentences] or [0]
    number = len(sentences)
    return [
        ("sent_02", [count, [word.upper() for word in placed]]),
        ("sent_02", [count + 1, placed]),
        ("sent_03", [count, longest]),
        ("sent_03", [count, longest - 1]),
        ("sent_04", [*words[:1], *words[-2:]]),
        ("sent_04", ["ca", "dog", "'"]),
        ("para_01", first.lower()),
        ("para_01", "He"),
        ("para_02", [number, "be", "to", "of"]),
        ("para_02", [number, "the", "is", "it"]),
        ("para_03", [number, min(lengths), max(lengths)]),
        ("para_03", [number, 1, 5]),
        ("para_04", [3, min(lengths)]),
        ("para_05", [number, [f"{word}." for word in last]]),
        ("para_05", [number, last[:-1]]),
    ]


def use_punkt(directory: Path) -> Any:
    """Give NLTK 3.8.1 the Punkt parameters of a punkt_tab directory, which it cannot read."""
    import nltk.tokenize
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    def read(name: str) -> list[str]:
        return [line for line in (directory / name).read_text("utf-8").split("\n") if line]

    parameters = PunktParameters()
    parameters.abbrev_types = set(read("abbrev_types.txt"))
    parameters.sent_starters = set(read("sent_starters.txt"))
    parameters.collocations = {tuple(line.split("\t")) for line in read("collocations.tab")}
    contexts = (line.rsplit("\t", 1) for line in read("ortho_context.tab"))
    parameters.ortho_context = defaultdict(int, {word: int(bits) for word, bits in contexts})
    tokenizer = PunktSentenceTokenizer(parameters)
    nltk.tokenize.load = lambda *_: tokenizer
    return tokenizer


def checkers() -> dict[str, Any]:
    """The nine official constraints, as ``collie.examples`` builds them."""
    from collie import constraints as c

    def make(relation: str, target: str, what: Any, each: str | None = None) -> Any:
        return c.Constraint(
            input_level=c.InputLevel(each) if each else None,
            target_level=c.TargetLevel(target),
            transformation=c.ForEach(what) if each else what,
            relation=c.Relation(relation),
            reduction=c.Reduction("all") if each else None,
        )

    count, each_word = c.Count(), c.ForEach(...)
    unwanted = make("not in", "word", each_word)
    at_least = make(">=", "word", count, "sentence")
    return {
        "sent_01": make("==", "character", count),
        "sent_02": c.All(make("==", "word", count), make("==", "word", c.Position([3, 7, 10]))),
        "sent_03": c.All(make(">=", "word", count), make("<=", "character", count, "word")),
        "sent_04": make("in", "word", each_word),
        "para_01": make("==", "word", c.Position(0), "sentence"),
        "para_02": c.All(make("==", "sentence", count), unwanted, unwanted, unwanted),
        "para_03": c.All(
            make("==", "sentence", count), at_least, make("<=", "word", count, "sentence")
        ),
        "para_04": c.All(make(">=", "sentence", count), at_least),
        "para_05": c.All(
            make("==", "sentence", count), make("==", "word", c.Position(-1), "sentence")
        ),
    }


def official_verdicts(directory: Path) -> dict[str, Any]:
    """Everything that the fixture holds, from the official checker."""
    from nltk.tokenize import word_tokenize

    punkt = use_punkt(directory / "nltk_data/tokenizers/punkt_tab/english")
    checks = checkers()
    rows = [
        json.loads(line)
        for line in (directory / "wiki.jsonl").read_text("utf-8").split("\n")
        if line
    ]

    def judge(task: str, targets: Any, text: str) -> int:
        return int(bool(checks[task].check(text, targets)))

    def words(text: str, whole: bool) -> list[str]:
        found = word_tokenize(text, preserve_line=whole)
        return [t.strip().strip(".") for t in found if t not in string.punctuation]

    texts = []
    for text in (*EDGE_TEXTS, *made_texts()):
        sentences = punkt.tokenize(text)
        parts = [words(s.strip().strip("."), False) for s in sentences]
        questions = [("sent_01", len(text)), *targets_for(words(text, False), parts)]
        texts.append(
            {
                "text": text,
                "words": words(text, True),
                "sentences": sentences,
                "verdicts": [[t, targets, judge(t, targets, text)] for t, targets in questions],
            }
        )
    return {
        "made_with": "collie-bench 0.1.0, nltk 3.8.1, Punkt's English parameters",
        "instances": {
            row["id"]: "".join(
                str(judge(row["task"], row["targets"], variant(row["example"])))
                for variant in VARIANTS
            )
            for row in rows
        },
        "texts": texts,
    }


if __name__ == "__main__":
    VERDICTS.parent.mkdir(exist_ok=True)
    made = official_verdicts(Path(sys.argv[1]))
    lines = [json.dumps(text) for text in made.pop("texts")]
    head = json.dumps(made, indent=0)[:-2]
    VERDICTS.write_text(head + ',\n"texts": [\n' + ",\n".join(lines) + "\n]\n}\n", "utf-8")
