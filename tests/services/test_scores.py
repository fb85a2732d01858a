"""Scores as potentials: plain Python, steps, and a classifier."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from disciple_ext.errors import FollowerError, UsageError
from disciple_ext.registry.plugins import load_plugins
from disciple_ext.services import Reward, Score, Scored, Steps


def sent(text: str, about: str = "", ended: bool = False) -> dict[str, Any]:
    return {"text": text, "tokens": [], "ended": ended, "about": about}


def test_a_score_is_divided_by_its_temperature() -> None:
    assert Score(len, 4.0).batch([sent("ab"), sent("")]) == [0.5, 0.0]
    assert Score(lambda t, a: t.count(a), about=True).batch([sent("abab", "b")]) == [2.0]
    assert Score(lambda t: -math.inf).batch([sent("x")]) == [-math.inf]
    for wrong in (0, -1.0, math.nan, "hot"):
        with pytest.raises(UsageError, match="a temperature is a number above 0"):
            Score(len, wrong)  # type: ignore[arg-type]
    for score in (math.nan, math.inf):
        with pytest.raises(ValueError, match="give a finite one"):
            Score(lambda t, s=score: s).batch([sent("x")])
    with pytest.raises(ValueError, match="programs ask it by"):
        Score(len).batch(["a text"])


def test_each_finished_step_is_scored_once_and_knows_what_was_before() -> None:
    seen: list[Scored] = []

    class Watching(Score):
        def scores(self, texts: Any) -> list[float]:
            seen.extend(texts)
            return super().scores(texts)

    steps = Steps(Watching(len, 2.0))
    assert steps.batch([sent("ab\n\ncd"), sent("ab\n\ncd\n"), sent("ab\n\ncd", ended=True)]) == [
        1.0, 2.0, 2.0]  # fmt: skip
    assert seen == [Scored("ab", "", True), Scored("cd", "ab\n\n", True)]
    steps.batch([sent("ab\nx", "problem")])
    assert seen[2:] == [Scored("ab", "problem\n", True)]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny classifier of random weights, with the tokenizer of the embedded follower."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForSequenceClassification

    import disciple_ext.follower

    home = Path(disciple_ext.follower.__file__).parent / "embedded"
    folder = tmp_path_factory.mktemp("classifier")
    tokenizer = AutoTokenizer.from_pretrained(home)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=64, num_labels=2,
        pad_token_id=tokenizer.pad_token_id, id2label={0: "bad", 1: "good"},
    )  # fmt: skip
    LlamaForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_classifier_scores_by_the_log_probability_of_its_label(classifier: Path) -> None:
    good, bad = Reward(str(classifier)), Reward(str(classifier), label="bad", rows=2)
    texts = [sent("A cat."), sent("The dog runs home.", "a dog"), sent("word " * 200)]
    for log_good, log_bad in zip(good.batch(texts), bad.batch(texts), strict=True):
        assert math.exp(log_good) + math.exp(log_bad) == pytest.approx(1.0, abs=1e-5)
    alone = [good.batch([text])[0] for text in texts]
    assert good.batch(texts) == pytest.approx(alone, abs=1e-5)  # padding changes nothing
    assert len(set(alone)) == 3
    spec = load_plugins(installed=False).make("services", f"steps:{classifier},temperature=0.5")
    two = spec.batch([sent("A cat.\nA dog.\n", "pets")])[0]
    cat, dog = sent("A cat.", "pets\n", True), sent("A dog.", "pets\nA cat.\n", True)
    assert two == pytest.approx(2 * sum(good.batch([cat, dog])), abs=1e-4)
    with pytest.raises(UsageError, match="no label 'fine'; there are: bad, good"):
        Reward(str(classifier), label="fine")
    with pytest.raises(FollowerError, match="cannot be loaded"):
        Reward(str(classifier / "none"))
