"""``disciple run``, ``plan`` and ``exec``: from a task, or a saved program, to an answer."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ..errors import UsageError
from ..protocol.measure import PLAIN, BaseMeasure
from ..records.program import Program
from ..records.result import Result
from ..records.task import Limits, Task
from .console import answer, answer_json, note
from .failure import cost, failing
from .files import read_program, read_task
from .follower import FollowerName
from .measure import MEASURE_EXAMPLE, measuring
from .planner import LibraryMode, MaxCost, NoCache, PlannerName, PricesFile, Record, make_planner
from .progress import Progress
from .view import Trace, tracing

__all__ = ["EXEC_EXAMPLES", "PLAN_EXAMPLES", "RUN_EXAMPLES", "exec_", "plan", "run"]

RUN_EXAMPLES = (
    'disciple run "Please generate a sentence with exactly 82 characters."',
    'disciple run "Please generate a sentence with exactly 12 words." -n 16 --seed 7 --json',
    'disciple run "Write a haiku about rain." --planner openai:gpt-4o --max-cost 0.50',
    'disciple run "Write a haiku about rain." --planner openai:gpt-4o --record answers',
    'disciple run "Write a haiku about rain." --planner replay:answers',
    "disciple run - --verify 'python verify.py' < task.txt",
    'disciple run "Write a haiku." --planner openai:gpt-4o --service taste=judge:gpt-4o-mini',
    'disciple run "Please generate a sentence with exactly 12 words." --trace run.html',
    MEASURE_EXAMPLE,
)
PLAN_EXAMPLES = (
    'disciple plan "Please generate a sentence with exactly 12 words." > twelve.py',
    'disciple plan "Write a haiku about rain." --planner openai:gpt-4o',
)
EXEC_EXAMPLES = (
    "disciple exec twelve.py",
    "disciple exec twelve.py --follower hf:./my-model --json",
    "disciple exec mine.py --sandbox none  # a program that you wrote yourself",
    "disciple exec twelve.py --alpha 1.5 --proposal-temperature 0.8",
    "disciple exec steps.py --service steps=python:checks.py:steps",
)

TaskText = Annotated[
    str, typer.Argument(help="What to write, in plain language; - reads standard input.")
]
SamplerName = Annotated[
    str,
    typer.Option(
        "--sampler",
        help="smc, is, rs, ..., with options as in smc:ess_threshold=0.7,scheme=systematic; "
        "`disciple samplers` lists all.",
    ),
]
Particles = Annotated[int, typer.Option("-n", "--particles", help="Number of particles.")]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same result.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds that one program may run.")]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", help="Limit of each text; default: the program's.")
]
Verify = Annotated[
    str | None,
    typer.Option(
        "--verify", help="A command that reads an answer on standard input and exits 0 if it holds."
    ),
]
Sandbox = Annotated[
    str | None,
    typer.Option(
        "--sandbox",
        metavar="LEVEL",
        help="landlock+seccomp (default), seccomp (for kernels without Landlock), process or none. "
        "The last two are no boundary; at none a program has all your rights. "
        "`disciple doctor` says what holds here.",
    ),
]
ServiceSpecs = Annotated[
    list[str] | None,
    typer.Option(
        "--service",
        metavar="NAME=SPEC",
        help="What programs may call on the host, as NAME: judge:MODEL, reward:PATH, steps:PATH or "
        "python:FILE.py:OBJECT (may be given several times).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress and no summary.")]


@measuring
def run(
    task: TaskText,
    planner: PlannerName = "expert",
    follower: FollowerName = None,
    sampler: SamplerName = "smc",
    n: Particles = 32,
    seed: Seed = 0,
    timeout: Timeout = 120.0,
    retries: Annotated[
        int, typer.Option("--retries", help="Programs in all, the first included.")
    ] = 3,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    no_cache: NoCache = False,
    record: Record = None,
    prices: PricesFile = None,
    library: LibraryMode = "off",
    verify: Verify = None,
    sandbox: Sandbox = None,
    service: ServiceSpecs = None,
    dry_run: Annotated[
        bool,
        typer.Option(help="Rehearse a program that a model wrote, with a random model, first."),
    ] = True,
    trace: Trace = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    *,
    measure: dict[str, Any],
) -> None:
    """Turn a task into a text that obeys it, and print the text."""
    asked = Task(
        read_task(task),
        n=n,
        limits=Limits(timeout=timeout, max_tokens=max_tokens),
        verify=_command(verify),
    )
    with (
        # The outermost: what it shows comes after the live view has gone and the trace is written.
        failing(as_json=as_json, quiet=quiet),
        tracing(trace, quiet=quiet) as recorder,
        Progress(follower, quiet=quiet) as progress,
    ):
        from ..loop.steer import self_steer  # loads torch

        result = self_steer(
            asked,
            planner=make_planner(planner, no_cache=no_cache, record=record, prices=prices),
            follower=follower,
            sampler=sampler,
            seed=seed,
            measure=measure,
            retries=retries,
            max_cost=max_cost,
            library=library,
            sandbox=sandbox,
            services=_services(service),
            dry_run=dry_run,
            on_event=progress,
            trace=recorder or False,
        )
    show(result, as_json=as_json, quiet=quiet)


def plan(
    task: TaskText,
    planner: PlannerName = "expert",
    follower: Annotated[
        str | None,
        typer.Option(
            "--follower", help="The model of --planner follower; default: as for `disciple run`."
        ),
    ] = None,
    max_cost: MaxCost = None,
    no_cache: NoCache = False,
    record: Record = None,
    prices: PricesFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print source, planner, hash, usage and cost as JSON.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Print the program for a task, without running it."""
    asked = Task(read_task(task))
    with failing(as_json=as_json, quiet=quiet), Progress(follower, quiet=quiet) as progress:
        from ..loop.steer import aplan  # loads torch

        writer = make_planner(planner, no_cache=no_cache, record=record, prices=prices)
        work = aplan(asked, planner=writer, follower=follower, max_cost=max_cost, on_event=progress)
        made = asyncio.run(work)
    program = made.program
    if as_json:
        named = {"source": program.source, "planner": program.planner, "hash": program.hash}
        spent = {"usage": asdict(made.usage), "cost": made.cost}
        answer_json({**named, **spent, "cached_answer": made.cached_answer})
    else:
        answer(program.source.rstrip("\n"))
        if not quiet and program.planner != "expert":
            note(f"cost: {cost(made.cost)}")


