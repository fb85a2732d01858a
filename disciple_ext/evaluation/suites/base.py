"""What a suite of tasks is: instances, their ground truth, and the budgets to run them with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["COT_PROMPT", "Budget", "Instance", "Suite"]

COT_PROMPT = (
    "You are helping a user generate text that satisfies constraints. Think step-by-step in order "
    "to follow the user's instructions. Your final response should be enclosed in "
    "<answer></answer> tags."
)
"""The paper's system prompt for a planner that reasons and answers itself (its appendix on
"Planner-Only Chain-of-Thought")."""


@dataclass(frozen=True)
class Instance:
    """One task of a suite.

    Attributes:
        id: unique name, such as ``"wiki/sent_01/000"``.
        task: its type, such as ``"sent_01"``; planners get it as the task's family.
        prompt: the task in words: what the planner plans for, and what the follower or the
            planner alone is asked.
        targets: what the ground truth compares with, as the suite has it.
        corpus: the source of the example.
        example: a text that meets the task, or the empty text.
    """

    id: str
    task: str
    prompt: str
    targets: Any = None
    corpus: str = ""
    example: str = ""


@dataclass(frozen=True)
class Budget:
    """What a run on a type of task may use, and the prompt of its prior.

    Attributes:
        level: name of the budget, for ``run.json``: types may share it.
        n: samples (the paper's N).
        timeout: seconds for a run of a program.
        tokens: tokens at which a text of the follower alone, or of the planner alone, is cut.
        prior_prompt: the prompt under which a text should be fluent, such as "Write a sentence.".
    """

    level: str
    n: int
    timeout: float
    tokens: int
    prior_prompt: str


def _none(instance: Instance) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Suite:
    """Tasks to evaluate methods on.

    A plugin's ``register_suites`` gives factories of such records.

    Attributes:
        name: its name, for logs.
        budgets: the budget of each type of task; its keys are the types, in order.
        instances: called with the path that ``--data`` gives, or None; returns the instances.
        verify: the ground truth: whether a text meets an instance. It runs on the host.
        settings: what verdicts depend on besides the data, such as ``{"splitter": "punkt"}``.
            JSON-safe; a log cannot mix two values.
        cot_prompt: system prompt of the method ``cot``.
        prescribed: the words that an instance demands; text quality is measured without them.
    """

    name: str
    budgets: Mapping[str, Budget]
    instances: Callable[[str | Path | None], Sequence[Instance]]
    verify: Callable[[Instance, str], bool]
    settings: Mapping[str, Any] = field(default_factory=dict)
    cot_prompt: str = COT_PROMPT
    prescribed: Callable[[Instance], Sequence[str]] = _none
