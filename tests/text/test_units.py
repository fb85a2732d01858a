"""Words and sentences are COLLIE's; a safe end is an end for every splitter."""

from __future__ import annotations

import json
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disciple_ext.evaluation.suites.punkt import default_splitter, read_punkt
from disciple_ext.text import units, word_rules
from disciple_ext.text.sentence_rules import STARTERS

VERDICTS = Path(__file__).parents[1] / "evaluation" / "data" / "official_verdicts.json"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("...", [""]),
        ("This is a good sentence.", ["This", "is", "a", "good", "sentence"]),
        ('He said "hello" to me.', ["He", "said", "``", "hello", "''", "to", "me"]),
        ("I don't know", ["I", "do", "n't", "know"]),
        ("I don’t know.", ["I", "don", "’", "t", "know"]),
        ("He cannot. We're gonna go.", ["He", "can", "not", "We", "'re", "gon", "na", "go"]),
        ("Wait... what?", ["Wait", "", "what"]),
        ("idea -- really", ["idea", "--", "really"]),
        ("A — B", ["A", "—", "B"]),
        ("word—word well-known a/b x=y", ["word—word", "well-known", "a/b", "x=y"]),
        ("$5.00 (50%) & more", ["5.00", "50", "more"]),
        ("He left.She stayed.", ["He", "left.She", "stayed"]),
        ("He left. She stayed.", ["He", "left", "She", "stayed"]),
    ],
)
def test_words_of_worked_examples(text: str, expected: list[str]) -> None:
    assert units.words(text) == expected


def test_words_are_nltk_3_8_1s() -> None:
    for row in json.loads(VERDICTS.read_text("utf-8"))["texts"]:
        assert units.words(row["text"]) == row["words"], row["text"]


def test_sentences_agree_with_punkt_on_most_edge_texts() -> None:
    rows = json.loads(VERDICTS.read_text("utf-8"))["texts"]
    other = [row["text"] for row in rows if units.sentences(row["text"]) != row["sentences"]]
    assert len(other) <= 0.05 * len(rows), other


def test_split_words_are_the_plain_words_that_are_two() -> None:
    for word in units.SPLIT_WORDS:
        for form in (word, word.title(), word.upper()):
            assert len(units.words(f"They {form} do.")) == 4
    assert {w for w in word_rules.SPLIT_WORDS if not w.isalpha()} == set()


@given(st.lists(st.text(string.ascii_letters, min_size=1, max_size=12), min_size=1))
def test_plain_words_count_as_themselves(parts: list[str]) -> None:
    parts = [p for p in parts if p.lower() not in units.SPLIT_WORDS]
    assert units.words(" ".join(parts) + ".") == parts


@given(st.text())
def test_any_text_can_be_cut(text: str) -> None:
    words, sentences = units.words(text), units.sentences(text)
    assert all(word == word.strip().strip(".") for word in words)
    assert re.sub(r"\s", "", "".join(sentences)) == re.sub(r"\s", "", text)
    assert units.characters(text) == len(text)


def test_sentences_of_plain_prose() -> None:
    text = "Mr. Smith left. It rained! Did it? J. K. Lee knew. At 5 p.m. he ate."
    assert units.sentences(text) == [
        "Mr. Smith left.",
        "It rained!",
        "Did it?",
        "J. K. Lee knew.",
        "At 5 p.m. he ate.",
    ]
    assert units.sentences(" \n") == []


def test_lines_and_paragraphs() -> None:
    text = "One\n two \n\nThree\n \nFour"
    assert units.lines(text) == ["One", "two", "Three", "Four"]
    assert units.paragraphs(text) == ["One\n two", "Three", "Four"]
    assert units.lines("") == units.paragraphs("") == []


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("Dog", "dog", True),
        ("dog.", "DOG", True),
        ("dogs", "dog", False),
        ("--", "-", False),
        ("'s", "S", True),
    ],
)
def test_same_word(a: str, b: str, same: bool) -> None:
    assert units.same_word(a, b) is same


@pytest.mark.parametrize(
    "text",
    ["the dog", "It was me", "well-known", "She saw the sun", "a LION", "Wisconsin", "so they sat"],
)
def test_ordinary_words_end_safely(text: str) -> None:
    assert units.ends_safely(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "dog ", "dog.", "He met Mr", "He met mr", "Acme Inc", "in the U.S", "at 5 p.m"),
        *("in 1982", "Plan B", "It was I", "dont'", "don't", '"dog', "the dog,", "a 3rd", "TV"),
        *("Smith-Jr", "and so on, etc", "No", "café", "x=y", "at noon Jan", "(dog", "hmm"),
    ],
)
def test_doubtful_words_do_not_end_safely(text: str) -> None:
    assert not units.ends_safely(text)


NEXT = ("The dog ran.", "It ran.", "Dogs ran.", "Smith ran.", "dogs ran.", "12 dogs ran.", "Who?")


def test_a_safe_end_is_an_end_for_punkt_after_every_abbreviation(punkt_dir: Path) -> None:
    cut = default_splitter().cut
    for bare in sorted(read_punkt(punkt_dir).abbreviations):
        for word in {bare, bare.title(), bare.upper(), f"co-{bare}", f"Non-{bare.title()}"}:
            if units.ends_safely(f"He met {word}"):  # no known abbreviation gets here
                assert all(len(cut(f"He met {word}. {after}")) == 2 for after in NEXT), word


def test_a_number_ends_safely_before_a_common_first_word(punkt_dir: Path) -> None:
    cut = default_splitter().cut
    for number in ("4", "12", "1982", "3,000"):
        assert not units.ends_safely(f"in {number}", "the")
        assert not units.ends_safely(f"in {number}", "Smith")
        for word in STARTERS:
            text = f"It was in {number}. {word.title()} dogs ran."
            assert units.ends_safely(f"It was in {number}", word.title())
            assert len(cut(text)) == len(units.sentences(text)) == 2, text


@pytest.mark.slow
def test_a_safe_end_is_an_end_for_both_splitters_after_every_known_word(punkt_dir: Path) -> None:
    cut, parameters = default_splitter().cut, read_punkt(punkt_dir)
    safe = 0
    for bare in sorted(parameters.contexts):
        for word in (bare, bare.title()):
            if units.ends_safely(f"He met {word}"):
                safe += 1
                for after in NEXT:
                    text = f"He met {word}. {after}"
                    assert len(cut(text)) == len(units.sentences(text)) == 2, text
    assert safe > 20_000


@given(st.lists(st.text("abcdemprst. -'\"UJ1", max_size=9)), st.sampled_from(NEXT))
def test_a_safe_end_parts_whatever_stands_before_it(parts: list[str], after: str) -> None:
    text = " ".join(parts)
    if units.ends_safely(text):
        assert units.sentences(f"{text}. {after}")[-1] == after


def test_importing_units_loads_nothing_heavy() -> None:
    code = (
        "import sys; import disciple_ext.text.units; "
        "print([m for m in ('torch', 'nltk', 'numpy', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