@measuring
def exec_(
    program: Annotated[str, typer.Argument(help="A program's file, or - for standard input.")],
    task: Annotated[
        str, typer.Option("--task", help="The task, for programs without prompts of their own.")
    ] = "(none)",
    follower: FollowerName = None,
    sampler: SamplerName = "smc",
    n: Particles = 32,
    seed: Seed = 0,
    timeout: Timeout = 120.0,
    max_tokens: MaxTokens = None,
    verify: Verify = None,
    sandbox: Sandbox = None,
    service: ServiceSpecs = None,
    trace: Trace = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    *,
    measure: dict[str, Any],
) -> None:
    """Run a saved program, and print the text."""
    # Before anything is loaded: a file that is not there should not cost seconds.
    source = read_program(program)
    asked = Task(
        task,
        n=n,
        limits=Limits(timeout=timeout, max_tokens=max_tokens),
        verify=_command(verify),
    )
    with (
        tracing(trace, quiet=quiet) as recorder,
        Progress(follower, quiet=quiet) as progress,
    ):
        from ..loop.steer import run_program  # loads torch

        result = run_program(
            # Not trusted: a saved program may be a model's, so it gets the strongest sandbox.
            Program(source, planner="user"),
            asked,
            follower=follower,
            sampler=sampler,
            seed=seed,
            measure=measure,
            sandbox=sandbox,
            services=_services(service),
            on_event=progress,
            trace=recorder or False,
        )
    show(result, as_json=as_json, quiet=quiet)


def show(result: Result, *, as_json: bool, quiet: bool) -> None:
    """Print a result, and exit with 1 if no answer passed."""
    if as_json:
        answer_json(result.to_dict())
    elif result.text is not None:
        answer(result.text)
    if not quiet and not as_json:
        note(_summary(result))
    if not result.passed:
        raise typer.Exit(1)


def _summary(result: Result) -> str:
    """One line on where the answer comes from, for standard error."""
    if result.text is None:
        return "no particle is alive: there is no answer"
    said = {True: "passed", False: "failed", None: "none"}
    parts = [f"check: {said[result.check]}"]
    if result.verified is not None:
        parts.append(f"verifier: {said[result.verified]}")
    weight = sum(p.weight for p in result.particles if p.text == result.text)
    parts.append(f"weight: {weight:.3f} of {len(result.particles)} particles")
    parts.append(f"ESS: {result.ess:.1f}")
    if result.log_evidence is not None:
        parts.append(f"log evidence: {result.log_evidence:.2f}")
    parts.append(f"seed: {result.seed}")
    measure = BaseMeasure.from_dict(result.measure)
    if measure != PLAIN:
        parts.append(f"base measure: {measure}")
    if result.program["planner"] not in ("expert", "user"):
        parts.append(f"cost: {cost(result.cost)}")
    return ", ".join(parts)


def _services(given: list[str] | None) -> dict[str, str]:
    """Name to spec."""
    services: dict[str, str] = {}
    for text in given or ():
        name, equals, spec = text.partition("=")
        if not (name and equals and spec):
            raise UsageError(
                f"--service {text!r}: write NAME=SPEC, such as judge=judge:gpt-4o-mini"
            )
        if name in services:
            raise UsageError(f"the service {name!r} is given twice")
        services[name] = spec
    return services


def _command(text: str | None) -> list[str] | None:
    """The words of a verifier's command line."""
    if text is None:
        return None
    try:
        # Split here and run without a shell: nothing of the answer is ever part of a command line.
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--verify {text!r} is not a command: {error}") from error
    if not words:
        raise UsageError("--verify is empty; give a command, for example 'python verify.py'")
    return words
