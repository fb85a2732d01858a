"""What went wrong: ``check`` against the ground truth, errors by retry, and their messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..logs.log import Row
from .metrics import sample_weights

__all__ = ["CONFUSION", "Outcomes", "confusion", "messages", "outcomes", "weighted_confusion"]

CONFUSION = tuple(
    (check, truth) for check in ("passes", "fails", "silent") for truth in ("valid", "invalid")
)
"""What ``check`` says (silent: it gave no verdict) and what the ground truth says."""

Outcomes = tuple[dict[str, float], ...]

_CHECK = {True: "passes", False: "fails", None: "silent"}
_TRUTH = {True: "valid", False: "invalid"}

# In this order: what is between quotation marks may hold numbers.
_QUOTED = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def confusion(row: Row) -> dict[tuple[str, str], int]:
    """Samples of a run by what ``check`` and the ground truth say, dead ones included."""
    counts = dict.fromkeys(CONFUSION, 0)
    for sample in row.samples:
        counts[_CHECK[sample.check], _TRUTH[sample.passed]] += 1
    return counts


def weighted_confusion(row: Row) -> dict[tuple[str, str], float]:
    """Share of the weight of a run by what ``check`` and the ground truth say.

    The shares sum to 1, or to 0 where nothing was answered (the paper's null results).
    """
    shares = dict.fromkeys(CONFUSION, 0.0)
    weights = sample_weights([sample.log_weight for sample in row.samples])
    for weight, sample in zip(weights, row.samples, strict=True):
        shares[_CHECK[sample.check], _TRUTH[sample.passed]] += weight
    return shares


def outcomes(row: Row) -> Outcomes:
    """What became of each attempt of a run, the first program first.

    Each is a dictionary whose values sum to 1: an attempt that failed has its error's type at 1;
    the one that gave the samples has ``valid`` at the run's Pass@1 and ``invalid`` at the rest. A
    run that ended in an error has it in its last attempt.
    """
    last: dict[str, float]
    if row.error is None:
        last = {"valid": row.pass_at_1, "invalid": 1.0 - row.pass_at_1}
    else:
        last = {row.error["type"]: 1.0}
    kinds = [attempt["outcome"] for attempt in row.attempts]
    return (*({kind: 1.0} for kind in kinds[:-1]), last)


def messages(row: Row) -> list[str]:
    """The messages of a run's errors, one for each failed attempt, in a common form.

    Only the first line counts, numbers become ``N``, and what is between quotation marks becomes
    ``'…'``, so that errors of one kind have one message.
    """
    found = [attempt["error"] for attempt in row.attempts if attempt["outcome"] != "ok"]
    if row.error is not None and not (row.attempts and row.attempts[-1]["outcome"] != "ok"):
        found.append(row.error["message"])
    return [_common(message) for message in _texts(found)]


def _texts(found: Iterable[Any]) -> list[str]:
    return [message for message in found if message]


def _common(message: str) -> str:
    first = message.strip().splitlines()[0]
    return _NUMBER.sub("N", _QUOTED.sub("'…'", first))
