"""Suites, their budgets, their shards, and the logs that are merged again."""

from __future__ import annotations

import json
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from disciple_ext import cli, hookimpl
from disciple_ext.errors import EvaluationError, FollowerError, TaskNotUnderstood, UsageError
from disciple_ext.evaluation.logs.log import LogWriter, Row, read_log, read_run
from disciple_ext.evaluation.many.merge import merge, without_times
from disciple_ext.evaluation.run import evaluate
from disciple_ext.evaluation.suites.base import Budget, Instance, Suite
from disciple_ext.planner.base import Feedback, Plan
from disciple_ext.records.task import Task
from disciple_ext.registry import points
from disciple_ext.registry.plugins import load_plugins
from disciple_ext.testing import ScriptedFollower

WORDS = Suite(
    name="words",
    budgets={
        "greet": Budget("short", 3, 10.0, 5, "Write."),
        "part": Budget("short", 3, 10.0, 5, "Write."),
    },
    instances=lambda path: [
        Instance(f"{task}/{number}", task, f"Say {task} {number}.", targets="Hello")
        for task in ("greet", "part")
        for number in range(3)
    ],
    verify=lambda instance, text: text.startswith(instance.targets),
    settings={"reading": "strict"},
)


def run(out: Path, methods: Sequence[str] = ("follower",), **options: Any) -> list[Row]:
    follower = ScriptedFollower("Hello there.", other=0.2)
    return evaluate(methods, out=out, **{"suite": WORDS, "follower": follower, **options})


def test_the_papers_suites_are_registered_with_its_budgets(collie_dir: Path) -> None:
    registry = load_plugins(installed=False)
    collie, puzzles = registry.make("suites", "collie"), registry.make("suites", "puzzles")
    found = {(b.n, b.timeout, b.tokens) for s in (collie, puzzles) for b in s.budgets.values()}
    paper = {(32, 120.0, 32), (8, 240.0, 128), (16, 360.0, 512)}
    assert found == paper | {(8, 120.0, 16), (8, 240.0, 384)}, "and words and passages"
    assert set(collie.settings) == {"splitter", "tokenizer"}
    for suite in (collie, puzzles):
        instances = suite.instances(None)
        others = {"word_01", "word_02", "word_03", "pass_01"}
        assert {i.task for i in instances} == set(suite.budgets) - others
        assert len({i.id for i in instances}) == len(instances)
        assert isinstance(suite.verify(instances[0], "No."), bool)
    poem = "\n".join(["a b c d e f g h"] * 8)
    assert puzzles.verify(puzzles.instances(None)[0], poem)
    with pytest.raises(UsageError, match="leave --data out"):
        puzzles.instances("there")


def test_puzzles_are_run_ten_times_each_with_seeds_of_their_own(tmp_path: Path) -> None:
    follower = ScriptedFollower("one two", other=0.5)
    rows = run(tmp_path, suite="puzzles", tasks=["square_poem"], n=2, follower=follower)
    assert len(rows) == 10 and {row.task for row in rows} == {"square_poem"}
    assert len({row.seed for row in rows}) == 10
    assert all(row.error is None and len(row.samples) == 2 for row in rows)
    about = read_run(tmp_path)
    assert about is not None and about["suite"] == "puzzles"


def test_a_suite_of_ones_own(tmp_path: Path) -> None:
    rows = run(tmp_path / "a")
    assert [row.n for row in rows] == [3] * 6
    assert all(s.passed == s.text.startswith("Hello") for row in rows for s in row.samples)
    about = read_run(tmp_path / "a")
    assert about is not None and about["reading"] == "strict"
    loose = Suite("words", WORDS.budgets, WORDS.instances, WORDS.verify, {"reading": "loose"})
    with pytest.raises(EvaluationError, match="reading was 'strict', and is 'loose'"):
        run(tmp_path / "a", suite=loose, resume=True)
    with pytest.raises(UsageError, match="unknown suite 'nonsense'; there are: collie, puzzles"):
        run(tmp_path / "b", suite="nonsense")


class Asked:
    """A planner that keeps what it is asked, and has no program."""

    name = "asked"

    def __init__(self) -> None:
        self.families: list[str | None] = []

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        self.families.append(task.family)
        raise TaskNotUnderstood("not this one")


def test_planners_know_the_family_to_leave_out(tmp_path: Path) -> None:
    planner = Asked()
    run(tmp_path, ["smc"], planner=planner, limit=1)
    assert planner.families == ["greet", "part"]


