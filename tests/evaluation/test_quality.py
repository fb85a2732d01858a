"""Fluency measures on texts and models small enough to reckon by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from disciple_ext.errors import EvaluationError, UsageError
from disciple_ext.evaluation.logs.log import LogWriter, Row, Sample
from disciple_ext.evaluation.methods.scoring import score_texts
from disciple_ext.evaluation.scores.quality import drawn_answer, measure, unselected
from disciple_ext.evaluation.scores.word_list import Spans, WordList, outside
from disciple_ext.evaluation.suites.collie import prescribed_words
from disciple_ext.protocol.requests import Draw, Drawn, Request, Score, Tokens
from disciple_ext.protocol.vocabulary import Vocabulary

WORDS = WordList(frozenset({"the", "cat", "sat", "London", "don't"}))


class LetterFollower:
    """Characters as tokens: "a" costs 1 nat, "b" 2 nats, all others 3; it draws "b" and ends."""

    name = "letters"
    max_context = None

    def __init__(self) -> None:
        tokens = [b"<end>", *(bytes([i]) for i in range(32, 127))]
        self.vocabulary = Vocabulary(tokens, eos=[0], encode=lambda t: [ord(c) - 31 for c in t])
        self.prompts: list[str] = []

    def prompt(self, user: str, hint: str = "") -> Tokens:
        self.prompts.append(user)
        return (1,)

    async def ask(self, request: Request) -> Any:
        if isinstance(request, Score):
            return tuple(self._nats(token) for token in request.tokens)
        assert isinstance(request, Draw)
        token = ord("b") - 31 if len(request.proposal) == 1 else 0
        return Drawn(token, 0.0, 0.0, 0.0)

    @staticmethod
    def _nats(token: int) -> float:
        return {ord("a") - 31: -1.0, ord("b") - 31: -2.0}.get(token, -3.0)


def test_prescribed_words_are_what_a_task_demands() -> None:
    assert prescribed_words("sent_01", 82) == ()
    assert prescribed_words("sent_02", [11, ["Series", "and", "4"]]) == ("Series", "and", "4")
    assert prescribed_words("sent_04", "dog") == ("dog",)
    assert prescribed_words("para_01", "He") == ("He",)
    assert prescribed_words("para_02", [3, "be", "is"]) == ()
    assert prescribed_words("para_05", [1, ["Ohio"]]) == ("Ohio",)


def test_spans_are_whole_occurrences_in_any_case() -> None:
    text = "The cat sat on the cathedral, Cat."
    assert Spans.of(text, ["cat"]).ranges == ((4, 7), (30, 33))
    assert Spans.of("No. 4 and 40", ["4"]).ranges == ((4, 5),)
    assert Spans.of("the U.S. and", ["U.S."]).ranges == ((4, 8),)
    assert Spans.of(text, []).ranges == ()


def test_the_share_of_real_words() -> None:
    share = WORDS.share("The London cat's xyzzy don't sat 42.", Spans.of("", []))
    assert share == pytest.approx(5 / 6)
    left_out = Spans.of("The xyzzy cat", ["xyzzy"])
    assert WORDS.share("The xyzzy cat", left_out) == 1.0
    assert WORDS.share("42!", Spans(())) is None


def test_a_missing_word_list_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--words"):
        WordList.read(tmp_path / "none")
    listed = tmp_path / "words"
    listed.write_text("cat\ndog\n")
    assert "Dog" in WordList.read(listed)


async def test_tokens_are_scored_with_their_places() -> None:
    (first, empty) = await score_texts(LetterFollower(), [("p", "ab ab"), ("p", "")])
    assert [token.log_prob for token in first] == [-1.0, -2.0, -3.0, -1.0, -2.0]
    assert [(t.start, t.end) for t in first] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert [t.start for t in outside(Spans(((0, 2),)), first)] == [2, 3, 4]
    assert empty == ()


def sample(text: str, log_weight: float | None, check: bool | None = True) -> Sample:
    return Sample(text, log_weight, check, True, "ended", 3, None)


def row(name: str, task: str, *samples: Sample) -> Row:
    return Row(name, task, "smc", len(samples), 7, 1.0, tuple(samples), 1.0)


def test_the_answer_is_drawn_among_passing_samples() -> None:
    dead, failed = sample("dead", -math.inf), sample("failed", 5.0, check=False)
    assert drawn_answer(row("x", "sent_01", dead, failed, sample("good", -9.0))) == "good"
    assert drawn_answer(row("x", "sent_01", dead, failed)) == "failed"
    assert drawn_answer(row("x", "sent_01", dead)) is None
    rows = [row(f"{i:03}", "sent_01", sample(str(i), 0.0)) for i in range(40)]
    assert [text for _, text in unselected(rows)] == [str(i) for i in range(0, 40, 2)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two tasks: "ab" and "aa" with weights 1 and 3; and "bb" with the prescribed word "aa"."""
    data = [
        {"id": "s/0", "task": "sent_01", "targets": 2},
        {"id": "p/0", "task": "para_01", "targets": "aa"},
    ]
    lines = [json.dumps(d | {"corpus": "", "prompt": "p", "example": ""}) for d in data]
    (tmp_path / "wiki.jsonl").write_text("\n".join(lines))
    (tmp_path / "words").write_text("aa\nbb\n")
    writer = LogWriter(tmp_path / "log")
    writer.append(row("s/0", "sent_01", sample("ab", 0.0), sample("aa", math.log(3.0))))
    writer.append(row("p/0", "para_01", sample("aa bb", 0.0), sample("zzz", -math.inf)))
    writer.close()
    return tmp_path


def test_measures_are_weighted_like_pass_at_1(log: Path) -> None:
    follower = LetterFollower()
    quality = measure(log / "log", words=log / "words", data=log / "wiki.jsonl", follower=follower)
    # "ab" has -1.5 a token, "aa" -1: by weight -1.125. " bb" without "aa": (-3 - 2 - 2) / 3.
    assert quality.nats["answers"] == {
        "sent_01": pytest.approx(-1.125),
        "para_01": pytest.approx(-7 / 3),
        "sentences": pytest.approx(-1.125),
        "paragraphs": pytest.approx(-7 / 3),
        "all": pytest.approx((-1.125 - 7 / 3) / 2),
    }
    assert quality.words["answers"]["sent_01"] == pytest.approx(3 / 4)
    assert quality.words["answers"]["para_01"] == 1.0
    # Every unconstrained sample is "b".
    assert quality.nats["samples"]["all"] == pytest.approx(-2.0)
    assert quality.words["samples"]["all"] == 0.0
    assert {"Write a sentence.", "Write a paragraph."} <= set(follower.prompts)
    assert quality.shown[0][0] == "s/0" and quality.shown[1] == ("p/0", "aa bb")
    assert "| all | -1.73 | -2.00 | 0.27 | 87.5% | 0.0% |" in quality.report()
    json.dumps(quality.to_dict(), allow_nan=False)


def test_a_method_without_answers_is_an_error(log: Path) -> None:
    with pytest.raises(EvaluationError, match="no answer of the method 'rs'"):
        measure(log / "log", method="rs", words=log / "words", data=log / "wiki.jsonl")
