"""Logs for Inspect's viewer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from disciple_ext import cli
from disciple_ext.evaluation.report.inspect_log import inspect_log, write_inspect
from disciple_ext.evaluation.report.series import Series, read_series

from .logs import EVIL, write_log


@pytest.fixture
def series(tmp_path: Path) -> list[Series]:
    return read_series([write_log(tmp_path / "first")])


def test_a_run_is_a_sample(series: list[Series]) -> None:
    log = inspect_log(series[0], {"sent_04/1": "Write a sentence."})
    assert (log["version"], log["status"], log["eval"]["solver"]) == (2, "success", "smc")
    assert log["results"]["total_samples"] == 12 and log["results"]["completed_samples"] == 11
    samples = {sample["id"]: sample for sample in log["samples"]}
    retried = samples["sent_04/1"]
    assert retried["input"] == "Write a sentence."
    assert [m["role"] for m in retried["messages"]] == ["user", "assistant"]
    assert retried["output"]["choices"][0]["message"]["content"] == EVIL
    assert retried["scores"]["pass_at_1"]["value"] == series[0].lines[4].row.pass_at_1
    assert len(retried["metadata"]["samples"]) == 4 and retried["metadata"]["line"] == 13
    assert ["no 'xsent_04/1'" in e["message"] for e in retried["error_retries"]] == [True]
    assert retried["model_usage"]["openai:gpt-4o-2024-08-06"]["input_tokens"] == 900
    failed = samples["sent_04/2"]
    assert failed["error"]["message"].startswith("NoParticleAlive: ")
    assert failed["output"]["choices"] == [] and failed["input"] == "sent_04/2"
    assert "coherency" not in failed["scores"], "the judge refused"


def test_the_metrics_are_the_reports(series: list[Series]) -> None:
    results = {s["name"]: s for s in inspect_log(series[1], {})["results"]["scores"]}
    assert list(results["pass_at_1"]["metrics"])[0] == "all"
    values = [line.row.pass_at_1 for line in series[1].lines if line.row.task == "para_03"]
    metric = results["pass_at_1"]["metrics"]["para_03"]
    assert metric["value"] == pytest.approx(sum(values) / 3)
    assert metric["metadata"]["low"] <= metric["value"] <= metric["metadata"]["high"]
    assert results["coherency"]["scored_samples"] == 8


def test_the_viewer_lists_the_files(series: list[Series], tmp_path: Path) -> None:
    paths = [write_inspect(one, {}, tmp_path / "out") for one in series]
    assert len(set(paths)) == 3
    for path in paths:
        # What `inspect view` takes for a log: a time, a task and an id between underscores.
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d[^_]*_[^_]+_[^_]+\.json", path.name)
        assert list(json.loads(path.read_text()))[:3] == ["version", "status", "eval"]


def test_inspect_reads_them(series: list[Series], tmp_path: Path) -> None:
    inspect = pytest.importorskip("inspect_ai.log", reason="inspect_ai is not installed")
    for one in series:
        log = inspect.read_eval_log(str(write_inspect(one, {}, tmp_path / "out")))
        assert log.status == "success" and len(log.samples) == 12
        assert log.results.scores[0].metrics["all"].value == pytest.approx(
            inspect_log(one, {})["results"]["scores"][0]["metrics"]["all"]["value"]
        )
    assert len(inspect.list_eval_logs(str(tmp_path / "out"))) == 3


def test_the_command_takes_the_prompts_from_the_data(
    series: list[Series],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DISCIPLE_COLLIE", raising=False)
    data = tmp_path / "wiki.jsonl"
    fields = {"id": "sent_01/0", "task": "sent_01", "corpus": "", "example": "", "targets": 12}
    data.write_text(json.dumps(fields | {"prompt": "Twelve."}) + "\n")
    out = str(tmp_path / "out")
    directory = series[0].log.directory
    assert cli.run(["report", directory, "--inspect", out, "--data", str(data)]) == 0
    assert capsys.readouterr().err.count("wrote ") == 3
    log = json.loads(next((tmp_path / "out").glob("*-smc_*")).read_text())
    assert {s["id"]: s["input"] for s in log["samples"]}["sent_01/0"] == "Twelve."
    poem = {s["id"]: s["input"] for s in log["samples"]}["square_poem/0"]
    assert poem.startswith("Write a poem"), "our own tasks need no data"
    assert cli.run(["report", directory, "--inspect", out]) == 0
    assert "shown by their ids" in capsys.readouterr().err
