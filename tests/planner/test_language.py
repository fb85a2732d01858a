from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from disciple_ext.errors import TaskNotUnderstood, UsageError
from disciple_ext.planner.expert.constraints import (
    LAST,
    Abstract,
    Ingredients,
    Itinerary,
    Poem,
    Range,
    Writing,
)
from disciple_ext.planner.expert.language import parse

PUZZLES = {
    "poem": "Write a poem with 8 lines, where each line has exactly 8 words.",
    "abstract": (
        "Write an abstract for a grant proposal on elephant ecology and conservation. Your "
        'response should start with "Abstract: <YOUR ABSTRACT>". The abstract must be between '
        "75-100 words. You are not allowed to use any of the following terms: conservation, "
        "sustainability, environment, ecology, wildlife, africa, asia, society, community, "
        "biodiversity, endangered, threatened, species, habitat, poaching, science, research."
    ),
    "ingredients": (
        "Please write an ingredients list for chocolate chip brownies with at most 7 ingredients "
        "costing less than $18.00 total. The list should be in dashed bullet point format "
        'starting with "Ingredients:". Each ingredient should be listed on a separate line with '
        "the price given in USD."
    ),
    "itinerary": (
        "I'm planning a 3-day trip to Singapore. Please write me a detailed day-by-day itinerary "
        "that includes at least four activities per day. The itinerary should start with "
        '"Day 1:" and end with "Day 3:", with a blank line between each day. Each activity should '
        "be listed on a separate line starting with a time range in 24-hour format in square "
        'brackets (for example, "[11:00-13:00] Visit the Gardens by the Bay"). Make sure to leave '
        "at least 9 hours of free time each day for rest."
    ),
}


def of_targets(task: str, targets: Any) -> Writing:
    """What an instance of COLLIE asks for, from its data rather than from its prompt."""
    exactly = lambda count: Range(count, count)  # noqa: E731
    match task:
        case "sent_01":
            return Writing("sentence", characters=exactly(targets))
        case "sent_02":
            placed = tuple(zip((4, 8, 11), targets[1], strict=True))
            return Writing("sentence", words=exactly(targets[0]), placed=placed)
        case "sent_03":
            return Writing("sentence", words=Range(targets[0]), word_chars=Range(0, targets[1]))
        case "sent_04":
            return Writing("sentence", contains=tuple(targets))
        case "para_01":
            return Writing("paragraph", every_placed=((1, targets),))
        case "para_02":
            return Writing("paragraph", sentences=exactly(targets[0]), avoids=tuple(targets[1:]))
        case "para_03":
            words = Range(targets[1], targets[2])
            return Writing("paragraph", sentences=exactly(targets[0]), sentence_words=words)
        case "para_04":
            words = Range(targets[1])
            return Writing("paragraph", sentences=Range(targets[0]), sentence_words=words)
        case "para_05":
            ends = tuple(targets[1])
            return Writing("paragraph", sentences=exactly(targets[0]), last_words=ends)
        case _:
            raise AssertionError(task)


