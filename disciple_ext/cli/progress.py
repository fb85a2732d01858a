"""Live progress of a run on a terminal; silent where standard error is none."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.text import Text

from ..trace.events import (
    AttemptFailed,
    AttemptStarted,
    Event,
    PlannerAnswered,
    RunFinished,
    RunStarted,
    StepDone,
)
from .console import errors, note, visible

__all__ = ["Progress", "hush"]


def hush() -> None:
    """No progress bars while weights load: the embedded follower takes no time.

    Other followers may be downloaded, and then their bars are of use.
    """
    os.environ.setdefault("TQDM_DISABLE", "1")


class Progress:
    """An observer of events that draws where a run stands.

    Args:
        follower: spec of the follower.
        quiet: say nothing at all, failed attempts included.
    """

    def __init__(self, follower: str, *, quiet: bool = False) -> None:
        if quiet or follower == "embedded":
            hush()
        self._quiet = quiet
        self._started = time.monotonic()
        self._head = "starting"
        self._status = ""
        self._best = ""
        console = errors()
        self._live = (
            Live(console=console, refresh_per_second=8, transient=True, get_renderable=self._view)
            if console.is_terminal and not quiet
            else None
        )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case AttemptStarted():
                self._head = f"program {event.attempt} of {event.retries}"
                self._status, self._best = "asking the planner", ""
            case PlannerAnswered():
                self._status = "loading the follower"
            case AttemptFailed():
                self._say(f"program {event.attempt} failed: {visible(event.error)}")
            case RunStarted():
                self._status = f"{event.sampler}, {event.n} particles"
            case StepDone():
                self._status = (
                    f"step {event.step}: {event.alive} running, {event.finished} ended, "
                    f"ESS {event.ess:.1f}, {event.tokens:,} tokens"
                )
                self._best = event.best_text
            case RunFinished():
                self._status = f"{event.tokens:,} tokens in {event.seconds:.1f} s"

    def _say(self, message: str) -> None:
        if self._quiet:
            return
        if self._live is not None:
            self._live.console.print(Text(message))
        else:
            note(message)

    def _view(self) -> Group:
        seconds = time.monotonic() - self._started
        line = Text(f"{self._head} · {self._status} · {seconds:.0f} s", style="bold")
        best = Text(visible(self._best)[-300:], style="dim")
        return Group(line, best) if self._best else Group(line)
