"""``disciple bench``: what things cost on this machine."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from .console import answer, answer_json, examples, note, table
from .progress import hush

if TYPE_CHECKING:
    from ..bench.log import Measurement

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Measure what things cost on this machine.")

SANDBOX_EXAMPLES = ("disciple bench sandbox", "disciple bench sandbox --pairs 25 --json")
ENGINE_EXAMPLES = (
    "disciple bench engine --quick",
    "disciple bench engine --out runs/engine",
    "disciple bench engine --case b,c --model 32k -n 32 --implementation ours,floor",
    "disciple bench engine --device cuda --out runs/gpu",
    "disciple bench engine --report runs/engine --page docs/reference/benchmarks.md "
    "--figure docs/reference/img/benchmarks.svg",
)

MASKS_EXAMPLES = (
    "disciple bench masks --out runs/masks",
    "disciple bench masks --case date,json --vocabulary 32k",
    "disciple bench masks --report runs/masks --page docs/reference/benchmarks.md",
)


@app.command("sandbox", epilog=examples(*SANDBOX_EXAMPLES))
def sandbox(
    pairs: Annotated[
        int, typer.Option("--pairs", min=1, help="Pairs of runs, in and out of the sandbox.")
    ] = 9,
    level: Annotated[
        str | None, typer.Option("--sandbox", metavar="LEVEL", help="The level to measure.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """What the sandbox adds to the same runs at the level none, measured in turns."""
    hush()
    from ..bench.sandbox import measure

    note(f"measuring {pairs} pairs of runs; leave the machine alone for about a minute")
    costs = measure(pairs, level)
    if as_json:
        answer_json(asdict(costs))
        return
    inside, outside = costs.wall_seconds
    memory = "not to be had here" if costs.private_mb is None else f"{costs.private_mb:.0f} MB"
    rows = [
        ("first run waits for the zygote", f"{costs.zygote_s:.2f} s"),
        ("worker locked and ready", "{:.1f} ms (95 %: {:.1f} ms)".format(*costs.ready_ms)),
        ("SMC, N = 32, wall time", f"x {costs.wall_ratio:.3f} ({inside:.2f} s / {outside:.2f} s)"),
        ("added to a batch of 32 draws", f"{costs.batch_us:.0f} us"),
        ("memory of a worker's own", memory),
    ]
    answer(table(rows))


# Long: each option is a parameter.
@app.command("engine", epilog=examples(*ENGINE_EXAMPLES))
def engine(
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Directory of the log; what is in it is not measured again."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A small selection, CPU seconds only: about two minutes."),
    ] = False,
    case: Annotated[
        str | None, typer.Option("--case", help="Cases, of a,b,c,d,e; default: all.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="Of embedded,smollm2,8k,32k,128k; default: all that are here."
        ),
    ] = None,
    n: Annotated[
        str | None, typer.Option("-n", "--particles", help="Particles; default: 8,32,128.")
    ] = None,
    implementation: Annotated[
        str | None,
        typer.Option(
            "--implementation",
            help="Of ours,sandbox,stock,tuned,loop,loop-shared,floor; default: all.",
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="Of cpu,wall,memory; default: all.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", min=1, help="Tokens of a particle; default: 32.")
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option("--repeats", min=1, help="Repeats; default: 5 (stock: 3 at most)."),
    ] = None,
    sweeps: Annotated[
        bool | None,
        typer.Option("--sweeps/--no-sweeps", help="Over N and T, too; default: with all cases."),
    ] = None,
    device: Annotated[
        str, typer.Option("--device", help="cpu, or cuda with a random Llama-3.2-1B.")
    ] = "cpu",
    level: Annotated[
        str | None, typer.Option("--sandbox", metavar="LEVEL", help="The level to measure.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", help="Measure nothing: show the log in DIR."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", help="With --report: a page for the tables.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="With --report: a file for the SVG figure.")
    ] = None,
    part: Annotated[
        str | None,
        typer.Option("--part", metavar="NAME", help="With --page: the part of it; default: main."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ratios as JSON.")] = False,
) -> None:
    """Ours against LLaMPPL, a bare Hugging Face loop and the forward passes alone, in turns."""
    hush()
    if (page or figure) and not report:
        raise UsageError("--page and --figure go with --report DIR")
    if part and not page:
        raise UsageError("--part goes with --page FILE")
    if report:
        _report(report, page, figure, part, as_json)
        return
    from ..bench import engine as bench
    from ..bench.log import machine
    from ..models.store import holdings

    # No error: scripts that measure on every machine go on without this one.
    if device != "cpu" and not _has_cuda():
        note("there is no CUDA device here: nothing was measured")
        return
    chosen = bench.QUICK if quick else bench.GPU if device != "cpu" else bench.Selection()
    here = {held.model.name for held in holdings() if held.usable}
    if model is None and "smollm2" not in here:
        chosen = replace(chosen, models=tuple(m for m in chosen.models if m != "smollm2"))
    wanted: dict[str, Any] = {
        "cases": _list(case, "--case"),
        "models": _list(model, "--model"),
        "n": _numbers(n),
        "implementations": _list(implementation, "--implementation"),
        "metrics": _list(metric, "--metric"),
        "tokens": tokens,
        "repeats": repeats,
        # Who names cases, models or particles wants these and no sweep over others.
        "sweeps": sweeps if sweeps is not None or not (case or model or n) else False,
        "stock_everywhere": implementation is not None or None,
        "level": level,
        "device": device,
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    rows = bench.run(replace(chosen, **given), out, _progress)
    _show(rows, machine(device), as_json)


@app.command("masks", epilog=examples(*MASKS_EXAMPLES))
def masks(
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Directory of the log; what is in it is not measured again."),
    ] = None,
    case: Annotated[
        str | None,
        typer.Option("--case", help="Of date,sentence,counted,arithmetic,json; default: all."),
    ] = None,
    size: Annotated[
        str, typer.Option("--vocabulary", help="Vocabularies, of 8k,32k,128k.")
    ] = "32k,128k",
    steps: Annotated[
        int, typer.Option("--steps", min=2, help="Steps of ours, of 32 particles each.")
    ] = 200,
    seconds: Annotated[
        float,
        typer.Option("--seconds", min=0.0, help="CPU seconds for each figure of genlm-control's."),
    ] = 8.0,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", help="Measure nothing: show the log in DIR."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", help="With --report: a page for the table.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """A step under a formal constraint, against genlm-control's, without the model (CPU time)."""
    hush()
    if page and not report:
        raise UsageError("--page goes with --report DIR")
    from ..bench import masks as bench
    from ..bench.log import machine, read_log, read_machine
    from ..bench.masks_table import BEGIN, END, figures, table

    if report:
        rows, where = read_log(report), read_machine(report)
    else:
        cases = _list(case, "--case") or tuple(bench.CASES)
        sizes = _list(size, "--vocabulary") or ()
        rows = bench.run(cases, sizes, out, _told, steps, seconds)
        where = machine(packages=bench.PACKAGES)
    if as_json:
        answer_json({"machine": where, "results": figures(rows)})
    elif page:
        from ..bench.table import into_page

        into_page(page, table(rows, where), BEGIN, END)
        note(f"wrote {page}")
    else:
        answer(table(rows, where))


