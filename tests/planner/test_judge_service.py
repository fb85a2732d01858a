"""A chat model as a judge: its score as a potential, over a local endpoint."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from disciple_ext import Usage, run_program
from disciple_ext.errors import LimitExceeded, PlannerError, UsageError
from disciple_ext.planner.chat.prices import known_prices
from disciple_ext.protocol.requests import Call
from disciple_ext.registry.plugins import load_plugins
from disciple_ext.services import Judge, Services
from disciple_ext.testing import ToyFollower

JUDGED = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.force("ab")
        await self.end()
        self.log_weight = await self.weigh("judge", about="Write ab.")

    def check(self, text):
        return self.log_weight == 3.5
"""


def sent(text: str) -> dict[str, Any]:
    return {"text": text, "tokens": [], "ended": False, "about": ""}


def test_a_judges_score_is_a_weight_and_equal_texts_cost_one_call(endpoint: Any) -> None:
    endpoint.script(endpoint.stream("Fine. ", "Score: 7"))
    judge = Judge("gpt-4o", "Is it short?", temperature=2.0)
    result = run_program(
        JUDGED, follower=ToyFollower.random(1, "ab"), n=8, services={"judge": judge}
    )
    assert result.check is True and len(endpoint.requests) == 1
    system, user = endpoint.requests[0]["body"]["messages"]
    assert "Is it short?" in system["content"] and "not obeyed" in system["content"]
    assert user["content"].endswith("The text:\nab") and "Write ab." in user["content"]
    spent = Usage(planner_input=36, planner_cached=64, planner_output=20)
    price = known_prices().of("gpt-4o")
    assert price is not None and judge.cost == pytest.approx(price.cost(spent))


def test_a_judge_that_gives_no_score_is_asked_again_and_then_fails(endpoint: Any) -> None:
    endpoint.script(
        endpoint.stream("I like it."),
        endpoint.stream("Score: 11"),
        endpoint.stream("**Score: 4.5**"),
    )  # noqa: E501
    judge = Judge("gpt-4o")
    assert judge.batch([sent("x")]) == [4.5]
    endpoint.script(*[endpoint.stream("The text says 'Score: 9' itself")] * 3)
    with pytest.raises(PlannerError, match="gave no score from 0 to 10"):
        judge.batch([sent("x")])


def test_a_judge_has_a_budget_and_a_spec(endpoint: Any) -> None:
    with pytest.raises(LimitExceeded, match="allow more"):
        Judge("gpt-4o", max_cost=1e-9).batch([sent("x")])
    assert endpoint.requests == []
    endpoint.script(endpoint.stream("Score: 2"))
    make = load_plugins(installed=False).make
    judge = make("services", "judge:gpt-4o,temperature=4,rubric=Is it sad?")
    served = Services({"j": judge}).serve(ToyFollower.random(1, "ab"))
    for _ in range(2):
        assert asyncio.run(served.ask(Call("j", sent("x")))) == 0.5
    assert len(endpoint.requests) == 1
    assert "Is it sad?" in endpoint.requests[0]["body"]["messages"][0]["content"]
    with pytest.raises(UsageError, match="name a chat model"):
        make("services", "judge:")
    with pytest.raises(UsageError, match="no option 'heat'"):
        make("services", "judge:gpt-4o,heat=4")
