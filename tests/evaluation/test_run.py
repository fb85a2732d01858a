"""The evaluation's runs and log, with a follower that needs no model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from disciple_ext.errors import EvaluationError, FollowerError, UsageError
from disciple_ext.evaluation.logs import lines
from disciple_ext.evaluation.logs import log as logs
from disciple_ext.evaluation.logs.log import LogWriter, Row, Sample, read_log, read_run
from disciple_ext.evaluation.run import evaluate
from disciple_ext.evaluation.scores.metrics import summarise
from disciple_ext.protocol.requests import Draw, Drawn, Request, Score, Tokens
from disciple_ext.protocol.vocabulary import Vocabulary
from disciple_ext.testing import ScriptedFollower

TEXTS = (b" Hello there. ", b"Hello")


class TwoTexts:
    """Writes one of two texts, as its first draw falls out; fails on prompts with "fail"."""

    name = "two-texts"
    max_context = None

    def __init__(self) -> None:
        tokens = [b"<end>", *TEXTS, *(bytes([i]) for i in range(32, 127))]
        self.vocabulary = Vocabulary(tokens, eos=[0], encode=lambda t: [ord(c) - 29 for c in t])
        self.asked: list[str] = []

    def prompt(self, user: str, hint: str = "") -> Tokens:
        self.asked.append(user)
        return (2,) if "fail" in user else (1,)

    async def ask(self, request: Request) -> Any:
        if isinstance(request, Score):
            return tuple(-0.5 for _ in request.tokens)
        assert isinstance(request, Draw)
        if request.proposal.tokens[0] == 2:
            raise FollowerError("the model is broken")
        first = len(request.proposal) == 1
        return Drawn((1 if request.u < 0.5 else 2) if first else 0, -0.1, 0.0, -0.1)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three sentences of 12 characters, the second broken, and a paragraph."""
    rows = [
        ("s/0", "sent_01", "Write.", 12),
        ("s/1", "sent_01", "Please fail.", 12),
        ("s/2", "sent_01", "Write.", 5),
        ("p/0", "para_01", "Write.", "Hello"),
    ]
    names = ("id", "task", "prompt", "targets")
    lines = [
        json.dumps(dict(zip(names, row, strict=True)) | {"corpus": "", "example": ""})
        for row in rows
    ]
    (tmp_path / "wiki.jsonl").write_text("\n".join(lines))
    return tmp_path / "wiki.jsonl"


def run(data: Path, out: Path, **options: Any) -> list[Row]:
    return evaluate(["follower"], out=out, data=data, follower=TwoTexts(), **options)


