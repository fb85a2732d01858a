"""Several followers, and many workers: the commands that launch evaluations."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from disciple_ext import cli
from disciple_ext.errors import EvaluationError, UsageError
from disciple_ext.evaluation.logs.log import RESULTS, Row, read_log, read_run
from disciple_ext.evaluation.logs.model_size import ModelSize, named_size, size_of
from disciple_ext.evaluation.many.cluster import Workers, _Gathered
from disciple_ext.evaluation.many.followers import places
from disciple_ext.evaluation.many.merge import without_times
from disciple_ext.evaluation.many.shard import News, Shard
from disciple_ext.evaluation.report.build import build
from disciple_ext.testing import ScriptedFollower

from .test_killed import PROMPTS, TARGETS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three sentences of each of two types."""
    rows = [
        {"id": f"{task}/{number}", "task": task, "prompt": PROMPTS[task]}
        | {"targets": TARGETS[task], "corpus": "", "example": ""}
        for task in ("sent_01", "sent_04")
        for number in range(3)
    ]
    path = tmp_path / "wiki.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("hf:Qwen/Qwen3-1.7B", ModelSize(1_700_000_000, "qwen3")),
        ("vllm:meta-llama/Meta-Llama-3.1-8B-Instruct", ModelSize(8_000_000_000, "llama")),
        ("hf:/models/SmolLM2-135M", ModelSize(135_000_000, "smollm2")),
        ("hf:mistralai/Mixtral-8x7B-v0.1", ModelSize(None, None)),
        ("embedded", ModelSize(None, None)),
    ],
)
def test_a_name_may_say_how_large_a_model_is(name: str, size: ModelSize) -> None:
    assert named_size(name) == size


@pytest.mark.slow
def test_a_loaded_model_knows_its_size_and_family() -> None:
    from disciple_ext.follower.hf import embedded

    assert size_of(embedded()) == ModelSize(3_344_064, "llama")  # as its model card says
    assert size_of(ScriptedFollower("Hello")) == ModelSize(None, None)


