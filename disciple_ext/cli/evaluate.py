"""``disciple eval``: measure methods on a suite, into a log that can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..registry.specs import split_specs
from .console import answer, answer_json, examples, note
from .follower import FollowerName
from .measure import measuring
from .planner import Examples, MaxCost, NoCache, PlannerName, PricesFile, Record, make_planner
from .progress import hush

if TYPE_CHECKING:
    from ..evaluation.logs.log import Row

__all__ = [
    *("CONVERT_EXAMPLES", "EXAMPLES", "MERGE_EXAMPLES", "add_suite", "app", "convert", "merge"),
    *("names", "suite"),
]

EXAMPLES = (
    "disciple eval collie --method smc,follower --limit 10 --out runs/first",
    "disciple eval collie --tasks sent_01,para_05 --out runs/two --json",
    "disciple eval collie --method smc,is,smc-steer --equal-tokens --out runs/samplers",
    "disciple eval collie --method smc,follower --out runs/first --resume",
    "disciple eval collie --planner openai:gpt-4o --record answers --max-cost 5 --out runs/gpt",
    "disciple eval collie --planner openai:gpt-4o --examples reference --out runs/gpt-reference",
    "disciple eval collie --planner replay:answers --out runs/again",
    "disciple eval puzzles --method smc,follower,beam --out runs/puzzles",
    "disciple eval words --method is --out runs/words",
    "disciple eval puzzles --method planner,cot --planner openai:gpt-4o --out runs/alone",
    "disciple eval collie --follower smollm2 --temperature 1 --alpha 1.5 --out runs/power",
    "disciple eval collie --method smc --shard 1/2 --out runs/part-1",
)
CONVERT_EXAMPLES = ("disciple eval convert all_data.dill collie",)
MERGE_EXAMPLES = ("disciple eval merge runs/whole runs/part-1 runs/part-2",)

app = typer.Typer(
    help="Measure methods on a suite, and write a log.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def names(text: str, option: str) -> list[str]:
    """The specs in an option's list.

    Raises:
        UsageError: there is none.
    """
    found = split_specs(text)
    if not found:
        raise UsageError(f"{option} is empty; give names with commas between them")
    return found


# Long: each option is a parameter.
@measuring
def suite(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", help="Directory for results.jsonl and run.json.")],
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="smc, is, rs, smc:ess_threshold=0.7, ..., follower, beam, planner, cot, "
            "reasoning; with commas between.",
        ),
    ] = "smc,is,rs,follower",
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Instances; COLLIE's default: what DISCIPLE_COLLIE names."),
    ] = None,
    tasks: Annotated[
        str | None, typer.Option("--tasks", help="Task types, such as sent_01,para_05.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="The first K instances of each type.")
    ] = None,
    n: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--particles",
            help="Samples; default 32, for paragraphs and words 8, for puzzles 16.",
        ),
    ] = None,
    follower: FollowerName = None,
    planner: PlannerName = "expert",
    max_cost: MaxCost = None,
    no_cache: NoCache = False,
    record: Record = None,
    prices: PricesFile = None,
    examples_: Examples = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of every run.")] = 0,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            help="Seconds for one run; default 120, for paragraphs 240, for puzzles 360.",
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", help="Runs at a time.")] = 1,
    equal_tokens: Annotated[
        bool,
        typer.Option(
            "--equal-tokens",
            help="Each method takes as many particles as take the first one's follower tokens.",
        ),
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/K", help="The I-th of K parts of the instances."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a log that was interrupted.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
    *,
    measure: dict[str, Any],
) -> None:
    """Weighted Pass@1 on a suite: one line for each task type and method."""
    hush(follower)
    from ..evaluation.run import evaluate  # loads torch
    from ..evaluation.scores.metrics import summarise

    rows = evaluate(
        names(method, "--method"),
        out=out,
        # One function serves all suites, so the command's own name says which one it is.
        suite=str(context.info_name),
        data=data,
        tasks=names(tasks, "--tasks") if tasks is not None else None,
        limit=limit,
        n=n,
        seed=seed,
        timeout=timeout,
        resume=resume,
        follower=follower,
        measure=measure,
        planner=make_planner(
            planner, no_cache=no_cache, record=record, prices=prices, examples=examples_
        ),
        max_cost=max_cost,
        concurrency=concurrency,
        equal_tokens=equal_tokens,
        shard=_shard(shard),
        on_progress=_progress,
    )
    summary = summarise(rows)
    if as_json:
        answer_json(summary.to_dict())
    else:
        answer(summary.table())
        if planner != "expert":
            known = sum(row.cost or 0.0 for row in rows)
            # A row without usage says nothing of a cost.
            unknown = sum(row.cost is None and bool(row.usage) for row in rows)
            note(f"cost: ${known:.4f}" + (f", and {unknown} runs of unknown cost" * bool(unknown)))


def add_suite(name: str) -> None:
    """Offer a suite as ``disciple eval NAME``."""
    what = f"Weighted Pass@1 on the suite {name}: one line for each task type and method."
    app.command(name, help=what, epilog=examples(*EXAMPLES))(suite)


add_suite("collie")
add_suite("puzzles")
add_suite("words")


@app.command("merge", epilog=examples(*MERGE_EXAMPLES))
def merge(
    out: Annotated[Path, typer.Argument(help="Directory of the new log.")],
    directories: Annotated[list[Path], typer.Argument(metavar="DIR", help="Logs to merge.")],
) -> None:
    """One log from those of several shards, made with the same settings."""
    from ..evaluation.many.merge import merge as merged

    note(f"{out}: {len(merged(out, directories))} rows")


@app.command("convert", epilog=examples(*CONVERT_EXAMPLES))
def convert(
    file: Annotated[Path, typer.Argument(help="COLLIE's all_data.dill.")],
    out: Annotated[Path, typer.Argument(help="Directory of the files to write.")],
) -> None:
    """COLLIE's own data file to the JSON lines that --data reads; nothing in it runs."""
    from ..evaluation.suites.convert import convert as converted

    for part, count in converted(file, out).items():
        note(f"{part}: {count} instances")


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal()):
        raise UsageError(f"--shard takes a part and their number, such as 2/4, not {text!r}")
    return int(part), int(parts)


def _progress(row: Row, done: int, total: int) -> None:
    error = f", {row.error['type']}" if row.error else ""
    note(
        f"{done}/{total} {row.id} {row.method}: Pass@1 {row.pass_at_1:.3f}, "
        f"{row.seconds:.1f} s{error}"
    )