def test_every_collie_prompt_reads_as_its_targets() -> None:
    folder = os.environ.get("DISCIPLE_COLLIE")
    if not folder:
        pytest.skip("DISCIPLE_COLLIE does not name a folder with wiki.jsonl")
    lines = (Path(folder) / "wiki.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 562
    for row in rows:
        assert parse(row["prompt"]) == of_targets(row["task"], row["targets"]), row["id"]


# One prompt of each type in COLLIE's own words, for machines without the data.
@pytest.mark.parametrize(
    ("prompt", "task", "targets"),
    [
        (
            "Please generate a sentence with exactly 82 characters. Include whitespace into your "
            "character count.",
            "sent_01",
            82,
        ),
        (
            "Please generate a sentence:\n1) with exactly 18 words;\n2) with the 4th, 8th, 11th "
            "words to be 'whole', 'Chester-le-Street', 'the' respectively.",
            "sent_02",
            [18, ["whole", "Chester-le-Street", "the"]],
        ),
        (
            "Please generate a sentence:\n1) with at least 9 words;\n2) with all words having at "
            "most 7 characters.",
            "sent_03",
            [9, 7],
        ),
        (
            "Please generate a sentence containing the word '1,053', 'of', 'U.S'.",
            "sent_04",
            ["1,053", "of", "U.S"],
        ),
        (
            "Please generate a paragraph with all sentences having the 1st word to be 'The'.",
            "para_01",
            "The",
        ),
        (
            "Please generate a paragraph:\n1) with exactly 3 sentences;\n2) not containing the "
            "word 'be';\n3) not containing the word 'this';\n4) not containing the word 'is'.",
            "para_02",
            [3, "be", "this", "is"],
        ),
        (
            "Please generate a paragraph:\n1) with exactly 4 sentences;\n2) with all sentences "
            "having at least 12 words;\n3) with all sentences having at most 20 words.",
            "para_03",
            [4, 12, 20],
        ),
        (
            "Please generate a paragraph:\n1) with at least 3 sentences;\n2) with all sentences "
            "having at least 21 words.",
            "para_04",
            [3, 21],
        ),
        (
            "Please generate a paragraph:\n1) with exactly 3 sentences;\n2) with sentences having "
            "the last word to be 'd'Or', '2021/2022', 'LL.B', respectively.",
            "para_05",
            [3, ["d'Or", "2021/2022", "LL.B"]],
        ),
    ],
)
def test_collie_language(prompt: str, task: str, targets: Any) -> None:
    assert parse(prompt) == of_targets(task, targets)


EIGHTY_TWO = Writing("sentence", characters=Range(82, 82))


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Write a sentence with 82 characters.", EIGHTY_TWO),
        ("Please write an 82-character sentence.", EIGHTY_TWO),
        ("generate one sentence of exactly 82 chars, including spaces", EIGHTY_TWO),
        ("Can you create a sentence that is exactly 82 characters long?", EIGHTY_TWO),
        ("Write a sentence.", Writing("sentence")),
        (
            "Write a sentence of exactly ten words about the sea.",
            Writing("sentence", topic="the sea", words=Range(10, 10)),
        ),
        (
            "Write a three-sentence paragraph about cats.",
            Writing("paragraph", topic="cats", sentences=Range(3, 3)),
        ),
        (
            "Write 3 sentences with 10-12 words each.",
            Writing("paragraph", sentences=Range(3, 3), sentence_words=Range(10, 12)),
        ),
        (
            "Write a paragraph of 2 to 4 sentences, each with between 10 and 12 words, without "
            "the words “be” and “is”.",
            Writing(
                "paragraph",
                sentences=Range(2, 4),
                sentence_words=Range(10, 12),
                avoids=("be", "is"),
            ),
        ),
        (
            "Generate a sentence with at least 9 words and at most 15 words, all words having at "
            "most 7 letters, containing the words 'sea' and `ship'.",
            Writing(
                "sentence",
                words=Range(9, 15),
                word_chars=Range(0, 7),
                contains=("sea", "ship"),
            ),
        ),
        (
            "Write a sentence with at least 9 words but no more than 14.",
            Writing("sentence", words=Range(9, 14)),
        ),
        (
            "Write a sentence with more than 9 words and fewer than 14 words.",
            Writing("sentence", words=Range(10, 13)),
        ),
        (
            "Write a sentence that starts with 'The' and ends with 'market'.",
            Writing("sentence", placed=((1, "The"), (LAST, "market"))),
        ),
        (
            "Write a sentence with exactly 12 words where the first word is 'We' and the last "
            "word is 'home'.",
            Writing("sentence", words=Range(12, 12), placed=((1, "We"), (LAST, "home"))),
        ),
        (
            "Write a paragraph with exactly 4 sentences where every sentence starts with 'The' "
            "and has at most 15 words.",
            Writing(
                "paragraph",
                sentences=Range(4, 4),
                sentence_words=Range(0, 15),
                every_placed=((1, "The"),),
            ),
        ),
        (
            "Please generate a paragraph:\n1) with all sentences having the 1st word to be "
            "'The';\n2) with exactly 3 sentences;\n3) with sentences having the last word to be "
            "'sea', 'sky', 'sun', respectively;\n4) not containing the word 'is'.",
            Writing(
                "paragraph",
                sentences=Range(3, 3),
                every_placed=((1, "The"),),
                last_words=("sea", "sky", "sun"),
                avoids=("is",),
            ),
        ),
        (
            "Write a sentence with no words longer than 6 characters.",
            Writing("sentence", word_chars=Range(0, 6)),
        ),
        (
            "Write a sentence in which each word has at least 3 characters.",
            Writing("sentence", word_chars=Range(3)),
        ),
        (
            "A sentence with exactly 20 words and 100 characters, using the word 'boat'.",
            Writing(
                "sentence",
                words=Range(20, 20),
                characters=Range(100, 100),
                contains=("boat",),
            ),
        ),
        (
            "Write a paragraph with between 40 and 60 words.",
            Writing("paragraph", words=Range(40, 60)),
        ),
        # In a single sentence, "every sentence" is that sentence.
        (
            "Write a sentence, with all sentences having at most 9 words.",
            Writing("sentence", words=Range(0, 9)),
        ),
    ],
)
def test_paraphrases_and_combinations(prompt: str, expected: Writing) -> None:
    assert parse(prompt) == expected


