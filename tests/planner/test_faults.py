"""A planner that fails at the second attempt loses nothing of the first; money has a limit."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from disciple_ext import cli, self_steer
from disciple_ext.errors import (
    FollowerError,
    LimitExceeded,
    PlannerError,
    SandboxUnavailable,
    UsageError,
)
from disciple_ext.evaluation.logs.log import read_log, read_run
from disciple_ext.evaluation.run import evaluate
from disciple_ext.planner.chat.openai import OpenAIPlanner
from disciple_ext.records.result import Attempt, Result, Usage
from disciple_ext.records.task import Task
from disciple_ext.testing import ReplayPlanner, ToyFollower

CRASHES = "class InferenceModel(BaseModel):\n    async def step(self):\n        1 / 0\n"
WORKS = (
    "class InferenceModel(BaseModel):\n    async def step(self):\n        await self.next_token()\n"
    "        if self.context.token_count == 3:\n            await self.end()\n"
)
CALL = (36 * 5.00 + 64 * 2.50 + 20 * 20.00) / 1e6
"""What one scripted answer of gpt-4o costs."""


def steer(planner: Any = None, **options: Any) -> Result:
    settings: dict[str, Any] = {
        "follower": ToyFollower.random(2, ["a", "b", "c"]),
        "sandbox": "none",
        "n": 4,
        **options,
    }
    return self_steer("a toy task", planner=planner or openai(), **settings)


def openai(model: str = "gpt-4o", **options: Any) -> OpenAIPlanner:
    return OpenAIPlanner(model, **{"cache": False, "timeout": 0.4, **options})


FAULTS: dict[str, Callable[[Any], list[dict[str, Any]]]] = {
    "429": lambda e: [e.failure(429)] * 3,
    "500": lambda e: [e.failure(500)] * 3,
    "401": lambda e: [e.failure(401)],
    "closed": lambda e: [{"fault": "close"}] * 3,
    "closed in the middle": lambda e: [
        e.stream("```python\nclass", finish=None, usage=None, end="close")
    ],
    "ended in the middle": lambda e: [
        e.stream("```python\nclass", finish=None, usage=None, end="quiet")
    ],
    "stalled in the middle": lambda e: [
        e.stream("```python\nclass", finish=None, usage=None, end="stall")
    ],
    "no answer": lambda e: [{"fault": "stall"}] * 3,
    "html": lambda e: [{"raw": "<html>bad gateway</html>"}],
    "invalid json": lambda e: [{"events": ["{oops"]}],
    "no choices": lambda e: [{"json": {}}],
    "refusal": lambda e: [e.plain(None, refusal="I will not")],
    "cut off": lambda e: [e.stream("```python\nclass", finish="length")],
    "no program": lambda e: [e.stream("I do not know.")],
    "empty": lambda e: [e.stream("")],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_loses_a_finished_attempt(endpoint: Any, fault: str) -> None:
    endpoint.script(endpoint.program(CRASHES), *FAULTS[fault](endpoint))
    with pytest.raises(PlannerError, match=r"gpt-4o.*; |key of planner") as caught:
        steer()
    error = caught.value
    first, second = error.attempts
    assert first.outcome == "ProgramCrashed" and first.program == CRASHES
    assert first.cost == pytest.approx(CALL) and first.usage.planner_output == 20
    assert (second.outcome, second.program) == ("PlannerError", "")
    assert second.error == str(error)
    answered = fault in ("refusal", "cut off", "no program", "empty")
    refused = fault in ("429", "500", "401")
    if answered:
        assert error.cost == pytest.approx(2 * CALL) and error.usage.planner_output == 40
    elif refused:
        assert error.cost == pytest.approx(CALL) and error.usage.planner_output == 20
    else:
        assert error.cost is None and second.cost is None


def test_an_answer_that_the_verifier_rejected_is_kept(endpoint: Any) -> None:
    endpoint.script(endpoint.program(WORKS), *[endpoint.failure(500)] * 3)
    with pytest.raises(PlannerError) as caught:
        steer(verify=lambda text: False)
    kept = caught.value.result
    assert isinstance(kept, Result) and kept.text is not None and kept.verified is False
    assert [a.outcome for a in caught.value.attempts] == ["rejected", "PlannerError"]
    assert kept.attempts == caught.value.attempts[:1]


@pytest.mark.parametrize(
    ("follower", "error"),
    [("hf:./no/such/model", FollowerError), ("nobody", UsageError), (7, UsageError)],
)
def test_nobody_pays_for_a_program_where_the_follower_cannot_be_loaded(
    endpoint: Any, follower: Any, error: type[Exception]
) -> None:
    endpoint.script(endpoint.program(WORKS))
    with pytest.raises(error):
        steer(follower=follower)
    assert endpoint.requests == []


def test_costs_and_tokens_are_per_attempt_and_in_all(endpoint: Any) -> None:
    endpoint.script(endpoint.program(CRASHES), endpoint.program(WORKS))
    result = steer()
    crashed, worked = result.attempts
    assert crashed.cost == worked.cost == pytest.approx(CALL)
    assert result.cost == pytest.approx(2 * CALL)
    assert crashed.usage == Usage(planner_input=36, planner_cached=64, planner_output=20)
    assert worked.usage.follower_tokens > 0
    assert result.usage == crashed.usage + worked.usage
    again = Result.from_dict(json.loads(result.to_json()))
    assert again.attempts == result.attempts and isinstance(again.attempts[0], Attempt)


def test_rejected_answers_count_once() -> None:
    result = steer(ReplayPlanner([WORKS, WORKS]), verify=lambda text: False, retries=2)
    tokens = [attempt.usage.follower_tokens for attempt in result.attempts]
    assert len(tokens) == 2 and result.usage.follower_tokens == sum(tokens)
    assert result.cost == 0.0


def test_an_unknown_price_is_an_unknown_cost(endpoint: Any) -> None:
    endpoint.script(endpoint.program(CRASHES), endpoint.program(WORKS))
    result = steer(openai("my-model"))
    assert result.cost is None and result.usage.planner_output == 40


def test_a_cached_answer_costs_nothing(endpoint: Any) -> None:
    endpoint.script(endpoint.program(WORKS))
    assert steer(openai(cache=True)).cost == pytest.approx(CALL)
    again = steer(openai(cache=True), max_cost=0.0)
    assert again.cost == 0.0 and again.attempts[0].cached_answer
    assert again.usage.planner_output == 0


# The limit ------------------------------------------------------------------------------------


def test_the_limit_stops_before_the_second_call(endpoint: Any) -> None:
    endpoint.script(endpoint.program(CRASHES), endpoint.program(WORKS))
    planner = openai(max_output_tokens=1000)
    first = planner.quote(Task("a toy task"), ())
    assert first is not None
    with pytest.raises(LimitExceeded, match=r"may cost \$0\.0.*\$0\.0007 of the \$") as caught:
        steer(planner, max_cost=first + CALL / 2)
    error = caught.value
    assert len(endpoint.requests) == 1
    assert [a.outcome for a in error.attempts] == ["ProgramCrashed"]
    assert error.cost == pytest.approx(CALL)
    assert (error.kind, error.exit_code) == ("cost", 124) and error.value > error.limit


def test_a_call_of_unknown_cost_counts_with_what_it_may_have_cost(endpoint: Any) -> None:
    endpoint.script(endpoint.program(CRASHES, usage=None), endpoint.program(WORKS))
    planner = openai(max_output_tokens=1000)
    first = planner.quote(Task("a toy task"), ())
    assert first is not None
    with pytest.raises(LimitExceeded) as caught:
        steer(planner, max_cost=1.5 * first)
    assert caught.value.cost is None and len(endpoint.requests) == 1


def test_a_limit_wants_a_price(endpoint: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"price of planner openai:my-model is unknown.*--prices"):
        steer(openai("my-model"), max_cost=1.0)
    assert endpoint.requests == []
    prices = tmp_path / "prices.json"
    prices.write_text('{"models": {"*": {"input": 0, "output": 0}}}')
    endpoint.script(endpoint.program(WORKS))
    assert steer(openai("my-model", prices=prices), max_cost=0.0).cost == 0.0


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_limit_is_an_amount_of_money(wrong: float) -> None:
    with pytest.raises(UsageError, match="US dollars"):
        steer(ReplayPlanner([WORKS]), max_cost=wrong)


def test_planners_that_ask_no_model_cost_nothing() -> None:
    assert steer(ReplayPlanner([WORKS]), max_cost=0.0).cost == 0.0


# The command line -----------------------------------------------------------------------------

Disciple = Callable[..., tuple[int, str, str]]
TASK = "a toy task"
RUN = ("run", TASK, "--planner", "openai:gpt-4o", "--sandbox", "none", "-n", "2")


@pytest.fixture
def disciple(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Disciple]:
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setattr("warnings.showwarning", __import__("warnings").showwarning)
    handler = signal.getsignal(signal.SIGINT)

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
        code = cli.run(list(args))
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    yield run
    signal.signal(signal.SIGINT, handler)


def test_the_command_shows_what_was_tried_before_a_fault(endpoint: Any, disciple: Disciple) -> None:
    endpoint.script(endpoint.program(CRASHES), endpoint.failure(401))
    code, out, err = disciple(*RUN)
    assert (code, out) == (4, "")
    assert "program 1 failed: " in err and "ZeroDivisionError" in err
    assert "attempts: ProgramCrashed, PlannerError; cost: $0.0007" in err
    assert "refused the key" in err and "Traceback" not in err
    endpoint.script(endpoint.program(CRASHES), endpoint.failure(401))
    code, out, err = disciple(*RUN, "--json", "--no-cache")
    shown = json.loads(out)
    assert code == 4 and shown["schema"] == 1
    assert shown["error"]["type"] == "PlannerError" and "key" in shown["error"]["message"]
    assert [a["outcome"] for a in shown["attempts"]] == ["ProgramCrashed", "PlannerError"]
    assert shown["attempts"][0]["program"] == CRASHES and shown["cost"] == pytest.approx(CALL)
    assert shown["usage"]["planner_output"] == 20 and shown["result"] is None


def test_the_command_keeps_a_rejected_answer(endpoint: Any, disciple: Disciple) -> None:
    endpoint.script(endpoint.program(WORKS), endpoint.failure(401), endpoint.failure(401))
    code, _, err = disciple(*RUN, "--verify", "false")
    assert code == 4 and "the best answer, which was rejected:" in err
    _, out, _ = disciple(*RUN, "--verify", "false", "--json")  # the first answer is cached
    assert json.loads(out)["result"]["verified"] is False


def test_the_command_limits_the_cost(endpoint: Any, disciple: Disciple) -> None:
    code, out, err = disciple(*RUN, "--max-cost", "0.0001")
    assert (code, out) == (124, "") and "$0.0000 of the $0.0001 allowed" in err
    assert endpoint.requests == []
    code, _, err = disciple("run", TASK, "--planner", "openai:mine", "--max-cost", "1")
    assert code == 2 and "--prices" in err


def test_the_command_says_what_it_cost_and_what_waits(endpoint: Any, disciple: Disciple) -> None:
    busy = endpoint.failure(429, headers={"Retry-After": "1"})
    endpoint.script(busy, endpoint.program(WORKS))
    code, _, err = disciple(*RUN)
    assert code == 0 and "cost: $0.0007" in err
    assert "planner: HTTP 429; waiting 1 s" in err
    _, _, err = disciple(*RUN)
    assert "cost: $0.0000" in err
    endpoint.script(endpoint.program(WORKS))
    _, _, err = disciple("run", TASK, "--planner", "openai:x", "--sandbox", "none", "-n", "2")
    assert "cost: unknown" in err and "--prices" in err


def test_a_command_is_recorded_and_replayed(
    endpoint: Any, disciple: Disciple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = str(tmp_path / "answers")
    endpoint.script(endpoint.program(WORKS))
    planner = ("plan", TASK, "--planner", "openai:gpt-4o")
    code, out, _ = disciple(*planner, "--record", answers, "--json")
    first = json.loads(out)
    assert code == 0 and first["cost"] == pytest.approx(CALL) and not first["cached_answer"]
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    code, out, _ = disciple("plan", TASK, "--planner", f"replay:{answers}")
    assert code == 0 and out == WORKS
    code, _, err = disciple("plan", TASK, "--record", answers)
    assert code == 2 and "'expert' has no use for --record" in err
    code, _, err = disciple("plan", TASK, "--no-cache")
    assert code == 2 and "--no-cache" in err


def test_the_cache_is_shown_and_cleared(endpoint: Any, disciple: Disciple) -> None:
    endpoint.script(endpoint.program(WORKS))
    disciple("plan", TASK, "--planner", "openai:gpt-4o")
    code, out, _ = disciple("cache", "--json")
    held = json.loads(out)
    assert code == 0 and held["entries"] == 1 and held["models"] == {"gpt-4o": 1}
    assert held["bytes"] > 0 and held["path"] in disciple("cache")[1].replace("\n", " ")
    assert json.loads(disciple("cache", "clear", "--older-than", "1", "--json")[1])["removed"] == 0
    assert "1 answers removed" in disciple("cache", "clear")[1]
    assert disciple("cache", "clear", "--older-than", "-1")[0] == 2


# Evaluations ----------------------------------------------------------------------------------


@pytest.fixture
def sandboxed() -> None:
    """Evaluations run what a model wrote at the strongest level, and at no other."""
    try:
        steer(ReplayPlanner([WORKS]), sandbox="landlock+seccomp")
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("sandboxed")
def test_an_evaluation_shares_one_limit_and_is_resumed(endpoint: Any, tmp_path: Path) -> None:
    data = tmp_path / "wiki.jsonl"
    rows = [
        {"id": f"s/{k}", "task": "sent_01", "prompt": f"Write {k}.", "targets": 3, "corpus": ""}
        for k in range(3)
    ]
    data.write_text("\n".join(json.dumps({**row, "example": ""}) for row in rows))
    follower = ToyFollower.random(2, ["a", "b", "c"])
    out, settings = tmp_path / "out", {"data": data, "follower": follower, "n": 2}
    endpoint.script(*[endpoint.program(WORKS) for _ in rows])
    planner = OpenAIPlanner("gpt-4o", max_output_tokens=100)
    quote = planner.quote(Task("Write 0.", family="sent_01"), ())
    assert quote is not None
    with pytest.raises(LimitExceeded) as caught:
        evaluate(["smc"], out=out, planner=planner, max_cost=quote + 1.5 * CALL, **settings)
    assert caught.value.kind == "cost"
    done = read_log(out)
    assert len(done) == 2 and [row.cost for row in done] == [pytest.approx(CALL)] * 2
    assert done[0].attempts[0]["cost"] == pytest.approx(CALL)
    whole = evaluate(["smc"], out=out, planner=planner, resume=True, **settings)
    assert len(whole) == 3 and len(endpoint.requests) == 3
    assert (read_run(out) or {})["planner"] == "openai:gpt-4o"


@pytest.mark.usefixtures("sandboxed")
def test_runs_under_way_are_not_lost_when_the_money_is_gone(endpoint: Any, tmp_path: Path) -> None:
    data = tmp_path / "wiki.jsonl"
    rows = [
        {"id": f"s/{k}", "task": "sent_01", "prompt": f"Write {k}.", "targets": 3, "corpus": ""}
        for k in range(3)
    ]
    data.write_text("\n".join(json.dumps({**row, "example": ""}) for row in rows))
    endpoint.script(*[endpoint.program(WORKS, wait=0.5) for _ in rows])
    planner = openai(max_output_tokens=100, timeout=10.0)
    quote = planner.quote(Task("Write 0.", family="sent_01"), ())
    assert quote is not None
    with pytest.raises(LimitExceeded):
        evaluate(
            ["smc"],
            out=tmp_path / "out",
            data=data,
            n=2,
            planner=planner,
            max_cost=1.5 * quote,
            concurrency=2,
            follower=ToyFollower.random(2, ["a", "b", "c"]),
        )
    assert [row.id for row in read_log(tmp_path / "out")] == ["s/0"]


@pytest.mark.usefixtures("sandboxed")
def test_an_evaluations_failed_run_has_its_cost(endpoint: Any, tmp_path: Path) -> None:
    data = tmp_path / "wiki.jsonl"
    row = {"id": "s/0", "task": "sent_01", "prompt": "Write.", "targets": 3, "corpus": ""}
    data.write_text(json.dumps({**row, "example": ""}))
    endpoint.script(endpoint.program(CRASHES), endpoint.stream("I give up."))
    (failed,) = evaluate(
        ["smc"],
        out=tmp_path / "out",
        data=data,
        n=2,
        planner=openai(),
        follower=ToyFollower.random(2),
    )
    assert failed.error is not None and failed.error["type"] == "PlannerError"
    assert failed.cost == pytest.approx(2 * CALL) and failed.usage["planner_output"] == 40
    assert [a["outcome"] for a in failed.attempts] == ["ProgramCrashed", "PlannerError"]
