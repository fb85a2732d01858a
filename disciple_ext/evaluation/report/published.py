"""The paper's published numbers, as data with their tables."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from ..logs.model_size import ModelSize

__all__ = ["FOLLOWERS", "LEVEL_TABLES", "SIZES", "counterpart", "paper", "published"]

LEVEL_TABLES = {
    "sentences": "collie_sentences",
    "paragraphs": "collie_paragraphs",
    "puzzles": "puzzles",
}
"""The table of results for each level."""

_SAMPLING = {"smc": "SMC", "is": "Importance", "rs": "Rejection"}
_FOLLOWER_ONLY = {"follower": "Standard", "beam": "Beam Search"}
_PLANNER_ONLY = {"planner": "GPT-4o", "cot": "GPT-4o (CoT)"}
SIZES = {
    "Llama-3.2-1B": ModelSize(1_240_000_000, "llama"),
    "Llama-3.2-3B": ModelSize(3_210_000_000, "llama"),
    "Llama-3.1-8B": ModelSize(8_030_000_000, "llama"),
    "Qwen3-1.7B": ModelSize(1_720_000_000, "qwen3"),
}
"""The paper's followers with their sizes, which are not in the paper but on their model cards."""

FOLLOWERS = tuple(SIZES)
"""The paper's followers; the first is the one of its main results."""


@cache
def paper() -> dict[str, Any]:
    """Everything in ``paper.json``: ``source``, ``settings`` and ``tables``."""
    text = files(__package__).joinpath("paper.json").read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def counterpart(method: str, planner: str, follower: str) -> tuple[str, str, str] | None:
    """The paper's method, sampling and model that stand beside one of ours, if any do.

    The model is ours where the paper has it, else that of its main results. Our expert planner
    has the programs of the target's own type, as the paper's DisCIPL* had (with one model only).
    """
    same = (model for model in FOLLOWERS if model.lower() in follower.lower())
    model = next(same, FOLLOWERS[0])
    if method in _SAMPLING and planner.startswith("expert"):
        # The paper ran DisCIPL* with its main follower alone.
        return "DisCIPL*", _SAMPLING[method], FOLLOWERS[0]
    if method in _SAMPLING:
        return "DisCIPL", _SAMPLING[method], model
    if method in _FOLLOWER_ONLY:
        return "Follower-only", _FOLLOWER_ONLY[method], model
    if method == "reasoning":
        return "Reasoning", "Standard", "o1"
    if method in _PLANNER_ONLY:
        return "Planner-only", "Standard", _PLANNER_ONLY[method]
    return None


def published(metric: str, key: tuple[str, str, str]) -> dict[str, tuple[float, str]]:
    """A method's published numbers by task and level, each with the table it stands in.

    Args:
        metric: ``pass_at_1`` or ``coherency``.
        key: method, sampling and model, as :func:`counterpart` gives them.
    """
    found: dict[str, tuple[float, str]] = {}
    for name in LEVEL_TABLES.values():
        table = paper()["tables"][name]
        for row in table["rows"]:
            if (row["method"], row["sampling"], row["model"]) == key:
                source = f"{table['caption']} ({table['label']})"
                found |= {task: (value, source) for task, value in row[metric].items()}
    return found
