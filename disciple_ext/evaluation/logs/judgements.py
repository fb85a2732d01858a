"""A judge's verdicts on the coherency of answers, as they lie beside a log."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from ...errors import EvaluationError
from .lines import whole_lines

__all__ = ["JUDGEMENTS", "Judgement", "read_judgements"]

JUDGEMENTS = "judgements.jsonl"
_KINDS = ("ok", "refusal", "unparsable")


@dataclass(frozen=True)
class Judgement:
    """One verdict of the judge.

    Attributes:
        id: the instance.
        method: whose answer.
        score: from 0 to 10, or None where there is none.
        kind: ``ok``, ``refusal`` or ``unparsable``.
        judge: the chat model that gave it, or the empty text.
        text_hash: SHA-256 of the text that it judged, or the empty text.
    """

    id: str
    method: str
    score: float | None
    kind: str
    judge: str = ""
    text_hash: str = ""


def read_judgements(directory: str | Path) -> dict[tuple[str, str], Judgement]:
    """The verdicts beside a log by instance and method, the last of each; none without a file.

    Raises:
        EvaluationError: a whole line of the file is no verdict.
    """
    path = Path(directory) / JUDGEMENTS
    if not path.exists():
        return {}
    data = path.read_bytes()
    found = {}
    # Not splitlines(): it also cuts at characters that JSON leaves as they are.
    for number, line in enumerate(data[: whole_lines(data)].split(b"\n"), 1):
        if line.strip():
            try:
                verdict = _judgement(line)
            except (KeyError, TypeError, ValueError) as error:
                what = f"{type(error).__name__}: {error}"
                raise EvaluationError(
                    f"{path}:{number} is no verdict of a judge ({what})"
                ) from error
            found[verdict.id, verdict.method] = verdict
    return found


def _judgement(line: bytes) -> Judgement:
    data = json.loads(line)
    score = None if data["score"] is None else float(data["score"])
    if data["kind"] not in _KINDS:
        raise ValueError(f"kind {data['kind']!r} is none of {', '.join(_KINDS)}")
    # A file can be written by hand: a score out of range would spoil every mean in silence.
    if data["kind"] == "ok" and (score is None or not math.isfinite(score) or not 0 <= score <= 10):
        raise ValueError(f"a score of {data['score']!r} is not from 0 to 10")
    return Judgement(
        data["id"],
        data["method"],
        score if data["kind"] == "ok" else None,
        data["kind"],
        str(data.get("judge", "")),
        str(data.get("text_hash", "")),
    )
