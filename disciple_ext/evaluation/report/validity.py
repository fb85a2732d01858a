"""Tables of what the answers are worth: Pass@1, Pass@k, budgets, coherency, fluency."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...errors import EvaluationError
from ..scores.estimators import INDEPENDENT, pass_at_budget, pass_at_k
from ..scores.metrics import LEVELS, ORDER, nats_per_token
from .published import counterpart, published
from .series import Line, Series
from .tables import Cell, Table, means

__all__ = [
    *("budget_table", "coherency_table", "nats_table", "pass_at_1_table", "pass_at_k_table"),
    "score",
]

_KS = (1, 2, 4, 8, 16, 32)


def pass_at_1_table(series: Sequence[Series]) -> Table:
    """Weighted Pass@1 by task and level, the paper's numbers beside it."""
    what = (
        "Probability that one sample, drawn in proportion to the weights, passes the ground truth "
        "(the paper's appendix C); in brackets the 95 % bootstrap interval. One without width is "
        "no certainty: where all of n instances pass, 3/n may still fail (the rule of three)."
    )
    return _by_task(
        "pass_at_1", "Pass@1", what, series, lambda line: line.row.pass_at_1, 3, counts=True
    )


def coherency_table(series: Sequence[Series]) -> Table | None:
    """The judge's scores; None where no answer was judged."""
    judged = [line.judgement for s in series for line in s.lines if line.judgement]
    if not any(verdict.score is not None for verdict in judged):
        return None
    refused = sum(verdict.kind == "refusal" for verdict in judged)
    unread = sum(verdict.kind == "unparsable" for verdict in judged)
    what = (
        "A language model's score of the answer, with the paper's prompt, from 0 to 10. Of "
        f"{len(judged)} verdicts {refused} were refusals and {unread} could not be read; "
        "these have no score and do not count."
    )
    return _by_task("coherency", "Coherency", what, series, score, 2)


def score(line: Line) -> float | None:
    """The judge's score of a run's answer, or None."""
    return line.judgement.score if line.judgement else None


def nats_table(series: Sequence[Series]) -> Table | None:
    """Log-probability per token under the prior prompt; None where none was logged."""
    if not any(nats_per_token(line.row) is not None for s in series for line in s.lines):
        return None
    what = (
        "Log-probability of the samples per token (nats) under the follower's prior prompt, "
        "prescribed words included, by weight; only runs that answered count."
    )
    return _by_task(
        "nats", "Nats per token", what, series, lambda line: nats_per_token(line.row), 2
    )


def _by_task(
    key: str,
    title: str,
    what: str,
    series: Sequence[Series],
    value: Callable[[Line], float | None],
    digits: int,
    counts: bool = False,
) -> Table:
    """Tasks and levels down, series across, then the paper's methods that stand beside them."""
    columns = {s.name: means(s.values(value), digits) for s in series}
    columns |= _published(key, series, digits)
    names = [*ORDER, *_others(columns), *LEVELS, "all"]
    ours = {name for s in series for name in columns[s.name]}
    rows = [
        (name, tuple(column.get(name, Cell()) for column in columns.values()))
        for name in names
        if name in ours
    ]
    if counts:
        rows = [(name, (_instances(cells), *cells)) for name, cells in rows]
        columns = {"instances": {}, **columns}
    return Table(key, title, what, "task", tuple(columns), tuple(rows))


def _instances(cells: Sequence[Cell]) -> Cell:
    lines = tuple(line for cell in cells for line in cell.lines)
    return Cell(len({line.row.id for line in lines}), digits=0, lines=lines)


def _others(columns: Mapping[str, Mapping[str, Cell]]) -> list[str]:
    known = {*ORDER, *LEVELS, "all"}
    return sorted({name for column in columns.values() for name in column} - known)


def _published(metric: str, series: Sequence[Series], digits: int) -> dict[str, dict[str, Cell]]:
    if metric not in ("pass_at_1", "coherency"):
        return {}
    keys = [counterpart(s.method, s.log.planner, s.log.follower) for s in series]
    return {
        f"paper: {' '.join(key[:2])}, {key[2]}": {
            name: Cell(value, digits=min(digits, 2), published=source)
            for name, (value, source) in published(metric, key).items()
        }
        for key in dict.fromkeys(keys)
        if key is not None
    }


