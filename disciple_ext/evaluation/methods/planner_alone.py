"""The baselines without a follower: the planner's chat model is asked for the text itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ...errors import DiscipleError, PlannerError, UsageError
from ...planner.chat.base import Answer
from ...records.result import Usage
from ..logs.log import Sample
from ..suites.base import Instance
from .base import Outcome, Setup
from .chat import ask, chat_of, paid
from .scoring import on_follower

__all__ = ["PlannerAlone", "cot", "planner", "reasoning"]

REASONING = "reasoning"
"""The method of a planner that thinks by itself before it answers."""

REASONING_TOKENS = 25_000
"""The limit that the paper gave o1, thoughts included."""


@dataclass(frozen=True)
class PlannerAlone:
    """The planner's chat model is asked for the text itself.

    Attributes:
        name: of the method, for messages.
        count: answers to each task.
        think: whether it is told to reason first, and to mark its answer.
        tokens: of an answer at most, thoughts included: a number, ``"suite"`` for as many as the
            suite gives a text of the follower alone, or None for the endpoint's own limit.
    """

    name: str
    count: int
    think: bool
    tokens: int | Literal["suite"] | None

    def __post_init__(self) -> None:
        for name, value in (("samples", self.count), ("tokens", self.tokens)):
            if value not in (None, "suite") and not (isinstance(value, int) and value >= 1):
                raise UsageError(f"{name} must be at least 1, a whole number, not {value!r}")

    def samples(self, n: int) -> int:
        """Its own number: answers cost money, and n does not."""
        return self.count

    async def run(self, setup: Setup, instance: Instance, n: int, seed: int) -> Outcome:
        """Ask ``count`` times."""
        chat = chat_of(setup.planner, setup.follower, on_follower)
        most = self.tokens
        if most == "suite":
            most = setup.suite.budgets[instance.task].tokens
        if most is not None:
            chat = chat.limited(most)
        messages = [{"role": "user", "content": instance.prompt}]
        if self.think:
            messages.insert(0, {"role": "system", "content": setup.suite.cot_prompt})
        samples: list[Sample] = []
        usage = Usage()
        costs: list[float | None] = []
        for number in range(self.count):
            try:
                # The number is the call's retry: else a cache or a recording would give one answer
                # each time.
                answer = await ask(chat, messages, number, setup.purse)
            except DiscipleError as error:
                # The answers before it were paid for, though the run has no samples.
                error.usage = usage + (error.usage or Usage())
                error.cost = _sum([*costs, error.cost])
                raise
            if answer.origin == "model":
                usage += answer.usage or Usage()
            costs.append(paid(answer))
            if self.tokens == "suite" and _still_thinking(answer):
                # An error and no empty sample: it would count against the planner's text, which
                # never began.
                raise _no_room(self.name, most, usage, _sum(costs))
            samples.append(_answered(answer, think=self.think))
        return Outcome(tuple(samples), usage, _sum(costs))


def _still_thinking(answer: Answer) -> bool:
    """Whether an answer was cut before the text had begun."""
    return answer.finish_reason == "length" and not _THOUGHTS.sub("", answer.text).strip()


def _no_room(name: str, most: int | None, usage: Usage, cost: float | None) -> PlannerError:
    error = PlannerError(
        f"the planner's thoughts took all {most} tokens that the method {name!r} gives to an "
        f"answer; measure a model that thinks with the method {REASONING!r}"
    )
    error.usage, error.cost = usage, cost
    return error


def _sum(costs: list[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    # One unknown part makes the sum unknown.
    return sum(known) if len(known) == len(costs) else None


_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_THOUGHTS = re.compile(r"^\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
"""Servers that do not part a model's thoughts from its answer leave them in the text."""


def _answered(answer: Answer, *, think: bool) -> Sample:
    """The text in an answer; none in a refusal, or where it should be marked and is not."""
    said = _THOUGHTS.sub("", answer.text)
    text: str | None = said.strip()
    if think:
        found = _ANSWER.findall(said)
        text = found[-1].strip() if found else None  # the last: reasoning may try several
    reason = "ended" if answer.whole else "max_tokens"
    if answer.refusal or answer.finish_reason == "content_filter":
        text, reason = None, "refused"
    elif not text:
        reason = "no_answer"
    tokens = answer.usage.planner_output if answer.usage is not None else 0
    return Sample(text or "", None, None, False, reason, tokens, None)


def planner(samples: int = 1) -> PlannerAlone:
    """Answers no longer than the suite gives a text."""
    return PlannerAlone("planner", samples, think=False, tokens="suite")


def cot(samples: int = 1) -> PlannerAlone:
    """Told to think first; the thoughts are part of the answer, which has no limit of ours."""
    return PlannerAlone("cot", samples, think=True, tokens=None)


def reasoning(samples: int = 1, tokens: int = REASONING_TOKENS) -> PlannerAlone:
    """A model that thinks by itself, with room to do so."""
    return PlannerAlone(REASONING, samples, think=False, tokens=tokens)
