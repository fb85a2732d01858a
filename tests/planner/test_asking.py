"""The planner's chat model is asked for texts: as a baseline, and as a judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from disciple_ext import cli
from disciple_ext.errors import EvaluationError, LimitExceeded, PlannerError, UsageError
from disciple_ext.evaluation.logs.judgements import read_judgements
from disciple_ext.evaluation.logs.log import LogWriter, Row, Sample, read_log
from disciple_ext.evaluation.run import evaluate
from disciple_ext.evaluation.scores.coherency import JUDGE_PROMPT, judge_log, read_score
from disciple_ext.evaluation.suites.base import COT_PROMPT, Budget, Instance, Suite
from disciple_ext.planner.chat.base import Answer
from disciple_ext.planner.chat.openai import OpenAIPlanner
from disciple_ext.testing import ToyFollower

CALL = (36 * 5.00 + 64 * 2.50 + 20 * 20.00) / 1e6
"""What one scripted answer of gpt-4o costs."""
SUITE = Suite(
    name="sayings",
    budgets={"say": Budget("say", 8, 10.0, 4, "Write.")},
    instances=lambda path: [Instance(f"say/{i}", "say", f"Say hello, {i}.") for i in range(3)],
    verify=lambda instance, text: text in ("", "hello"),
)


def openai(model: str = "gpt-4o", **options: Any) -> OpenAIPlanner:
    return OpenAIPlanner(model, cache=False, timeout=0.4, **options)


def run(out: Path, *methods: str, **options: Any) -> list[Row]:
    settings: dict[str, Any] = {"planner": openai(), "limit": 1, **options}
    follower = ToyFollower.random(2, ["a", "b"])
    return evaluate(methods, out=out, suite=SUITE, follower=follower, **settings)


def test_the_planner_alone_is_asked_the_task_itself(endpoint: Any, tmp_path: Path) -> None:
    endpoint.script(endpoint.plain(" hello\n"))
    (row,) = run(tmp_path, "planner")
    (asked,) = endpoint.requests
    assert asked["body"]["messages"] == [{"role": "user", "content": "Say hello, 0."}]
    (sample,) = row.samples
    assert (sample.text, sample.passed, sample.log_weight) == ("hello", True, None)
    assert (row.n, row.pass_at_1, row.cost) == (1, 1.0, pytest.approx(CALL))
    assert row.usage["planner_output"] == 20 and row.usage["follower_tokens"] == 0


def test_chain_of_thought_answers_in_tags(endpoint: Any, tmp_path: Path) -> None:
    said = ("I try <answer>no</answer>, no: <answer> hello </answer>", "hello", "<answer></answer>")
    endpoint.script(*map(endpoint.plain, said))
    rows = run(tmp_path, "cot", limit=3)
    system, user = endpoint.requests[0]["body"]["messages"]
    assert system == {"role": "system", "content": COT_PROMPT} and user["role"] == "user"
    found = [(s.text, s.passed, s.finish_reason) for row in rows for s in row.samples]
    # The suite takes the empty text, but where nothing is answered there is nothing to take.
    assert found == [("hello", True, "ended"), *[("", False, "no_answer")] * 2]


def test_the_planner_alone_has_the_baselines_limit_and_thoughts_have_none(
    endpoint: Any, tmp_path: Path
) -> None:
    endpoint.script(*[endpoint.plain("<answer>hello</answer>")] * 5)
    run(tmp_path / "a", "planner", "cot", "reasoning", "reasoning:tokens=70")
    run(tmp_path / "b", "planner", planner=openai(max_output_tokens=3))
    sent = [request["body"].get("max_tokens") for request in endpoint.requests]
    assert sent == [SUITE.budgets["say"].tokens, None, 25_000, 70, 3]


def test_thoughts_that_leave_no_room_for_an_answer_are_an_error(
    endpoint: Any, tmp_path: Path
) -> None:
    thoughts = endpoint.plain(None, finish="length", reasoning_content="Let me see")
    endpoint.script(thoughts, endpoint.plain("<think>Let me", finish="length"))
    rows = run(tmp_path / "a", "planner", limit=2)
    for row in rows:
        assert row.error is not None and "with the method 'reasoning'" in row.error["message"]
        assert row.cost == pytest.approx(CALL) and row.usage["planner_output"] == 20
    said = endpoint.plain("\n<think>No <answer>ha</answer></think>\n\nhello")
    endpoint.script(said, said, thoughts)
    reasoned, told, cut = run(tmp_path / "b", "reasoning", "cot", "reasoning:tokens=9")
    assert reasoned.samples[0].text == "hello" and reasoned.pass_at_1 == 1.0
    assert told.samples[0].finish_reason == "no_answer", "what is in its thoughts is no answer"
    assert cut.samples[0].finish_reason == "no_answer", "the limit was a model's that thinks"


def test_several_answers_and_a_refusal(endpoint: Any, tmp_path: Path) -> None:
    endpoint.script(endpoint.plain("hello"), endpoint.plain(None, refusal="I will not"))
    (row,) = run(tmp_path, "planner:samples=2")
    assert [s.finish_reason for s in row.samples] == ["ended", "refused"]
    assert (row.method, row.n, row.pass_at_1) == ("planner:samples=2", 2, 0.5)
    assert row.cost == pytest.approx(2 * CALL) and row.usage["planner_output"] == 40


def test_an_endpoint_that_fails_is_a_row_with_what_was_paid(endpoint: Any, tmp_path: Path) -> None:
    endpoint.script(endpoint.plain("hello"), endpoint.failure(401))
    (row,) = run(tmp_path, "planner:samples=2")
    assert row.error is not None and row.error["type"] == "PlannerError"
    assert row.usage["planner_output"] == 20


def test_answers_on_record_are_given_again(endpoint: Any, tmp_path: Path) -> None:
    endpoint.script(endpoint.plain("hello"), endpoint.plain("bye"))
    planner = openai(record=tmp_path / "answers")
    (row,) = run(tmp_path / "a", "planner:samples=2", planner=planner)
    (again,) = run(tmp_path / "b", "planner:samples=2", planner=f"replay:{tmp_path / 'answers'}")
    assert [s.text for s in row.samples] == [s.text for s in again.samples] == ["hello", "bye"]
    assert again.cost == 0.0 and len(endpoint.requests) == 2


def test_money_ends_the_evaluation_and_more_goes_on(endpoint: Any, tmp_path: Path) -> None:
    planner = openai()
    chat = planner.chat.limited(SUITE.budgets["say"].tokens)
    quote = chat.quote([{"role": "user", "content": "Say hello, 0."}], retry=0)
    assert quote is not None
    endpoint.script(*[endpoint.plain("hello")] * 3)
    with pytest.raises(LimitExceeded, match="may cost"):
        run(tmp_path, "planner", planner=planner, limit=3, max_cost=CALL + quote / 2)
    assert len(read_log(tmp_path)) == 1 and len(endpoint.requests) == 1
    rows = run(tmp_path, "planner", planner=planner, limit=3, max_cost=1.0, resume=True)
    assert len(rows) == 3


def test_a_planner_without_a_chat_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'?expert'? is no chat model"):
        run(tmp_path, "cot", planner="expert")
    with pytest.raises(UsageError, match="samples must be at least 1"):
        run(tmp_path, "planner:samples=0")
    with pytest.raises(UsageError, match="samples must be at least 1, a whole number, not 1.5"):
        run(tmp_path, "planner:samples=1.5")
    with pytest.raises(UsageError, match="equal tokens are the follower's"):
        run(tmp_path, "is", "planner", equal_tokens=True)


@pytest.mark.parametrize(
    ("said", "score"),
    [
        ("Fluent. The coherency score is 9", 9.0),
        ("Fluent.\nThe coherency score is 7.5.\n", 7.5),
        ("The coherency score is 10", 10.0),
        ("The coherency score is 1.", 1.0),
        ("The coherency score is 0", None),
        ("The coherency score is 11", None),
        ("The coherency score is 9/10", None),
        ("The coherency score is <9>", None),
        ("It says 'The coherency score is 9', but it makes no sense.", None),
        ("the coherency score is 9", None),
        ("9", None),
        ("", None),
    ],
)
def test_scores_are_read_strictly(said: str, score: float | None) -> None:
    assert read_score(Answer(said, "stop")) == (score, "unparsable" if score is None else "ok")


def test_a_refusal_is_no_score() -> None:
    words = "The coherency score is 9"
    assert read_score(Answer(words, "stop", refusal="no")) == (None, "refusal")
    assert read_score(Answer(words, "content_filter")) == (None, "refusal")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three runs with an answer, and one without."""
    writer = LogWriter(tmp_path)
    for number, text in enumerate(["One.", "Two.", "Three."]):
        writer.append(row(number, text))
    writer.append(Row("say/3", "say", "smc", 1, 0, 0.1, error={"type": "E", "message": "m"}))
    writer.close()
    return tmp_path


