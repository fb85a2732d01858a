"""The suite as disciple-ext sees it."""

from __future__ import annotations

import disciple_keywords
import pytest

from disciple_ext.evaluation.logs.log import Row
from disciple_ext.evaluation.run import evaluate
from disciple_ext.evaluation.suites.base import Instance
from disciple_ext.testing import ScriptedFollower


@pytest.mark.parametrize(
    ("word", "kind", "expected"),
    [
        ("catch", "verb", ["catch", "catches", "caught", "catching"]),
        ("sit", "verb", ["sit", "sits", "sat", "sitting"]),
        ("see", "verb", ["see", "sees", "saw", "seen", "seeing"]),
        ("play", "verb", ["play", "plays", "played", "playing"]),
        ("carry", "verb", ["carry", "carries", "carried", "carrying"]),
        ("chase", "verb", ["chase", "chases", "chased", "chasing"]),
        ("fish", "noun", ["fish", "fishes"]),
        ("family", "noun", ["family", "families"]),
        ("boy", "noun", ["boy", "boys"]),
        ("child", "noun", ["child", "children"]),
    ],
)
def test_forms(word: str, kind: str, expected: list[str]) -> None:
    assert disciple_keywords.forms(word, kind) == expected


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("A man caught the ball.", True),
        ("Catching balls is fun!", True),
        ("A man caught the ball. It fell.", False),
        ("A man caught it.", False),
        ("The ballroom is a catchword.", False),
        ("", False),
    ],
)
def test_the_ground_truth(text: str, passes: bool) -> None:
    task = Instance("x", "concepts_2", "", targets=[("ball", "noun"), ("catch", "verb")])
    assert disciple_keywords.verify(task, text) is passes


def test_an_evaluation(tmp_path) -> None:
    data = tmp_path / "sets.txt"
    data.write_text("dog_N catch_V ball_N\n")
    rows: list[Row] = evaluate(
        ["follower"],
        out=tmp_path / "out",
        suite=disciple_keywords.suite(),
        data=data,
        follower=ScriptedFollower("The dog catches a ball."),
        n=2,
    )
    assert [(row.id, row.pass_at_1) for row in rows] == [("concepts_3/000", 1.0)]
