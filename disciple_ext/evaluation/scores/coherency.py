"""A chat model as the judge of answers' coherency, as in the paper.

The judge reads the answer alone, not the task. For each instance and method it judges the text
that the run gives, drawn by weight with the run's seed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import EvaluationError, UsageError
from ...planner.chat.base import Answer, Chat
from ...planner.purse import Purse
from ..concurrency import each
from ..logs.judgements import JUDGEMENTS, Judgement, read_judgements
from ..logs.lines import LineWriter
from ..logs.log import read_log
from ..methods.chat import ask, paid
from .answers import drawn_answer

__all__ = ["JUDGE_PROMPT", "Judged", "judge_log", "read_score"]

JUDGE_PROMPT = (
    "Please concisely analyze the following text for coherency. Your analysis should be no longer "
    "than 3 sentences and it *must* end verbatim with 'The coherency score is <SCORE>', where "
    "<SCORE> is a number between 1 and 10."
)
"""The paper's prompt, from its appendix "Coherency Score" (after Yao et al. 2024, COLLIE).

The paper does not say where the text stands; here the prompt is the system's message, and the text
the user's."""

_SCORE = re.compile(r"The coherency score is (\d{1,2}(?:\.\d+)?)\.?\s*\Z")


@dataclass(frozen=True)
class Judged:
    """How a judging went.

    Attributes:
        judged: verdicts given now.
        before: verdicts that were there already.
        unanswered: runs without an answer, which are not judged.
        refusals: refusals among all verdicts.
        unparsable: verdicts without a score among all of them.
        mean: mean of all scores, or None where there is none.
        cost: US dollars of the calls made now, or None where a price is unknown.
    """

    judged: int
    before: int
    unanswered: int
    refusals: int
    unparsable: int
    mean: float | None
    cost: float | None


def read_score(answer: Answer) -> tuple[float | None, str]:
    """Score and kind of a judge's answer, read strictly.

    The score is a number from 1 to 10 in the words that the prompt asks for, at the answer's end
    (a full stop may follow). A number elsewhere is no score: it may be quoted from the text.

    Returns:
        The score with ``ok``, or None with ``refusal`` or ``unparsable``.
    """
    if answer.refusal or answer.finish_reason == "content_filter":
        return None, "refusal"
    found = _SCORE.search(answer.text)
    score = float(found[1]) if found else math.nan
    return (score, "ok") if 1 <= score <= 10 else (None, "unparsable")


def judge_log(
    directory: str | Path,
    chat: Chat,
    *,
    max_cost: float | None = None,
    concurrency: int = 1,
    on_progress: Callable[[Judgement, int, int], None] | None = None,
) -> Judged:
    """Judge the answers of a log, into ``judgements.jsonl`` beside it.

    The file only grows: a verdict is written as soon as it is given, and what the file holds is
    not asked again unless the log has another answer by now.

    Args:
        directory: the log's.
        chat: the judge.
        max_cost: US dollars that the calls may cost in all.
        concurrency: calls at a time.
        on_progress: called after each verdict, with the number of those done and of all to do.

    Raises:
        UsageError: the concurrency is below 1, or there is a limit and no price.
        EvaluationError: the log cannot be used, or another model judged it before.
        LimitExceeded: the next call may cost more than is left.
        PlannerError: the judge does not answer.
    """
    if concurrency < 1:
        raise UsageError(f"concurrency must be at least 1, not {concurrency}")
    directory = Path(directory)
    rows = {(row.id, row.method): row for row in read_log(directory)}  # the last of each counts
    texts = {key: text for key, row in rows.items() if (text := drawn_answer(row))}
    known = read_judgements(directory)
    # Two judges' scores have no common mean.
    others = sorted({verdict.judge for verdict in known.values()} - {chat.name})
    if others:
        raise EvaluationError(
            f"the verdicts in {directory / JUDGEMENTS} are of {others[0] or 'an unnamed judge'}; "
            f"go on with that judge, or move the file away to judge anew with {chat.name}"
        )
    todo = [
        key
        for key, text in texts.items()
        # By the text: a log that went on may have another answer for the same instance.
        if key not in known or known[key].text_hash != _hash(text)
    ]
    purse = Purse(max_cost) if max_cost is not None else None
    costs: list[float | None] = []
    writer = LineWriter(directory / JUDGEMENTS, "judge again")

    async def one(key: tuple[str, str]) -> None:
        text = texts[key]
        messages = [
            {"role": "system", "content": JUDGE_PROMPT},
            {"role": "user", "content": text},
        ]
        answer = await ask(chat, messages, 0, purse)
        score, kind = read_score(answer)
        verdict = Judgement(*key, score, kind, chat.name, _hash(text))
        said = {"said": answer.refusal or answer.text, "model": answer.model, "cost": paid(answer)}
        # Written before it is counted: what was paid for must survive an interrupt.
        writer.write(json.dumps(asdict(verdict) | said))
        costs.append(paid(answer))
        if on_progress is not None:
            on_progress(verdict, len(costs), len(todo))

    try:
        asyncio.run(each(todo, one, concurrency))
    finally:
        writer.close()
    verdicts = [v for key, v in read_judgements(directory).items() if key in texts]
    scores = [v.score for v in verdicts if v.score is not None]
    prices = [cost for cost in costs if cost is not None]
    return Judged(
        judged=len(costs),
        before=len(texts) - len(todo),
        unanswered=len(rows) - len(texts),
        refusals=sum(v.kind == "refusal" for v in verdicts),
        unparsable=sum(v.kind == "unparsable" for v in verdicts),
        mean=math.fsum(scores) / len(scores) if scores else None,
        cost=math.fsum(prices) if len(prices) == len(costs) else None,
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