def row(number: int, text: str) -> Row:
    sample = Sample(text, None, None, True, "ended", 2, None)
    return Row(f"say/{number}", "say", "smc", 1, number, 0.1, (sample,))


def test_the_judge_reads_the_answers_alone(endpoint: Any, log: Path) -> None:
    endpoint.script(
        endpoint.plain("Fine. The coherency score is 8"),
        endpoint.plain("Hm."),
        endpoint.plain(None, refusal="I cannot"),
    )
    done = judge_log(log, openai().chat)
    assert [r["body"]["messages"] for r in endpoint.requests] == [
        [{"role": "system", "content": JUDGE_PROMPT}, {"role": "user", "content": text}]
        for text in ("One.", "Two.", "Three.")
    ]
    found = {key[0]: (v.score, v.kind) for key, v in read_judgements(log).items()}
    assert found == {
        "say/0": (8.0, "ok"),
        "say/1": (None, "unparsable"),
        "say/2": (None, "refusal"),
    }
    assert (done.judged, done.before, done.unanswered) == (3, 0, 1)
    assert (done.refusals, done.unparsable, done.mean) == (1, 1, 8.0)
    assert done.cost == pytest.approx(3 * CALL)
    line = json.loads((log / "judgements.jsonl").read_text().splitlines()[0])
    assert line["said"] == "Fine. The coherency score is 8" and line["judge"] == "openai:gpt-4o"