def test_each_follower_has_a_directory_of_its_own() -> None:
    out = Path("runs")
    assert places(["embedded", "hf:a/B-1B"], out) == {
        "embedded": out / "embedded",
        "hf:a/B-1B": out / "B-1B",
    }
    assert places(["hf:a/B", "hf:c/B"], out) == {"hf:a/B": out / "hf-a-B", "hf:c/B": out / "hf-c-B"}
    with pytest.raises(UsageError, match="each follower once"):
        places(["embedded", "embedded"], out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scale", "--followers", "a,b", "nonsense"], "unknown suite 'nonsense'; there are: coll"),
        (["scale", "--followers", ",", "collie", "--out", "x"], "--followers is empty"),
        (["scale", "--followers", "a", "collie", "--out", "x", "--follower", "b"], "leave --follo"),
        (["scale", "--followers", "a", "collie"], "Missing option '--out'"),
        (["scale", "--followers", "a", "collie", "--out", "x", "--nope"], "No such option"),
        (["many", "--workers", "2", "collie", "--out", "x", "--shard", "1/2"], "leave --shard out"),
        (["many", "--workers", "2", "merge", "--out", "x"], "unknown suite 'merge'"),
        (["many", "--workers", "0", "collie", "--out", "x"], "at least 1 worker"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_started(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["eval", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_ray_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    out = tmp_path / "out"
    assert cli.run(["eval", "many", "--workers", "2", "collie", "--out", str(out)]) == 2
    assert "pip install 'disciple-ext[ray]'" in capsys.readouterr().err and not out.exists()


def test_lines_of_all_shards_become_one_log(tmp_path: Path) -> None:
    def line(number: int) -> bytes:
        return Row(f"i/{number}", "t", "is", 1, 0, 0.1).to_json().encode() + b"\n"

    about = {"seed": 0, "settings": [], "shard": "1/2", "earlier": [{}]}
    log = _Gathered(tmp_path, resume=False)
    first = News(line(1) + line(3), json.dumps(about).encode(), None, "")
    assert [row.id for row in log.take(1, first)] == ["i/1", "i/3"]
    second = json.dumps(about | {"shard": "2/2"}).encode()
    assert [row.id for row in log.take(2, News(line(3) + line(2), second, 0, ""))] == ["i/2"]
    assert [row.id for row in read_log(tmp_path)] == ["i/1", "i/3", "i/2"], "none of them twice"
    run = read_run(tmp_path)
    assert run is not None and run["shard"] is None
    assert [worker["shard"] for worker in run["workers"]] == ["1/2", "2/2"]
    with pytest.raises(EvaluationError, match="seed was 0, and is 1"):
        log.take(3, News(b"", json.dumps(about | {"seed": 1}).encode(), None, ""))
    log.close()
    with pytest.raises(UsageError, match="--resume"):
        _Gathered(tmp_path, resume=False)
    assert _Gathered(tmp_path, resume=True).lines() == line(1) + line(3) + line(2)


def options(data: Path) -> list[str]:
    return ["collie", "--method", "is,follower", "-n", "3", "--data", str(data)]


@pytest.mark.slow
def test_a_shard_gives_its_lines_and_its_exit_code(data: Path) -> None:
    shard = Shard([*options(data), "--shard", "1/2"], b"", None)
    lines, run, code = b"", None, None
    while code is None:
        news = shard.more()
        lines, run, code = lines + news.lines, run or news.run, news.code
    assert code == 0 and run is not None and json.loads(run)["shard"] == "1/2"
    rows = [Row.from_json(line.decode()) for line in lines.splitlines()]
    assert {row.id for row in rows} == {"sent_01/0", "sent_01/2", "sent_04/1"} and len(rows) == 6
    begun = lines.splitlines(keepends=True)[0]
    again = Shard([*options(data), "--shard", "1/2"], begun, run)
    assert again.more(120).lines and again._process.wait() == 0
    broken = Shard(["collie", "--method", "nonsense"], b"", None)
    news = broken.more(120)
    assert news.code == 2 and "unknown method 'nonsense'" in news.said
    for one in (shard, again, broken):
        one.close()
        assert not one._place.exists()


@pytest.mark.slow
def test_followers_of_two_sizes_and_families_make_one_report(data: Path, tmp_path: Path) -> None:
    model, out, page = tmp_path / "random-qwen", tmp_path / "scale", tmp_path / "report.html"
    random_model(model)
    command = [sys.executable, "-m", "disciple_ext"]
    followers = ["--followers", f"embedded,hf:{model},hf:{tmp_path / 'none'}"]
    launched = subprocess.run(
        [*command, "eval", "scale", *followers, *options(data), "--out", str(out)],
        capture_output=True,
        text=True,
    )
    assert launched.returncode == 2 and "1 of 3 followers could not" in launched.stderr
    assert "| is, random-qwen | qwen3 | 0.3 |" in launched.stdout
    assert "| is, embedded | llama | 3.3 |" in launched.stdout
    report = build([out])
    table = report.table("followers")
    assert table is not None
    rows = {name: cells for name, cells in table.rows if not name.startswith("paper:")}
    assert set(rows) == {f"{m}, {f}" for m in ("is", "follower") for f in ("embedded", model.name)}
    assert rows["is, embedded"][1].value == pytest.approx(3.344064)
    assert len(rows["is, embedded"][2].lines) == 6
    pytest.importorskip("matplotlib")
    done = subprocess.run([*command, "report", str(out), "--html", str(page)], capture_output=True)
    assert done.returncode == 0 and '<figure id="figure-followers"><svg' in page.read_text()


def random_model(place: Path) -> None:
    """A model of another family with random weights, and the embedded one's tokenizer."""
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    from disciple_ext.follower.hf import EMBEDDED

    torch.manual_seed(0)
    tokenizer: Any = AutoTokenizer.from_pretrained(EMBEDDED)
    config = Qwen3Config(
        vocab_size=8192,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
    )
    Qwen3ForCausalLM(config).save_pretrained(place)
    tokenizer.save_pretrained(place)


@pytest.mark.slow
def test_two_workers_of_ray_give_the_log_of_one_machine_though_one_is_killed(
    data: Path, tmp_path: Path
) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from disciple_ext.evaluation.many.cluster import evaluate_many

    out, alone, seen = tmp_path / "many", tmp_path / "alone", []
    killed = threading.Event()

    def kill(part: int, row: Row) -> None:
        seen.append((part, row.id))
        if not killed.is_set():  # the first worker that has a row is lost at once
            killed.set()
            os.kill(worker_of(part), signal.SIGKILL)

    notes: list[str] = []
    workers = Workers(2, os.environ.get("RAY_ADDRESS"))
    rows = evaluate_many(options(data), workers, out=out, on_row=kill, on_note=notes.append)
    assert any("is lost" in note for note in notes), notes
    assert not ray.is_initialized()
    until = time.monotonic() + 10
    while running("--shard") and time.monotonic() < until:
        time.sleep(0.1)
    assert not running("--shard"), "no process is left behind"
    assert {part for part, _ in seen} == {1, 2} and len(rows) == len(seen) == 12
    subprocess.run(
        [sys.executable, "-m", "disciple_ext", "eval", *options(data), "--out", str(alone)],
        check=True,
        capture_output=True,
    )
    assert lines(out) == lines(alone)
    run = read_run(out)
    assert run is not None and [w["shard"] for w in run["workers"]] == ["1/2", "2/2"]
    before = (out / RESULTS).read_bytes()
    evaluate_many(options(data), Workers(1, workers.address), out=out, resume=True)
    assert (out / RESULTS).read_bytes() == before, "nothing was left to do, for one worker either"


def lines(directory: Path) -> list[dict[str, Any]]:
    found = sorted(read_log(directory), key=lambda row: (row.id, row.method))
    return [without_times(row) for row in found]


def running(word: str) -> list[int]:
    """Processes of `disciple eval` with this word in their command."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "disciple_ext" in command and word in command:
            found.append(int(place.name))
    return found


def worker_of(part: int) -> int:
    """The Ray worker whose child runs this shard."""
    (child,) = running(f"{part}/2")
    status = Path(f"/proc/{child}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])