def test_puzzles() -> None:
    assert parse(PUZZLES["poem"]) == Poem(8, 8)
    abstract = parse(PUZZLES["abstract"])
    assert isinstance(abstract, Abstract)
    assert abstract.words == Range(75, 100)
    assert abstract.topic == "elephant ecology and conservation"
    assert (len(abstract.avoids), abstract.avoids[0], abstract.avoids[-1]) == (
        17,
        "conservation",
        "research",
    )
    assert parse(PUZZLES["ingredients"]) == Ingredients("chocolate chip brownies", 7, 1800)
    assert parse(PUZZLES["itinerary"]) == Itinerary("Singapore", 3, 4, 9)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (
            "Write a 4-line poem about the sea where each line has five words.",
            Poem(4, 5, "the sea"),
        ),
        (
            PUZZLES["ingredients"].replace("7", "five").replace("18.00", "12.50"),
            Ingredients("chocolate chip brownies", 5, 1250),
        ),
        (
            PUZZLES["itinerary"]
            .replace("3-day", "2-day")
            .replace("Day 3", "Day 2")
            .replace("Singapore", "Rome"),
            Itinerary("Rome", 2, 4, 9),
        ),
    ],
)
def test_puzzles_with_other_numbers(prompt: str, expected: Any) -> None:
    assert parse(prompt) == expected


@pytest.mark.parametrize(
    ("prompt", "part"),
    [
        ("Write a haiku about frogs.", "haiku about frogs"),
        ("Translate this into French.", "French"),
        ("Write a sentence with exactly 5 words in French.", "'French'"),
        ("Write a sentence containing the word 'sea' that rhymes with moon.", "'rhymes with moon'"),
        ("Do not write a sentence with 5 words.", "'Do not'"),
        ("Write a sentence containing 'New York'.", "'New York'"),
        ("Write a sentence with 80 characters, not counting spaces.", "not counting spaces"),
    ],
)
def test_what_is_not_understood_is_named(prompt: str, part: str) -> None:
    with pytest.raises(TaskNotUnderstood) as caught:
        parse(prompt)
    message = str(caught.value)
    assert part in message
    assert "exactly 82 characters" in message
    assert "--planner openai:MODEL" in message and "disciple exec" in message
    assert isinstance(caught.value, UsageError) and caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("clauses", "one", "other"),
    [
        ("with exactly 3 words, with the 5th word to be 'x'", "exactly 3 words", "5th word"),
        ("with at least 10 words and with at most 5 words", "at least 10 words", "at most 5"),
        ("containing 'sea', not containing 'Sea'", "containing 'sea'", "not containing 'Sea'"),
        ("with 10 characters and 9 words", "10 characters", "9 words"),
        ("of exactly 5 words with the 5th word to be 'a', ending with 'b'", "5th word", "ending"),
        ("with the 2nd word to be 'a', with the 2nd word to be 'b'", "be 'a'", "be 'b'"),
        ("with all words having at most 3 characters, containing 'ship'", "all words", "'ship'"),
        ("with exactly 2 words, containing the words 'a', 'b', 'c'", "2 words", "'c'"),
        ("with exactly 2 sentences", "a sentence", "2 sentences"),
    ],
)
def test_clauses_that_contradict_are_both_named(clauses: str, one: str, other: str) -> None:
    with pytest.raises(TaskNotUnderstood, match="contradict") as caught:
        parse(f"Write a sentence {clauses}.")
    assert one in str(caught.value) and other in str(caught.value)


@pytest.mark.parametrize(
    ("clauses", "one", "other"),
    [
        (
            "with exactly 3 sentences, with sentences having the last word to be 'a', 'b'",
            "exactly 3 sentences",
            "last word",
        ),
        ("with 3 sentences of 10 words each and 20 words", "20 words", "10 words each"),
    ],
)
def test_clauses_of_paragraphs_that_contradict(clauses: str, one: str, other: str) -> None:
    with pytest.raises(TaskNotUnderstood, match="contradict") as caught:
        parse(f"Write a paragraph {clauses}.")
    assert one in str(caught.value) and other in str(caught.value)


def test_a_word_that_collie_splits_cannot_be_asked_for() -> None:
    with pytest.raises(TaskNotUnderstood, match=r"'can' \+ 'not'"):
        parse("Write a sentence containing 'cannot'.")


def test_impossible_counts() -> None:
    with pytest.raises(TaskNotUnderstood, match="no text can have"):
        parse("Write a sentence with between 9 and 5 words.")
    with pytest.raises(TaskNotUnderstood, match="fewer|ends? with|cannot end"):
        parse(PUZZLES["itinerary"].replace("3-day", "2-day"))
    with pytest.raises(TaskNotUnderstood, match="1 position"):
        parse("Write a sentence with the 4th word to be 'a', 'b'.")
