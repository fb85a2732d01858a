"""What a planner is, and how any object with a name and ``plan`` becomes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from disciple_ext import Program, Task
from disciple_ext.planner.base import Feedback, Plan, Planner, as_planner
from disciple_ext.planner.expert.planner import ExpertPlanner
from disciple_ext.testing import ToyFollower


class Least:
    """The least that a planner is."""

    def __init__(self, name: str = "least") -> None:
        self.name = name

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        return Plan(Program("pass", planner=self.name))


class Full(Least):
    """Everything that a planner may have."""

    trusted = False
    paragraphs: Sequence[str] = ()
    library: Any = None
    examples = "none"
    chat = "a chat"

    def __init__(self) -> None:
        super().__init__("full")
        self.heard: list[tuple[str, bool]] = []

    def quote(self, task: Task, feedback: Sequence[Feedback]) -> float | None:
        return 0.5 * (1 + len(feedback))

    def bind(self, follower: Any, run: Any = None) -> Any:
        return Least(f"bound to {follower.name}")

    def learn(self, task: Task, program: Program, passed: bool) -> None:
        self.heard.append((program.source, passed))


TASK = Task("t")
FOLLOWER = ToyFollower(lambda prompt, text: {"": 1.0}, ["a"])


async def test_the_least_has_the_contracts_defaults() -> None:
    given = Least()
    planner = as_planner(given)
    assert planner.name == "least" and planner.trusted and planner.listens
    assert not planner.needs_follower and planner.bind(FOLLOWER) is planner
    assert planner.quote(TASK, ()) is None, "an unknown price cannot be limited"
    assert planner.chat is None and planner.examples is None and planner.library is None
    planner.paragraphs, planner.library = ("p",), object()
    assert not {"paragraphs", "library"} & set(vars(given)), "nothing is put on who has no use"
    planner.learn(TASK, Program("x"), True)
    assert (await planner.plan(TASK, ())).program.source == "pass"


def test_what_an_object_has_is_used() -> None:
    given = Full()
    planner = as_planner(given)
    assert not planner.trusted and planner.quote(TASK, ()) == 0.5
    assert planner.chat == "a chat" and planner.examples == "none"
    planner.paragraphs, planner.examples, planner.library = ("p",), "held-out", "books"
    assert (given.paragraphs, given.examples, given.library) == (("p",), "held-out", "books")
    assert planner.paragraphs == ("p",) and planner.examples == "held-out"
    planner.learn(TASK, Program("x"), False)
    assert given.heard == [("x", False)]
    assert planner.needs_follower
    bound = planner.bind(FOLLOWER)
    assert isinstance(bound, Planner) and bound.name.startswith("bound to")


def test_only_false_is_not_trusted_and_only_an_expert_does_not_listen() -> None:
    given: Any = Least("expert")
    given.trusted = None
    assert as_planner(given).trusted and not as_planner(given).listens
    given.listens = True
    assert as_planner(given).listens


def test_a_planner_stays_itself() -> None:
    planner = ExpertPlanner()
    assert as_planner(planner) is planner
    with pytest.raises(TypeError, match="abstract"):
        Planner()  # type: ignore[abstract]
