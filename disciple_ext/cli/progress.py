"""Live progress of a run on a terminal; silent where standard error is none."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.text import Text

from ..models.default import EMBEDDED, FOLLOWER
from ..records.events import (
    AttemptFailed,
    AttemptStarted,
    Event,
    PlannerAnswered,
    PlannerWaiting,
    PlannerWriting,
    ProgramPrinted,
    RunFinished,
    RunStarted,
    StepDone,
)
from .console import errors, escape, note, visible
from .failure import cost

__all__ = ["Progress", "hush"]


def hush(follower: str | None = EMBEDDED) -> None:
    """No progress bars while weights load, where that takes no time.

    Followers of Hugging Face may be downloaded, and then their bars are of use.
    """
    # Without a name and a setting it is one that lies on this machine.
    if (follower or os.environ.get(FOLLOWER) or EMBEDDED) != EMBEDDED:
        return
    # setdefault: a user who has set it wants it so.
    os.environ.setdefault("TQDM_DISABLE", "1")
    # A plugin may have loaded transformers already, which reads that only once.
    logging = sys.modules.get("transformers.utils.logging")
    if logging is not None:
        logging.disable_progress_bar()


_LOG = logging.getLogger("disciple_ext")
"""What the library has to say to a person; nothing of it is needed to understand an answer."""


def _nothing(record: logging.LogRecord) -> bool:
    return False


_MOST_PRINTED = 20_000
"""Characters that a program may print onto the terminal, in all its runs."""


class Progress:
    """An observer of events that draws where a run stands, and shows what programs print.

    While it is entered, what is printed goes to standard error: a program that runs in this process
    (at the level ``none``) cannot get between the answer and its reader by accident.

    Args:
        follower: spec of the follower, or None for the default.
        quiet: say nothing at all, failed attempts included.
    """

    def __init__(self, follower: str | None, *, quiet: bool = False) -> None:
        hush(EMBEDDED if quiet else follower)
        self._quiet = quiet
        self._started = time.monotonic()
        self._head = "starting"
        self._status = ""
        self._best = ""
        self._until = 0.0  # time.monotonic() at which the run's time is up
        self._ran = 0.0
        self._printed = 0
        self._costs: list[float | None] = []
        self._redirected = contextlib.redirect_stdout(_Lines(self._print))
        console = errors()
        self._live = (
            Live(
                console=console,
                refresh_per_second=8,
                transient=True,
                # `_redirected` takes standard output, and only one of the two can.
                redirect_stdout=False,
                get_renderable=self._view,
            )
            if console.is_terminal and not quiet
            else None
        )

    def __enter__(self) -> Self:
        if self._quiet:
            _LOG.addFilter(_nothing)
        if self._live is not None:
            self._live.start()
        # After the live view has started, and taken back before it stops: they nest.
        self._redirected.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._redirected.__exit__(kind, error, trace)
        if self._live is not None:
            self._live.stop()
        _LOG.removeFilter(_nothing)
        # Other errors carry their cost, and `failing` shows it.
        if kind is KeyboardInterrupt and any(paid != 0.0 for paid in self._costs):
            spent = None if None in self._costs else sum(paid or 0.0 for paid in self._costs)
            self._say(f"interrupted after {len(self._costs)} programs; cost: {cost(spent)}")

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case AttemptStarted():
                self._head = f"program {event.attempt} of {event.retries}"
                self._status, self._best = "asking the planner", ""
            case PlannerWaiting():
                waiting = f"; waiting {event.seconds:.0f} s" if event.seconds else ""
                self._say(f"planner: {visible(event.why)}{waiting}")
            case PlannerWriting():
                self._status = f"the planner writes: {event.characters:,} characters"
            case PlannerAnswered():
                self._costs.append(event.cost)
                self._status = "loading the follower"
            case AttemptFailed():
                self._say(f"program {event.attempt} failed: {visible(event.error)}")
            case ProgramPrinted():
                self._print(event.text)
            case RunStarted():
                self._status = f"{event.sampler}, {event.n} particles"
                self._ran = time.monotonic()
                self._until = self._ran + event.timeout
            case StepDone():
                pace = event.tokens / max(1e-3, time.monotonic() - self._ran)
                self._status = (
                    f"step {event.step}: {event.alive} running, {event.finished} ended, "
                    f"ESS {event.ess:.1f}, {event.tokens:,} tokens, {pace:,.0f} a second"
                )
                self._best = event.best_text
            case RunFinished():
                self._until = 0.0
                self._status = f"{event.tokens:,} tokens in {event.seconds:.1f} s"

    def _say(self, message: str) -> None:
        if self._quiet:
            return
        if self._live is not None:
            # As Text: in a plain string, rich would take brackets for its markup.
            self._live.console.print(Text(escape(message)))
        else:
            note(message)

    def _print(self, text: str) -> None:
        """Show lines that a program printed, so that they cannot pass for ours."""
        left = _MOST_PRINTED - self._printed
        self._printed += len(text)
        if left <= 0:
            return
        for line in text[:left].split("\n"):
            self._say(f"program: {visible(line)}")
        if len(text) >= left:
            self._say("(the program printed more than is shown here)")

    def _view(self) -> Group:
        now = time.monotonic()
        spent = f"{now - self._started:.0f} s"
        if self._until:
            spent += f", at most {max(0.0, self._until - now):.0f} s left"
        line = Text(f"{self._head} · {self._status} · {spent}", style="bold")
        # Its end is what changes; a long text would fill the screen at each refresh.
        best = Text(visible(self._best)[-300:], style="dim")
        return Group(line, best) if self._best else Group(line)


class _Lines(io.TextIOBase):
    """Standard output while a run goes on: whole lines are handed on, nothing is written."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._line = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        if lines:
            self._take("\n".join(lines))
        return len(text)