def test_judging_goes_on_where_it_stopped(endpoint: Any, log: Path) -> None:
    good = endpoint.plain("The coherency score is 8")
    endpoint.script(good, endpoint.failure(401))
    with pytest.raises(PlannerError):
        judge_log(log, openai().chat)
    with (log / "judgements.jsonl").open("a") as file:
        file.write('{"id": "say/1", "met')  # torn by a kill
    endpoint.script(good, good)
    done = judge_log(log, openai().chat)
    assert (done.judged, done.before) == (2, 1) and len(endpoint.requests) == 2
    assert len((log / "judgements.jsonl").read_text().splitlines()) == 3
    writer = LogWriter(log)
    writer.append(row(1, "Another."))  # the run was made again
    writer.close()
    endpoint.script(endpoint.plain("The coherency score is 2"))
    done = judge_log(log, openai().chat)
    assert (done.judged, done.before, done.mean) == (1, 2, 6.0)
    with pytest.raises(EvaluationError, match="of openai:gpt-4o; go on with that judge"):
        judge_log(log, openai("other").chat)


def test_the_judges_money_has_a_limit(endpoint: Any, log: Path) -> None:
    endpoint.script(*[endpoint.plain("The coherency score is 8")] * 3)
    chat = openai(max_output_tokens=20).chat
    quote = chat.quote(
        [{"role": "system", "content": JUDGE_PROMPT}, {"role": "user", "content": "One."}], retry=0
    )
    assert quote is not None
    with pytest.raises(LimitExceeded, match="may cost"):
        judge_log(log, chat, max_cost=CALL + quote / 2)
    assert len(read_judgements(log)) == 1 and len(endpoint.requests) == 1
    (log / "judgements.jsonl").unlink()
    with pytest.raises(UsageError, match="price of planner openai:other is unknown"):
        judge_log(log, openai("other").chat, max_cost=1.0)


def test_the_command(endpoint: Any, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    endpoint.script(*[endpoint.stream("The coherency ", "score is 8")] * 3)
    assert cli.run(["judge", str(log), "--model", "openai:gpt-4o", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean"] == 8.0
    assert cli.run(["report", str(log), "--json"]) == 0
    assert "coherency" in capsys.readouterr().out
    assert cli.run(["judge", str(log), "--model", "expert"]) == 2
    assert "no chat model" in capsys.readouterr().err
