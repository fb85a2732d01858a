"""Tables of what went wrong: checks against the ground truth, errors by retry, messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..scores.diagnosis import CONFUSION, confusion, messages, outcomes, weighted_confusion
from ..scores.metrics import LEVELS, levels
from .series import Line, Series
from .tables import Cell, Table, means

__all__ = ["confusion_tables", "messages_table", "retries_table"]

_SHOWN = 20
_HEADS = tuple(f"check {check}, {truth}" for check, truth in CONFUSION)


def confusion_tables(series: Sequence[Series]) -> list[Table]:
    """``check`` against the ground truth, by weight and in counts; none without any verdict."""
    # Methods without a check would fill the table with "silent".
    asked = [s for s in series if any(p.check is not None for x in s.lines for p in x.row.samples)]
    if not asked:
        return []
    weighted, counted = [], []
    for s in asked:
        shares = {line.number: weighted_confusion(line.row) for line in s.lines}
        cells = [means((x, shares[x.number][c]) for x in s.lines) for c in CONFUSION]
        null = means((x, float(not any(shares[x.number].values()))) for x in s.lines)
        for name in (*LEVELS, "all"):
            if name in null:
                row = f"{s.name}, {name}"
                weighted.append((row, (*(c[name] for c in cells), null[name])))
                counted.append((row, _counts(s, name)))
    return [
        Table(
            "confusion",
            "check() against the ground truth, by weight",
            "Share of the weight by what the program's check and the ground truth say, the mean "
            "over types of the mean over instances; null is what answered nothing.",
            corner="method",
            columns=(*_HEADS, "null"),
            rows=tuple(weighted),
        ),
        Table(
            "confusion_counts",
            "check() against the ground truth, in samples",
            "Samples, dead ones included, whatever their weight; null counts runs without any.",
            corner="method",
            columns=(*_HEADS, "null"),
            rows=tuple(counted),
        ),
    ]


def _counts(series: Series, level: str) -> tuple[Cell, ...]:
    inside = set(levels(level, {line.row.task for line in series.lines}))
    lines = tuple(line for line in series.lines if line.row.task in inside)
    total: Counter[tuple[str, str]] = Counter()
    for line in lines:
        total.update(confusion(line.row))
    null = sum(not line.row.samples for line in lines)
    return tuple(Cell(n, digits=0, lines=lines) for n in (*(total[c] for c in CONFUSION), null))


def retries_table(series: Sequence[Series]) -> Table:
    """What became of each attempt, as shares of the runs that came to it."""
    found: list[tuple[str, dict[str, Cell]]] = []
    kinds: dict[str, None] = {"runs": None, "valid": None, "invalid": None}
    for s in series:
        attempts: dict[int, list[tuple[Line, dict[str, float]]]] = {}
        for line in s.lines:
            for number, outcome in enumerate(outcomes(line.row), 1):
                attempts.setdefault(number, []).append((line, outcome))
        for number, came in sorted(attempts.items()):
            lines = tuple(line for line, _ in came)
            cells = {"runs": Cell(len(came), digits=0, lines=lines)}
            for kind in sorted({kind for _, outcome in came for kind in outcome}):
                kinds[kind] = None
                share = sum(outcome.get(kind, 0.0) for _, outcome in came) / len(came)
                cells[kind] = Cell(share, lines=lines)
            found.append((f"{s.name}, #{number}", cells))
    rows = [
        (name, tuple(cells.get(kind, Cell(0.0, lines=cells["runs"].lines)) for kind in kinds))
        for name, cells in found
    ]
    return Table(
        "retries",
        "Errors by retry",
        "Of the runs that came to an attempt: the share that gave valid and invalid text (by "
        "weight), or ended in an error of each type. The paper reports 2 to 6 % errors after "
        "three attempts on COLLIE, and 18 % on PUZZLES.",
        corner="method and attempt",
        columns=tuple(kinds),
        rows=tuple(rows),
    )


def messages_table(series: Sequence[Series]) -> Table | None:
    """The most frequent error messages over all attempts; None where there was no error."""
    said: dict[str, dict[str, list[Line]]] = {}
    for s in series:
        for line in s.lines:
            for message in messages(line.row):
                said.setdefault(message, {}).setdefault(s.name, []).append(line)
    if not said:
        return None
    total = {message: sum(map(len, by.values())) for message, by in said.items()}
    # The message itself breaks ties, so that a log always gives the same report.
    often = sorted(said, key=lambda message: (-total[message], message))[:_SHOWN]
    rows = [
        (
            message,
            tuple(
                Cell(len(lines), digits=0, lines=tuple(lines)) if lines else Cell()
                for lines in (said[message].get(s.name, []) for s in series)
            ),
        )
        for message in often
    ]
    return Table(
        "messages",
        "Most frequent error messages",
        f"Attempts that failed with it, over all retries; numbers are N, quoted parts '…'. "
        f"{len(often)} of {len(said)} messages.",
        corner="message",
        columns=tuple(s.name for s in series),
        rows=tuple(rows),
    )