def _told(row: Measurement, done: int, total: int) -> None:
    value = 1e6 * (row.value or 0.0)
    note(f"{done}/{total} {row.model} {row.case} {row.implementation} {row.metric}: {value:.0f} us")


def _report(
    directory: Path, page: Path | None, figure: Path | None, part: str | None, as_json: bool
) -> None:
    from ..bench.log import read_log, read_machine
    from ..bench.table import into_page, marks, tables

    rows = read_log(directory)
    if figure is not None:
        from ..bench.figure import draw

        draw(rows, figure)
    if page is None:
        _show(rows, read_machine(directory), as_json)
        return
    text = tables(rows, read_machine(directory), level=3 if part else 2)
    if figure is not None:
        # Relative to the page, so that it holds wherever the documentation is put.
        link = Path(os.path.relpath(figure, page.parent)).as_posix()
        text = f"![Ratios by case, shares of the floor, and cost by N]({link})\n\n{text}"
    into_page(page, text, *marks(part))
    note(f"wrote {page}")


def _show(rows: list[Measurement], machine: dict[str, Any], as_json: bool) -> None:
    from ..bench.table import ratios, tables

    if as_json:
        answer_json({"machine": machine, "results": ratios(rows)})
    else:
        answer(tables(rows, machine))


def _progress(row: Measurement, done: int, total: int) -> None:
    unit = "MB" if row.metric == "memory" else "s"
    value = "unknown" if row.value is None else f"{row.value:.3f} {unit}"
    place = f"({row.case}) {row.model} N={row.n} T={row.tokens}"
    note(f"{done}/{total} {place} {row.implementation} {row.metric}: {value}")


def _has_cuda() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def _list(text: str | None, option: str) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError(f"{option} is empty; give names with commas between them")
    return names


def _numbers(text: str | None) -> tuple[int, ...] | None:
    names = _list(text, "-n")
    try:
        return None if names is None else tuple(int(name) for name in names)
    except ValueError:
        raise UsageError(f"-n takes whole numbers with commas between them, not {text!r}") from None