def test_each_run_is_a_line(data: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    out = tmp_path / "out"
    rows = run(data, out, on_progress=lambda row, done, total: seen.append((row.id, done, total)))
    assert seen == [("s/0", 1, 4), ("s/1", 2, 4), ("s/2", 3, 4), ("p/0", 4, 4)]
    assert rows == read_log(out)
    first = json.loads((out / "results.jsonl").read_text().splitlines()[0])
    assert set(first) == {
        *("id", "task", "method", "n", "seed", "seconds", "samples", "pass_at_1", "attempts"),
        *("error", "program_hash", "usage", "cost"),
    }
    assert set(first["samples"][0]) == {
        *("text", "log_weight", "check", "passed", "finish_reason", "tokens", "log_prob"),
    }
    by_id = {row.id: row for row in rows}
    assert [by_id[name].n for name in ("s/0", "p/0")] == [32, 8]
    sentence = by_id["s/0"]
    texts = {sample.text for sample in sentence.samples}
    assert texts == {"Hello there.", "Hello"}, "stripped of the space around it"
    share = sum(sample.text == "Hello there." for sample in sentence.samples) / 32
    assert sentence.pass_at_1 == pytest.approx(share)
    assert all(s.passed == (s.text == "Hello there.") for s in sentence.samples)
    assert all(s.log_weight is None for s in sentence.samples)
    assert all(s.log_prob == pytest.approx(-0.5 * len(s.text)) for s in sentence.samples)
    assert by_id["p/0"].pass_at_1 == 1.0
    assert sentence.program_hash and sentence.attempts[0]["outcome"] == "ok"


def test_an_error_is_a_typed_row_and_ends_nothing(data: Path, tmp_path: Path) -> None:
    rows = {row.id: row for row in run(data, tmp_path / "out")}
    assert rows["s/1"].error == {"type": "FollowerError", "message": "the model is broken"}
    assert rows["s/1"].pass_at_1 == 0.0 and rows["s/1"].samples == ()
    assert rows["s/2"].error is None
    assert summarise(rows.values()).errors == {"follower": 1}


def test_run_json_says_what_it_was_made_with(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out", n=4, seed=3, limit=1)
    about = read_run(tmp_path / "out")
    assert about is not None
    assert {"versions", "weights", "command", "splitter", "tokenizer", "data"} <= set(about)
    assert (about["n"], about["seed"], about["follower"]) == (4, 3, "two-texts")
    assert about["limit"] == 1 and about["methods"] == ["follower"]


def test_tasks_and_limit_choose_instances(data: Path, tmp_path: Path) -> None:
    rows = run(data, tmp_path / "a", tasks=["sent_01"], limit=2)
    assert [row.id for row in rows] == ["s/0", "s/1"]
    assert [row.id for row in run(data, tmp_path / "b", tasks=["para_01"])] == ["p/0"]


def test_a_part_gives_the_same_rows_as_the_whole_in_any_order(data: Path, tmp_path: Path) -> None:
    whole = {row.id: row.samples for row in run(data, tmp_path / "a", concurrency=3)}
    (part,) = run(data, tmp_path / "b", tasks=["para_01"])
    assert part.samples == whole["p/0"]
    (other,) = run(data, tmp_path / "c", tasks=["para_01"], seed=1)
    assert other.seed != part.seed


def test_a_method_with_options_is_logged_as_it_was_given(data: Path, tmp_path: Path) -> None:
    methods = ["smc:ess_threshold=0", "smc:ess_threshold=1,scheme=systematic"]
    options: dict[str, Any] = {"out": tmp_path / "out", "data": data, "follower": TwoTexts()}
    rows = evaluate(methods, tasks=["para_01"], **options)
    assert [row.method for row in rows] == methods
    assert set(summarise(rows).scores) == set(methods)
    again = evaluate(["is", *methods], tasks=["para_01"], resume=True, **options)
    assert [row.method for row in again] == [*methods, "is"]


def test_an_interrupted_log_is_whole_and_is_gone_on_with(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def interrupt(row: Row, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(data, out, on_progress=interrupt)
    assert [row.id for row in read_log(out)] == ["s/0", "s/1"]
    with pytest.raises(UsageError, match="--resume"):
        run(data, out)
    with (out / "results.jsonl").open("a") as file:
        file.write('{"id": "s/2", "task": "se')  # torn by a kill
    assert len(read_log(out)) == 2
    seen: list[str] = []
    rows = run(data, out, resume=True, on_progress=lambda row, done, total: seen.append(row.id))
    assert seen == ["s/2", "p/0"]
    assert [row.id for row in rows] == ["s/0", "s/1", "s/2", "p/0"]
    about = read_run(out)
    assert about is not None and len(about["earlier"]) == 1


def test_a_log_does_not_mix_settings(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out", limit=1)
    with pytest.raises(EvaluationError, match="seed was 0, and is 1"):
        run(data, tmp_path / "out", resume=True, seed=1)
    run(data, tmp_path / "out", resume=True)  # more instances are no other setting
    assert len(read_log(tmp_path / "out")) == 4


def test_a_log_does_not_mix_base_measures(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def measured(**options: Any) -> dict[str, Any]:
        follower = ScriptedFollower("Hello there.", words=False)
        evaluate(["follower"], out=out, data=data, follower=follower, n=2, **options)
        about = read_run(out)
        assert about is not None
        found: dict[str, Any] = about["measure"]
        return found

    assert measured(limit=1, measure={"temperature": 0.9})["prior"]["temperature"] == 0.9
    with pytest.raises(EvaluationError, match="measure was"):
        measured(resume=True)
    measured(resume=True, measure={"temperature": 0.9})
    # A log of before there was a choice was made by the model as it is.
    about = json.loads((out / "run.json").read_text())
    del about["measure"]
    (out / "run.json").write_text(json.dumps(about))
    with pytest.raises(EvaluationError, match="measure was"):
        measured(resume=True, measure={"temperature": 0.9})
    measured(resume=True)


def test_a_follower_that_only_answers_takes_no_measure(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'two-texts' answers requests by itself"):
        run(data, tmp_path / "out", measure={"temperature": 0.9})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["nonsense"]}, "unknown method 'nonsense'; there are: .*follower"),
        ({"methods": ["nonsense:a=1"]}, "unknown method 'nonsense:a=1'"),
        ({"methods": ["is", "smc:ess=1"]}, "'smc' has no option 'ess'"),
        ({"methods": ["follower:a=1"]}, "'follower' takes no options"),
        ({"methods": []}, "at least one method"),
        ({"methods": ["smc"], "tasks": ["sent_99"]}, "unknown task 'sent_99'"),
        ({"methods": ["smc"], "limit": 0}, "limit must be at least 1"),
        ({"methods": ["smc"], "n": 0}, "n must be at least 1"),
        ({"methods": ["smc"], "follower": "nonsense"}, "unknown follower"),
    ],
)
def test_bad_arguments_are_told_before_anything_is_written(
    options: dict[str, Any], message: str, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        evaluate(out=tmp_path / "out", data=data, **options)
    assert not (tmp_path / "out").exists()


def test_rows_survive_the_file() -> None:
    dead = Sample("a\n\u00e9", -math.inf, None, False, "max_tokens", 3, None)
    row = Row("x", "sent_01", "smc", 1, 2, 0.5, (dead,), 0.0, usage={"forwards": 1})
    assert "\n" not in row.to_json() and '"-inf"' in row.to_json()
    assert Row.from_json(row.to_json()) == row


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / logs.RESULTS).write_text('{"id": 1}\n')
    with pytest.raises(EvaluationError, match="results.jsonl:1 is no row"):
        read_log(tmp_path)
    with pytest.raises(EvaluationError, match="there is no log"):
        read_log(tmp_path / "none")


def test_a_full_disk_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path)
    row = Row("x", "sent_01", "smc", 1, 2, 0.5)
    writer.append(row)
    real = lines.os.write
    calls = 0

    def full(file: int, part: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            return real(file, part[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lines.os, "write", full)
    with pytest.raises(EvaluationError, match="No space left"):
        writer.append(row)
    monkeypatch.undo()
    assert (tmp_path / logs.RESULTS).read_text() == row.to_json() + "\n"
    writer.append(row)
    assert len(read_log(tmp_path)) == 2


@pytest.mark.slow
def test_expert_programs_pass_one_instance_of_each_type(collie_dir: Path, tmp_path: Path) -> None:
    rows = evaluate(["smc"], out=tmp_path / "out", limit=1)
    assert len(rows) == 9
    assert [(r.id, r.error) for r in rows if r.error] == []
    assert summarise(rows).scores["smc"]["all"] >= 0.97
