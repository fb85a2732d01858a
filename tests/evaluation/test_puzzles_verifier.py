"""The verifiers of the four puzzles follow the words of their prompts."""

from __future__ import annotations

import pytest

from disciple_ext.errors import EvaluationError
from disciple_ext.evaluation.suites.puzzles import BANNED_TERMS, PUZZLES, verify_puzzle

LINE = "The old boat went home over the sea"
POEM = "\n".join([LINE] * 8)


def abstract(count: int, extra: str = "") -> str:
    return "Abstract: " + " ".join([*["word"] * (count - bool(extra)), *([extra] if extra else [])])


INGREDIENTS = "Ingredients:\n- 2 eggs ($1.50)\n- 1/2 cup cocoa powder - $6.49\n- sugar, $10.00"
DAY = (
    "[07:00-09:00] Eat breakfast\n[09:00-12:30] See the zoo\n"
    "[13:00-15:00] Walk about\n[18:00-20:00] Have dinner"
)
TRIP = f"Day 1:\n{DAY}\n\nDay 2: The sea\n{DAY}\n\nDay 3:\n{DAY}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("square_poem", POEM),
        ("square_poem", POEM + "\n"),
        ("square_poem", "\n\n".join([f"{LINE} --"] * 8)),
        ("square_poem", "\n".join(["Don't let the sea-green boat go home, love!"] * 8)),
        ("grant_abstract", abstract(75)),
        ("grant_abstract", abstract(99)),
        ("grant_abstract", abstract(80, "ecological scientists")),
        ("ingredients_list", INGREDIENTS.replace("10.00", "10.00 USD")),
        ("ingredients_list", INGREDIENTS),
        ("ingredients_list", "Ingredients:\n\n- eggs $17.99"),
        ("trip_itinerary", TRIP),
        ("trip_itinerary", TRIP.replace("\n\n", "\n \n\n")),
        ("trip_itinerary", TRIP.replace("20:00", "23:59")),
    ],
)
def test_right_answers_pass(name: str, text: str) -> None:
    verdict = verify_puzzle(name, text)
    assert verdict.passed and verdict and verdict.reason == ""


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("square_poem", "", "0 lines"),
        ("square_poem", "A Title\n" + POEM, "9 lines"),
        ("square_poem", POEM + " now", "line 8 has 9 words"),
        ("square_poem", POEM.replace(" sea", "-sea", 1), "line 1 has 7 words"),
        ("grant_abstract", "", "start"),
        ("grant_abstract", abstract(80).removeprefix("Abstract: "), "start"),
        ("grant_abstract", " " + abstract(80), "start"),
        ("grant_abstract", "Abstract: <YOUR ABSTRACT>", "2 words"),
        ("grant_abstract", abstract(74), "74 words"),
        ("grant_abstract", abstract(100), "100 words"),
        ("grant_abstract", abstract(80, "Habitats"), "habitat"),
        ("grant_abstract", abstract(80, "environmental"), "environment"),
        ("grant_abstract", abstract(80, "societies"), "society"),
        ("grant_abstract", abstract(80, "AFRICAN"), "africa"),
        ("ingredients_list", "", "start"),
        ("ingredients_list", "Ingredients:", "0 ingredients"),
        ("ingredients_list", "Ingredients: eggs\n- eggs $1.00", "more than that"),
        ("ingredients_list", "Ingredients:\n" + "- an egg $1.00\n" * 8, "8 ingredients"),
        ("ingredients_list", "Ingredients:\n* eggs $1.00", "- "),
        ("ingredients_list", "Ingredients:\n- eggs $1", "price"),
        ("ingredients_list", "Ingredients:\n- eggs 1.00", "price"),
        ("ingredients_list", "Ingredients:\n- eggs $1.005", "price"),
        ("ingredients_list", "Ingredients:\n- eggs $1.00 or $2.00", "price"),
        ("ingredients_list", "Ingredients:\n- $1.00 USD", "no name"),
        ("ingredients_list", INGREDIENTS.replace("1.50", "1.51"), r"\$18.00, not less"),
        ("ingredients_list", INGREDIENTS + "\nTotal: $17.99", "ingredient 4"),
        ("ingredients_list", "Sure!\n" + INGREDIENTS, "start"),
        ("trip_itinerary", "", "start"),
        ("trip_itinerary", "Here it is\n\n" + TRIP, "start"),
        ("trip_itinerary", TRIP.replace("\n\n", "\n", 1), "2 blocks"),
        ("trip_itinerary", TRIP + "\n\nHave fun!", "4 blocks"),
        ("trip_itinerary", TRIP.replace("Day 2", "Day 4"), "block 2"),
        ("trip_itinerary", TRIP.replace("\n[18:00-20:00] Have dinner", "", 1), "3 activities"),
        ("trip_itinerary", TRIP + "\nSleep well", "time range"),
        ("trip_itinerary", TRIP.replace("07:00", "7:00"), "time range"),
        ("trip_itinerary", TRIP.replace("20:00", "24:00"), "time range"),
        ("trip_itinerary", TRIP.replace("20:00", "18:60"), "time range"),
        ("trip_itinerary", TRIP.replace("] Have dinner", "] "), "time range"),
        ("trip_itinerary", TRIP.replace("20:00", "18:00"), "duration"),
        ("trip_itinerary", TRIP.replace("09:00]", "09:01]"), "overlaps"),
        ("trip_itinerary", TRIP + "\n[16:00-17:00] Rest", "out of order"),
        (
            "trip_itinerary",
            TRIP.replace("07:00", "00:00").replace("13:00", "12:30").replace("20:00", "20:01"),
            "day 1: 1021 minutes",
        ),
    ],
)
def test_wrong_answers_fail_with_their_fault(name: str, text: str, reason: str) -> None:
    verdict = verify_puzzle(name, text)
    assert not verdict
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(verdict.reason)


def test_a_day_of_fifteen_busy_hours_is_the_limit() -> None:
    day = "[06:00-12:00] A\n[12:00-15:00] B\n[15:00-18:00] C\n[20:00-23:00] D"
    trip = f"Day 1:\n{day}\n\nDay 2:\n{day}\n\nDay 3:\n{day}"
    assert verify_puzzle("trip_itinerary", trip)
    assert not verify_puzzle("trip_itinerary", trip.replace("20:00", "19:59"))


@pytest.mark.parametrize("term", BANNED_TERMS)
def test_every_banned_term_is_found(term: str) -> None:
    assert term in PUZZLES["grant_abstract"].prompt
    assert not verify_puzzle("grant_abstract", abstract(80, f"({term.upper()})"))


def test_an_unknown_puzzle_is_refused() -> None:
    with pytest.raises(EvaluationError, match="square_poem"):
        verify_puzzle("sudoku", "")