def test_shards_are_parts_of_the_whole_and_merge_to_it(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", ["follower", "beam"])
    parts = [tmp_path / f"part-{part}" for part in (1, 2, 3)]
    for part, place in enumerate(parts, 1):
        rows = run(place, ["follower", "beam"], shard=(part, 3))
        assert len({row.id for row in rows}) == 2
    (parts[1] / "judgements.jsonl").write_text(
        json.dumps({"id": "greet/1", "method": "beam", "score": 7, "kind": "ok"}) + "\n{torn"
    )
    merged = merge(tmp_path / "out", parts)
    assert [(r.id, r.method) for r in merged] == sorted((r.id, r.method) for r in whole)
    by_key = {(r.id, r.method): without_times(r) for r in whole}
    assert all(without_times(r) == by_key[r.id, r.method] for r in merged)
    assert (tmp_path / "out" / "judgements.jsonl").read_text().count("\n") == 1
    resumed = run(tmp_path / "out", ["follower", "beam"], resume=True)
    assert resumed == merged, "nothing is missing"
    with pytest.raises(UsageError, match="a log in .* already"):
        merge(tmp_path / "out", parts)


def test_a_shard_has_the_same_instances_whatever_tasks_are_chosen(tmp_path: Path) -> None:
    ids = {row.id for row in run(tmp_path / "a", shard=(2, 2))}
    part = {row.id for row in run(tmp_path / "b", shard=(2, 2), tasks=["part"])}
    assert part == {name for name in ids if name.startswith("part")} and part
    for wrong in ((0, 2), (3, 2)):
        with pytest.raises(UsageError, match="a shard is one of"):
            run(tmp_path / "c", shard=wrong)


def test_logs_of_other_settings_do_not_merge(tmp_path: Path) -> None:
    run(tmp_path / "a", shard=(1, 2))
    run(tmp_path / "b", shard=(2, 2), seed=1)
    with pytest.raises(EvaluationError, match="seed was 0, and is 1"):
        merge(tmp_path / "out", [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(EvaluationError, match="no run.json"):
        merge(tmp_path / "out", [tmp_path / "a", tmp_path])
    assert not (tmp_path / "out").exists()


def test_rows_that_differ_do_not_merge(tmp_path: Path) -> None:
    run(tmp_path / "a")
    run(tmp_path / "b")
    row = read_log(tmp_path / "b")[0]
    assert len(merge(tmp_path / "same", [tmp_path / "a", tmp_path / "b"])) == 6
    writer = LogWriter(tmp_path / "b")
    writer.append(Row(row.id, row.task, row.method, row.n, row.seed, 0.0))
    writer.close()
    with pytest.raises(EvaluationError, match="different rows of 'greet/0' and 'follower'"):
        merge(tmp_path / "out", [tmp_path / "a", tmp_path / "b"])


class Plugin:
    """Registers a suite, a follower to run on it, and something that is no suite."""

    @hookimpl
    def register_suites(self) -> dict[str, Any]:
        return {"mine": lambda: WORDS, "no-suite": dict}

    @hookimpl
    def register_followers(self) -> dict[str, Any]:
        return {"greeter": lambda argument: ScriptedFollower("Hello there.", other=0.2)}


def test_a_plugins_suite_has_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    point = types.SimpleNamespace(name="mine", dist=None, load=Plugin)
    monkeypatch.setattr(points, "entry_points", lambda group: [point])  # as if it were installed
    chosen = ["--follower", "greeter", "--method", "follower,beam", "--shard", "1/2"]
    assert cli.run(["eval", "mine", *chosen, "--out", str(tmp_path / "a"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["instances"] == {
        "follower": {"greet": 2, "part": 1},
        "beam": {"greet": 2, "part": 1},
    }
    assert cli.run(["eval", "merge", str(tmp_path / "b"), str(tmp_path / "a")]) == 0
    assert len(read_log(tmp_path / "b")) == 6
    assert cli.run(["eval", "no-suite", "--out", str(tmp_path / "c")]) == 4
    assert "makes no suite but a dict" in capsys.readouterr().err


def test_every_run_begins_with_a_follower_that_remembers_nothing(tmp_path: Path) -> None:
    follower = ScriptedFollower("Hello there.", other=0.2)
    first = run(tmp_path / "a", follower=follower)
    again = run(tmp_path / "b", follower=follower)
    assert first[0].usage["forwards"] > 0
    assert [without_times(row) for row in first] == [without_times(row) for row in again]


def test_a_log_goes_on_with_its_own_follower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that was added since is the default now, and no follower of this log."""
    rows = run(tmp_path, follower=None, tasks=["greet"], limit=1)
    assert read_run(tmp_path)["follower"] == "embedded"  # type: ignore[index]
    monkeypatch.setenv("DISCIPLE_FOLLOWER", "gguf:./of-another-day.gguf")
    again = run(tmp_path, follower=None, tasks=["greet"], limit=2, resume=True)
    assert again[0] == rows[0] and len(again) == 2
    with pytest.raises(FollowerError, match="of-another-day"):
        run(tmp_path / "new", follower=None)
    with pytest.raises(EvaluationError, match="follower was 'embedded', and is 'scripted'"):
        run(tmp_path, resume=True)
    assert len(read_log(tmp_path)) == 2
