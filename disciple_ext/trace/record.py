"""A record of what inference did: the events of its runs as bounded, JSON-safe data.

:class:`Recorder` is an observer, and :class:`Record` is what it makes. Texts are stored as what
each step added, beside where each particle came from; ``docs/reference/schema.md`` has the fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ..errors import DiscipleError, ProgramError, UsageError
from ..records.events import (
    AttemptFailed,
    AttemptStarted,
    Event,
    Observer,
    PlannerAnswered,
    RunStarted,
)
from ..records.result import Attempt, Result
from .llamppl import history
from .run import RunRecorder, clean

__all__ = ["SCHEMA", "Record", "Recorder"]

SCHEMA = 1
KIND = "disciple-ext trace"
_LIMIT = 4_000_000
_LONGEST_SOURCE = 20_000
_LONGEST_ERROR = 5_000
_MOST_ATTEMPTS = 50


class Record:
    """What inference did, as data.

    Attributes:
        data: the record, schema 1: JSON-safe, every text untrusted.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        # Refused early: the viewer would show a record of another schema wrongly, and say nothing.
        if data.get("kind") != KIND or data.get("schema") != SCHEMA:
            raise UsageError(
                f"no trace of this version: kind {data.get('kind')!r}, schema "
                f"{data.get('schema')!r}; it reads {KIND!r}, schema {SCHEMA}"
            )
        self.data: dict[str, Any] = dict(data)

    def __repr__(self) -> str:
        runs = self.data["runs"]
        return f"<Record: {len(runs)} runs, {sum(len(r['steps']) for r in runs)} steps>"

    def to_json(self) -> str:
        """The record as one line of JSON."""
        return json.dumps(self.data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))

    def llamppl(self, run: int = -1) -> list[dict[str, Any]]:
        """One run as LLaMPPL's own record (its ``SMCRecord.history``), which its viewer reads.

        Args:
            run: index of the run; the last one by default.

        Raises:
            UsageError: there is no such run.
        """
        try:
            chosen = self.data["runs"][run]
        except IndexError:
            raise UsageError(f"the record has {len(self.data['runs'])} runs, none {run}") from None
        return history(chosen)

    def to_html(self, *others: Record) -> str:
        """The viewer's page, which needs nothing but itself; with others, to compare them."""
        from .viewer import page

        return page((self, *others))

    def save(self, path: str | Path) -> None:
        """Write the viewer to ``NAME.html``, or the data to ``NAME.json``.

        Raises:
            UsageError: the name ends in neither.
        """
        # The name is looked at before the page is made: a wrong one should not cost that work.
        html = target(path) == "html"
        Path(path).write_text(self.to_html() if html else self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Record:
        """Read back what :meth:`save` wrote, of either kind.

        Raises:
            UsageError: the file cannot be read, or holds no record.
        """
        from .viewer import embedded

        try:
            text = Path(path).read_text(encoding="utf-8")
            # By its first character, not its name: a page may have been renamed.
            data = embedded(text) if text.lstrip()[:1] == "<" else json.loads(text)
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"cannot read the trace {path}: {error}") from error
        if not isinstance(data, dict):
            raise UsageError(f"{path} is no trace")
        return cls(data)

    def show(self) -> None:
        """Open the viewer: in a notebook below the cell, else in the browser."""
        from .viewer import show

        show(self.to_html())


