"""A run in LLaMPPL's own format: what ``llamppl.inference.smc_record.SMCRecord`` writes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..records.deltas import PreviousTexts

__all__ = ["history", "texts_of"]


def texts_of(run: Mapping[str, Any]) -> dict[int, list[str]]:
    """The texts of a run's particles by step, joined from what each step added."""
    texts: dict[int, list[str]] = {}
    previous = PreviousTexts()
    for step in run["steps"]:
        rows = step.get("rows")
        if rows is None:
            continue
        mine = []
        for index, (origin, added) in enumerate(zip(rows["from"], rows["add"], strict=True)):
            # A text may stand there as a whole although it has an origin: its start was changed, or
            # not kept.
            whole = origin == -1 or str(index) in rows.get("kept", {})
            mine.append(("" if whole else previous.texts[origin]) + run["strings"][added])
        previous.replace(step["step"], mine)
        texts[step["step"]] = mine
    return texts


def history(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps of a run as LLaMPPL's ``smc_standard`` records them.

    What a step added stands between ``<<<`` and ``>>>``, as its viewer marks it. Numbers are
    rounded as in our record. A run with several resamplings between two steps goes with the
    last step's particle that each came from.
    """
    texts = texts_of(run)
    steps: list[dict[str, Any]] = []
    weights: list[float] = []
    resampled = {entry["after"] for entry in run["resampled"]}
    before = 0
    for step in run["steps"]:
        rows = step.get("rows")
        if rows is None:
            continue
        mode = "init" if not steps else "resample" if before in resampled else "smc_step"
        entry: dict[str, Any] = {"step": len(steps) + 1, "mode": mode}
        origins = [o if isinstance(o, int) and 0 <= o < len(weights) else -1 for o in rows["from"]]
        if mode == "resample":
            entry["ancestors"] = [max(0, origin) for origin in origins]
        mine = [-math.inf if w is None else w for w in rows["log_weight"]]
        entry["particles"] = []
        for index, (text, weight) in enumerate(zip(texts[step["step"]], mine, strict=True)):
            added = run["strings"][rows["add"][index]]
            was = weights[origins[index]] if origins[index] >= 0 else 0.0
            entry["particles"].append(
                {
                    "contents": f"{text[: len(text) - len(added)]}<<<{added}>>>",
                    # Numbers as texts, as LLaMPPL writes them: JSON has no infinity.
                    "logweight": "-Infinity" if weight == -math.inf else str(weight),
                    "weight_incr": str(weight - was),
                }
            )
        steps.append(entry)
        # Only steps with rows count: one that was left out has nothing to come from.
        weights, before = mine, step["step"]
    return steps