def pass_at_k_table(series: Sequence[Series]) -> Table | None:
    """Pass@k by series and level; None where every run has a single sample."""
    rows = []
    for s in series:
        found = {k: means(_at_k(s, k)) for k in _KS}
        rows += [
            (f"{s.name}, {name}", tuple(found[k].get(name, Cell()) for k in _KS))
            for name in (*LEVELS, "all")
            if name in found[1]
        ]
    columns = [i for i, _ in enumerate(_KS) if any(cells[i].value is not None for _, cells in rows)]
    if len(columns) < 2:
        return None
    what = (
        "Probability that one of k samples passes: unbiased from samples without weights; with "
        "weights, k draws in proportion to them, 1 - (1 - Pass@1)^k for each instance."
    )
    kept = tuple((name, tuple(cells[i] for i in columns)) for name, cells in rows)
    return Table("pass_at_k", "Pass@k", what, "method", tuple(f"k={_KS[i]}" for i in columns), kept)


def _at_k(series: Series, k: int) -> list[tuple[Line, float]]:
    """Pass@k of every run, of the tasks whose runs were all to have as many samples.

    A run that was cut short counts with those that it has.
    """
    short = {line.row.task for line in series.lines if line.row.n < k}
    found = []
    for line in series.lines:
        if line.row.task not in short:
            samples = line.row.samples
            logs, passed = [s.log_weight for s in samples], [s.passed for s in samples]
            # With weights the k are drawn with replacement, so that k may exceed the samples.
            size = k if any(log is not None for log in logs) else min(k, len(passed) or k)
            found.append((line, pass_at_k(logs, passed, size)))
    return found


def budget_table(series: Sequence[Series]) -> Table | None:
    """Pass@1 against the number of samples; None where there is only one number.

    Series that differ only in their number of samples are one method here.
    """
    groups: dict[tuple[str, str, str], list[Series]] = {}
    for s in series:
        groups.setdefault((s.method, s.log.follower, s.log.planner), []).append(s)
    largest = max((line.row.n for s in series for line in s.lines), default=1)
    powers = {2**i for i in range(largest.bit_length())}
    fixed = {x.row.n for s in series if s.method not in INDEPENDENT for x in s.lines}
    budgets = sorted(fixed | powers)
    several = len({s.log.follower for s in series}) > 1
    levels = {_level(line.row.task) for s in series for line in s.lines}
    shown = [level for level in LEVELS if level in levels] or ["all"]  # a suite of one's own
    rows: list[tuple[str, tuple[Cell, ...]]] = []
    run = set(powers)  # subsampled at powers of two; elsewhere only beside a method that ran there
    for (method, follower, _), members in groups.items():
        found = {n: means(_at_budget(members, n)) for n in budgets}
        name = f"{method} ({follower.split('/')[-1]})" if several else method
        run |= {n for n in budgets if found[n] and method not in INDEPENDENT}
        rows += [
            (f"{name}, {level}", tuple(found[n].get(level, Cell()) for n in budgets))
            for level in shown
            if any(level in cells for cells in found.values())
        ]
    columns = [
        i
        for i, n in enumerate(budgets)
        if n in run and any(cells[i].value is not None for _, cells in rows)
    ]
    if len(columns) < 2:
        return None
    what = (
        f"Weighted Pass@1 with n samples. Independent samples ({', '.join(sorted(INDEPENDENT))}) "
        "are subsampled from larger runs; a method that resamples has a number only where it was "
        "run with that n, since a part of its particles is not a smaller run."
    )
    kept = tuple((name, tuple(cells[i] for i in columns)) for name, cells in rows)
    heads = tuple(f"n={budgets[i]}" for i in columns)
    return Table("budget", "Pass@1 against budget", what, "method", heads, kept)


def _at_budget(members: Sequence[Series], n: int) -> list[tuple[Line, float]]:
    """Pass@1 with n samples, of the tasks all of whose instances can be had at n.

    A run with just n samples counts before a part of a larger one. A level is left out unless all
    of its tasks can be had, lest different budgets be means over different tasks.
    """
    runs: dict[str, list[Line]] = {}
    for s in members:
        for line in s.lines:
            runs.setdefault(line.row.id, []).append(line)
    found, missing = [], set()
    for lines in runs.values():
        for line in sorted(lines, key=lambda line: (line.row.n != n, line.row.n < n, line.row.n)):
            try:
                found.append((line, pass_at_budget(line.row, n)))
                break
            except EvaluationError:
                continue
        else:
            missing.add(_level(lines[0].row.task))
    return [(line, value) for line, value in found if _level(line.row.task) not in missing]


def _level(task: str) -> str:
    return next((level for level, tasks in LEVELS.items() if task in tasks), "all")
