"""Prices are data, and the paper's figures come out of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from disciple_ext.errors import UsageError
from disciple_ext.planner.chat.openai import OpenAIPlanner
from disciple_ext.planner.chat.prices import Price, known_prices
from disciple_ext.records.result import Usage
from disciple_ext.records.task import Task


def test_the_papers_table_of_costs() -> None:
    """Appendix "Compute Cost Analysis": dollars per 100 tasks, and tokens per task."""
    price = known_prices().of("gpt-4o-2024-08-06")
    assert price is not None
    program = price.cost(Usage(planner_output=45690))
    prompt = price.cost(Usage(planner_input=1289430 - 1232160))
    cached = price.cost(Usage(planner_cached=1232160))
    assert program == pytest.approx(0.9138, abs=1e-4)
    assert prompt == pytest.approx(0.2863, abs=1e-4)
    assert cached == pytest.approx(3.0804, abs=1e-4)
    o1 = known_prices().of("o1-2024-12-17")
    assert o1 is not None
    assert o1.cost(Usage(planner_output=76480)) == pytest.approx(4.5887, abs=2e-4)


def test_every_price_is_whole_and_says_where_it_is_from() -> None:
    path = Path(__file__).parents[2] / "disciple_ext" / "planner" / "chat" / "prices.json"
    data = json.loads(path.read_text())
    for name, entry in data["models"].items():
        price = known_prices().of(name)
        assert price is not None
        assert 0 < price.cached <= price.input <= price.output and price.most_output > 1000
        assert entry["source"] in data["sources"]
    assert all("as of 20" in source for source in data["sources"].values())


def test_a_file_goes_before_what_ships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"models": {"gpt-4o": {"input": 1, "output": 2}}}))
    assert known_prices().of("my-model") is None
    assert known_prices(path).of("gpt-4o") == Price(1.0, 1.0, 2.0)
    path.write_text(json.dumps({"models": {"*": {"input": 0, "output": 0}}}))
    monkeypatch.setenv("DISCIPLE_PRICES", str(path))
    assert known_prices().of("my-model") == Price(0.0, 0.0, 0.0)
    assert known_prices().of("gpt-4o") == Price(5.0, 2.5, 20.0, 16384)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "JSONDecodeError"),
        ("{}", "KeyError"),
        ('{"models": [1]}', "AttributeError"),
        ('{"models": {"m": {"input": 1}}}', "'m' has no 'output'"),
        ('{"models": {"m": {"input": -1, "output": 1}}}', "no amount of money"),
        ('{"models": {"m": {"input": "x", "output": 1}}}', "ValueError"),
        ('{"models": {"m": 3}}', "TypeError"),
    ],
)
def test_a_file_without_prices_shows_how_one_looks(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="it should look like") as caught:
        known_prices(path)
    assert says in str(caught.value)
    with pytest.raises(UsageError, match="cannot read the prices"):
        known_prices(tmp_path / "gone.json")


async def test_a_quote_is_not_below_the_cost(endpoint: Any) -> None:
    planner = OpenAIPlanner("gpt-4o", cache=False, max_output_tokens=1000)
    task = Task("Write a haiku.")
    quote = planner.quote(task, ())
    endpoint.script(endpoint.program())
    made = await planner.plan(task, ())
    read = sum(len(m["content"]) for m in endpoint.requests[0]["body"]["messages"])
    assert quote is not None and made.cost < quote
    assert quote == pytest.approx((read / 3 * 5 + 1000 * 20) / 1e6, rel=0.02)
    assert OpenAIPlanner("unknown").quote(task, ()) is None


async def test_a_known_answer_is_quoted_at_nothing(endpoint: Any) -> None:
    endpoint.script(endpoint.program())
    planner, task = OpenAIPlanner("gpt-4o"), Task("Write a haiku.")
    assert planner.quote(task, ())
    await planner.plan(task, ())
    assert planner.quote(task, ()) == 0.0
