"""The application, and the way from an exception to an exit code."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import Annotated, NoReturn

import typer

from ..errors import DiscipleError, ProgramError
from ..registry.points import plugin_points
from ..version import __version__
from . import (
    bench,
    cache,
    check,
    demo,
    doctor,
    evaluate,
    interrupt,
    judge,
    launch,
    library,
    listing,
    models,
    new_plugin,
    report,
    steer,
    view,
)
from .console import examples, note, visible

__all__ = ["EXIT_CODES", "app", "main", "run"]

EXIT_CODES = {
    0: "an answer whose check and verifier passed, or none was asked",
    1: "it ran, but no answer passed",
    2: "wrong usage: an option, a file, or a task that the planner cannot read",
    3: "the planner gave no runnable program",
    4: "the environment lacks something: sandbox, weights, key",
    124: "out of time before any particle ended, or out of money (--max-cost)",
    130: "interrupted",
}
_CODES = "Exit codes:\n" + "\n".join(f"  {code:<4} {text}" for code, text in EXIT_CODES.items())

app = typer.Typer(
    name="disciple",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\n" + _CODES,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"disciple {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")
    ] = False,
) -> None:
    """Steer a small language model with inference programs that a planner writes."""
    if debug:
        os.environ["DISCIPLE_DEBUG"] = "1"


app.command("run", epilog=examples(*steer.RUN_EXAMPLES))(steer.run)
app.command("plan", epilog=examples(*steer.PLAN_EXAMPLES))(steer.plan)
app.command("exec", epilog=examples(*steer.EXEC_EXAMPLES))(steer.exec_)
app.command("check", epilog=examples(*check.EXAMPLES))(check.check)
app.command("demo", epilog=examples(*demo.EXAMPLES))(demo.demo)
app.command("doctor", epilog=examples(*doctor.EXAMPLES))(doctor.doctor)
app.command("samplers", epilog=examples("disciple samplers --json"))(listing.samplers)
app.command("plugins", epilog=examples("disciple plugins --json"))(listing.plugins)
app.add_typer(new_plugin.app, name="new-plugin")
app.add_typer(cache.app, name="cache", epilog=examples(*cache.EXAMPLES))
app.add_typer(library.app, name="library")
app.add_typer(models.app, name="models")
app.add_typer(evaluate.app, name="eval")
launch.add_to(evaluate.app)
app.add_typer(bench.app, name="bench")
app.command("judge", epilog=examples(*judge.EXAMPLES))(judge.judge)
app.command("view", epilog=examples(*view.EXAMPLES))(view.view)
app.command("report", epilog=examples(*report.EXAMPLES))(report.report)


def main() -> NoReturn:
    """Run the command line of this process, and exit."""
    code = run()
    if code in (124, 130):
        # A run may still be inside torch, in a thread that Python cannot end: finalising the
        # interpreter would abort there. What is to be seen is flushed, and no file is open.
        os._exit(code)
    sys.exit(code)


def run(args: list[str] | None = None) -> int:
    """Run the command line.

    Args:
        args: the arguments, or None for those of the process.

    Returns:
        The exit code: see :data:`EXIT_CODES`.
    """
    interrupt.install()
    # Python's own shows a line of our source, which says nothing to a user.
    warnings.showwarning = _show_warning
    code = _run(args)
    if interrupt.happened():
        note("interrupted")
        code = 130
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone; keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    """One line, without the source line that raised it."""
    note(f"warning: {message}")


def _add_plugin_commands() -> None:
    """Let installed plugins add commands and suites; without any, nothing is loaded."""
    # Only then: loading the registry imports LLaMPPL and torch, for which `--help` should not wait.
    if plugin_points():
        from ..registry.plugins import load_plugins

        registry = load_plugins()
        for suite in registry.tables["suites"]:
            if registry.owners["suites", suite] != "builtin":
                evaluate.add_suite(suite)
        registry.manager.hook.register_commands(cli=app)


def _run(args: list[str] | None) -> int:
    try:
        _add_plugin_commands()
        code = app(args, prog_name="disciple", standalone_mode=False)
    except DiscipleError as error:
        _debug()
        # A program's message stays on one line: it cannot go on with lines that pass for ours.
        message = visible(str(error)) if isinstance(error, ProgramError) else str(error)
        note(f"error: {message}")
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:
        if interrupt.happened():
            return 130
        show = getattr(error, "show", None)  # the parser's own errors know how to show themselves
        if show is not None:
            show()
            return int(getattr(error, "exit_code", 2))
        _debug()
        what = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError):
            note(f"error: {error}")
            return 1
        note(f"internal error: {what} (`disciple --debug ...` shows the traceback)")
        return 1
    return code if isinstance(code, int) else 0


def _debug() -> None:
    if os.environ.get("DISCIPLE_DEBUG"):
        note(traceback.format_exc())  # escaped: it holds messages of a program's exceptions
