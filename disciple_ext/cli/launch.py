"""``disciple eval scale`` and ``disciple eval many``: what launches evaluations, as they are named.

Both take the name of a suite and the options of its command, and add what differs between the
processes that they start.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import EvaluationError, UsageError
from . import evaluate
from .console import answer, answer_json, examples, note

if TYPE_CHECKING:
    from ..evaluation.logs.log import Row

__all__ = ["MANY_EXAMPLES", "SCALE_EXAMPLES", "add_to", "many", "scale"]

SCALE_EXAMPLES = (
    "disciple eval scale --followers embedded,hf:PATH collie --limit 10 --out runs/scale",
    "disciple report runs/scale --html scale.html",
)
MANY_EXAMPLES = (
    "disciple eval many --workers 2 collie --method smc --limit 10 --out runs/many",
    "disciple eval many --workers 8 --gpus 1 --ray auto collie --follower hf:PATH --out runs/many",
)
# What follows the suite's name is not ours to parse: it goes to `disciple eval SUITE`.
_REST = {"ignore_unknown_options": True, "allow_interspersed_args": False}

Suite = Annotated[str, typer.Argument(metavar="SUITE", help="The suite: collie, puzzles, ...")]
Options = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SUITE-OPTIONS", help="The options of `disciple eval SUITE`, --out among them."
    ),
]


def scale(
    suite: Suite,
    followers: Annotated[
        str, typer.Option("--followers", metavar="A,B,...", help="Followers, commas between.")
    ],
    options: Options = None,
) -> None:
    """The same evaluation with several followers: a log for each in the directory of --out.

    The options of this command come before SUITE, those of `disciple eval SUITE` after it.
    """
    settings = _settings(suite, options or [], leave_out={"follower": "--followers names them"})
    from ..evaluation.many.followers import places, run_each

    logs = places(evaluate.names(followers, "--followers"), settings["out"])
    codes = run_each(suite, options or [], logs, lambda spec, place: note(f"{spec}: {place}"))
    if 130 in codes.values():
        raise KeyboardInterrupt
    failed = [spec for spec, code in codes.items() if code]
    done = [logs[spec] for spec in codes if spec not in failed]
    if done:
        _show(done, settings["as_json"])
    if failed:
        raise EvaluationError(
            f"{len(failed)} of {len(codes)} followers could not be measured: {', '.join(failed)}. "
            "What each log holds is kept; go on with --resume"
        )


def many(
    suite: Suite,
    workers: Annotated[
        int, typer.Option("--workers", help="Workers, each with a follower of its own.")
    ],
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="ADDRESS",
            help="Of a Ray cluster: auto, HOST:PORT or ray://HOST:PORT; default what RAY_ADDRESS "
            "names, else this machine.",
        ),
    ] = None,
    cpus: Annotated[float, typer.Option("--cpus", help="CPU cores for each worker.")] = 1.0,
    gpus: Annotated[float, typer.Option("--gpus", help="GPUs for each worker.")] = 0.0,
    options: Options = None,
) -> None:
    """One evaluation on many machines, through Ray: a shard for each worker, one log in --out.

    The options of this command come before SUITE, those of `disciple eval SUITE` after it.
    """
    left_out = {
        "shard": "--workers says how many there are",
        "equal_tokens": "tokens are made equal on a single machine",
    }
    settings = _settings(suite, options or [], leave_out=left_out)
    arguments = [suite, *(options or [])]
    if settings["data"] is not None:
        # A worker starts in another folder. Given again behind the first, it is the one that
        # counts.
        arguments += ["--data", str(settings["data"].absolute())]
    if settings["max_cost"] is not None:
        # Workers share no purse: each gets its part, so that all of them keep to the limit.
        arguments += ["--max-cost", repr(settings["max_cost"] / max(workers, 1))]
    from ..evaluation.logs.follower import follower_spec
    from ..evaluation.many.cluster import Workers, evaluate_many
    from ..evaluation.scores.metrics import summarise

    if settings["follower"] is None:
        # Chosen once, here: machines may differ in what they would take.
        spec = follower_spec(None, settings["out"], resume=settings["resume"])
        arguments += ["--follower", spec]
    rows = evaluate_many(
        arguments,
        Workers(workers, ray, cpus, gpus),
        out=settings["out"],
        resume=settings["resume"],
        on_row=_progress,
        on_note=note,
    )
    summary = summarise(rows)
    if settings["as_json"]:
        answer_json(summary.to_dict())
    else:
        answer(summary.table())


def add_to(app: typer.Typer) -> None:
    """Offer both commands in the group of evaluations."""
    app.command("scale", context_settings=_REST, epilog=examples(*SCALE_EXAMPLES))(scale)
    app.command("many", context_settings=_REST, epilog=examples(*MANY_EXAMPLES))(many)


def _settings(suite: str, options: list[str], leave_out: dict[str, str]) -> dict[str, Any]:
    """The settings that the options of ``disciple eval SUITE`` give, read as that command does.

    Raises:
        UsageError: there is no such suite, or an option that the launcher gives itself.
    """
    commands = getattr(typer.main.get_command(evaluate.app), "commands", {})
    # Asked of the command itself, so that suites of plugins are among them.
    suites = sorted(set(commands) - {"scale", "many", "merge"})
    if suite not in suites:
        raise UsageError(f"unknown suite {suite!r}; there are: {', '.join(suites)}")
    with commands[suite].make_context(f"disciple eval {suite}", list(options)) as context:
        for name, instead in leave_out.items():
            source = context.get_parameter_source(name)
            # Not by its value: an option that is given at its default is given all the same.
            if source is not None and source.name == "COMMANDLINE":
                given = name.replace("_", "-")
                raise UsageError(f"leave --{given} out: {instead}")
        return dict(context.params)


def _progress(part: int, row: Row) -> None:
    error = f", {row.error['type']}" if row.error else ""
    note(
        f"shard {part}: {row.id} {row.method}: Pass@1 {row.pass_at_1:.3f}, {row.seconds:.1f} s"
        f"{error}"
    )


def _show(logs: list[Path], as_json: bool) -> None:
    from ..evaluation.report.build import build
    from ..evaluation.report.markdown import render_table

    made = build(logs)
    if as_json:
        answer_json({"report": made.to_dict()})
        return
    table = made.table("followers") or made.table("pass_at_1")
    assert table is not None, "every report has it"
    answer(render_table(table))