def target(path: str | Path) -> Literal["html", "json"]:
    """What a trace's file is to hold, by its name.

    Raises:
        UsageError: the name ends in neither ``.html`` nor ``.json``, or its folder is not there.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".html", ".json"):
        raise UsageError(f"a trace is written to a name.html or name.json, not to {path}")
    if not Path(path).absolute().parent.is_dir():
        raise UsageError(f"cannot write the trace {path}: its folder is not there")
    return "html" if suffix == ".html" else "json"


class Recorder(Observer):
    """An observer that makes a :class:`Record` of what it hears.

    Its size is bounded: a run that would take more than what is left goes on without its
    particles' steps, and earlier runs lose theirs when a new one needs the room. The record says
    what was left out.

    Args:
        limit: bytes of JSON that the record may take, about.
    """

    detail = True
    """Asks runs to say where each change of a weight comes from."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._runs: list[RunRecorder] = []
        self._attempt = 0
        self._tried: dict[int, dict[str, Any]] = {}
        self._about: dict[str, Any] = {}
        self._answer: dict[str, Any] | None = None

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case AttemptStarted(attempt=number):
                self._attempt = number
            case PlannerAnswered():
                self._tried[event.attempt] = _tried(event.source, planning=event.seconds)
            case AttemptFailed():
                tried = self._tried.setdefault(event.attempt, _tried(""))
                tried["outcome"], tried["error"] = event.kind, clean(event.error, _LONGEST_ERROR)
            case RunStarted():
                self._begin(event)
            case _:
                if not self._runs or self._runs[-1].over:  # a sampler's run, without an outer loop
                    if type(event).__name__ in ("ProgramPrinted", "PlannerWaiting"):
                        return
                    self._begin(None)
                self._runs[-1](event)

    def about(self, **facts: Any) -> None:
        """Note what the events do not say: task, seed, follower, measure and program."""
        source = facts.pop("program", None)
        if source is not None:
            self._attempt = 1
            self._tried[1] = _tried(source)
        self._about |= {k: clean(v, 5000) if isinstance(v, str) else v for k, v in facts.items()}

    def close(self, outcome: Result | DiscipleError) -> Record:
        """Note what came of it all: the attempts, and the answer if there is one."""
        for number, attempt in enumerate(outcome.attempts[:_MOST_ATTEMPTS], 1):
            tried = self._tried.setdefault(number, _tried(attempt.program))
            tried |= _came_of(attempt)
        if isinstance(outcome, Result):
            text, rule = outcome.text, outcome.text_rule
            said = {"check": outcome.check, "verified": outcome.verified, "rule": rule}
            chosen = None if text is None else clean(text, 100_000)
            self._answer = {"text": chosen, **said, "ess": round(outcome.ess, 4)}
        elif not outcome.attempts:
            # With attempts, the error is that of the last one, and has its place already.
            tried = self._tried.setdefault(max(self._attempt, 1), _tried(""))
            tried["outcome"], tried["error"] = (
                type(outcome).__name__,
                clean(str(outcome), _LONGEST_ERROR),
            )
            traceback = outcome.traceback if isinstance(outcome, ProgramError) else ""
            tried["traceback"] = clean(traceback, _LONGEST_ERROR)
        return self.record()

    def record(self) -> Record:
        """The record so far."""
        from ..version import __version__

        data = {
            "kind": KIND,
            "schema": SCHEMA,
            "version": __version__,
            **{"task": "", "seed": None, "follower": "", **self._about},
            "answer": self._answer,
            "attempts": [{"number": n, **tried} for n, tried in sorted(self._tried.items())],
            "runs": [run.to_dict() for run in self._runs],
        }
        return Record(data)

    def _begin(self, started: RunStarted | None) -> None:
        # What comes last is what the answer came from: it may take at least half.
        for run in self._runs:
            if sum(r.size for r in self._runs) > self._limit // 2:
                # The oldest first, and only as many as must be.
                run.forget()
        left = self._limit - sum(r.size for r in self._runs)
        self._runs.append(RunRecorder(started, self._attempt, left))


def _tried(source: str, planning: float | None = None) -> dict[str, Any]:
    seconds = None if planning is None else round(planning, 3)
    program = clean(source, _LONGEST_SOURCE)
    return {"program": program, "outcome": "", "error": None, "traceback": "", "planning": seconds}


def _came_of(attempt: Attempt) -> dict[str, Any]:
    error = None if attempt.error is None else clean(attempt.error, _LONGEST_ERROR)
    traceback = clean(attempt.traceback, _LONGEST_ERROR)
    spent = {"seconds": attempt.seconds, "cost": attempt.cost}
    return {"outcome": clean(attempt.outcome, 100), "error": error, "traceback": traceback, **spent}
