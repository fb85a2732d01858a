"""``disciple judge``: a chat model scores the coherency of a log's answers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import answer_json, note
from .planner import PricesFile, Record, make_planner

if TYPE_CHECKING:
    from ..evaluation.logs.judgements import Judgement

__all__ = ["EXAMPLES", "judge"]

EXAMPLES = (
    "disciple judge runs/first --model openai:gpt-4o-mini-2024-07-18 --max-cost 1",
    "disciple judge runs/first --model openai:qwen3 --concurrency 8",
    "disciple report runs/first",
)


def judge(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The log's directory.")],
    model: Annotated[str, typer.Option("--model", help="The judge: openai:MODEL, or replay:DIR.")],
    max_cost: Annotated[
        float | None,
        typer.Option("--max-cost", metavar="USD", help="Stop before a call that may cost more."),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", help="Calls at a time.")] = 1,
    record: Record = None,
    prices: PricesFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Score the coherency of each answer from 1 to 10, with the paper's prompt.

    The verdicts are appended to judgements.jsonl in the log's directory, where the report finds
    them. Interrupted, the same command goes on.
    """
    from ..evaluation.methods.chat import chat_of
    from ..evaluation.scores.coherency import judge_log

    planner = make_planner(model, record=record, prices=prices)
    done = judge_log(
        directory,
        chat_of(planner),
        max_cost=max_cost,
        concurrency=concurrency,
        on_progress=_progress,
    )
    if as_json:
        answer_json(asdict(done))
        return
    mean = "no score" if done.mean is None else f"mean score {done.mean:.2f}"
    cost = "unknown" if done.cost is None else f"${done.cost:.4f}"
    note(
        f"{mean}; {done.judged} judged now, {done.before} before; {done.refusals} refusals, "
        f"{done.unparsable} unparsable, {done.unanswered} runs without an answer; cost: {cost}"
    )


def _progress(verdict: Judgement, done: int, total: int) -> None:
    said = verdict.kind if verdict.score is None else f"{verdict.score:g}"
    note(f"{done}/{total} {verdict.id} {verdict.method}: {said}")
