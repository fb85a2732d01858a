"""The benchmark's machinery: everything runs, and a log is gone on with. Nothing here is timed."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from disciple_ext.bench import engine
from disciple_ext.bench.agreement import check_agreement
from disciple_ext.bench.cases import CASES, MAX_CHARS, Cell, program, prompts
from disciple_ext.bench.engine import Selection, plan
from disciple_ext.bench.log import Log, Measurement, read_log
from disciple_ext.bench.measure import IMPLEMENTATIONS, METRICS, Bench, run_number
from disciple_ext.bench.memory import peak_megabytes
from disciple_ext.bench.table import BEGIN, END, into_page, ratios, tables
from disciple_ext.cli import run as cli
from disciple_ext.errors import DiscipleError, UsageError
from disciple_ext.sandbox.check.check import check

TINY = Selection(
    cases=("a",),
    models=("tiny",),
    n=(2,),
    tokens=3,
    implementations=("ours", "floor"),
    repeats=1,
    metrics=("cpu",),
    sweeps=False,
)


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench("tiny", level="process")


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("case", [case for case in CASES if case != "d"])
def test_every_case_runs_everywhere(bench: Bench, case: str, implementation: str) -> None:
    tokens = 12 if case == "e" else 3
    seconds = bench.measure(implementation, Cell(case, "tiny", 2, tokens), "cpu", 0)
    assert seconds >= 0


def test_the_collie_programs_run_on_the_embedded_follower() -> None:
    bench = Bench("embedded", level="process")
    for implementation in ("ours", "sandbox", "floor"):
        assert bench.measure(implementation, Cell("d:sent_02", "embedded", 2, 0), "cpu", 0) >= 0


def test_ours_evaluates_what_the_table_says(bench: Bench) -> None:
    bench.measure("ours", Cell("a", "tiny", 2, 3), "cpu", 7)
    assert 4 <= bench.rows <= 5  # the prompt once, and two rows before each further token
    bench.measure("ours", Cell("c", "tiny", 2, 3), "cpu", 7)
    assert 6 <= bench.rows <= 10


def test_prompts_have_the_length_that_the_docs_name(bench: Bench) -> None:
    follower = bench.ours.follower
    given = prompts("c", 5)
    assert given.proposal is not None
    assert len(follower.prompt(given.prior)) == 14
    assert len(follower.prompt(given.proposal)) == 59
    assert len(follower.prompt(prompts("a", 123_456).prior)) == 59


def test_the_masks_hold_the_same_tokens(bench: Bench) -> None:
    vocabulary = bench.ours.follower.vocabulary
    ours = set(vocabulary.max_chars(MAX_CHARS) & vocabulary.text_mask)
    assert ours == bench.stock.lm.masks.token_length_mask(min=1, max=MAX_CHARS)
    assert 50 < len(ours) < 300


def test_programs_pass_the_static_check() -> None:
    for case in "abce":
        assert check(program(case, prompts(case, 1), 3)) == []


def test_runs_have_prompts_of_their_own() -> None:
    cells = [Cell(case, "tiny", n, 3) for case in "abc" for n in (1, 2)]
    keys = [(c, i, m, r) for c in cells for i in IMPLEMENTATIONS for m in METRICS for r in (0, 1)]
    assert len({run_number(*key) for key in keys}) == len(keys)


def test_log_probabilities_agree_with_stock(bench: Bench) -> None:
    assert bench.check() < 1e-4


def test_wrong_log_probabilities_end_the_benchmark(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = bench.stock.lm.model.next_token_logprobs_uncached
    monkeypatch.setattr(
        bench.stock.lm.model, "next_token_logprobs_uncached", lambda ids: 1.01 * right(ids)
    )
    with pytest.raises(DiscipleError, match="differ from stock"):
        check_agreement(bench.ours.follower, bench.stock)
    monkeypatch.setattr(
        bench.stock.lm.model, "next_token_logprobs_uncached", lambda ids: math.nan * right(ids)
    )
    with pytest.raises(DiscipleError, match="differ from stock"):
        check_agreement(bench.ours.follower, bench.stock)


def test_a_log_is_gone_on_with(tmp_path: Path) -> None:
    first = engine.run(TINY, tmp_path)
    assert [row.implementation for row in first] == ["ours", "floor"]
    path = tmp_path / "results.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[1][:20])  # killed in the middle of a line
    seen: list[Measurement] = []
    again = engine.run(TINY, tmp_path, lambda row, done, total: seen.append(row))
    assert [row.implementation for row in seen] == ["floor"]
    assert read_log(tmp_path) == again
    assert path.read_text().splitlines(keepends=True)[0] == lines[0]
    assert engine.run(TINY, tmp_path, lambda row, done, total: seen.append(row)) == again
    assert len(seen) == 1


def test_a_log_of_another_machine_is_refused(tmp_path: Path) -> None:
    Log(tmp_path).add(Measurement("a", "tiny", 2, 3, "ours", "cpu", 0, 1.0))
    run = tmp_path / "run.json"
    run.write_text(json.dumps(json.loads(run.read_text()) | {"torch": "0.1"}))
    with pytest.raises(UsageError, match="another machine"):
        Log(tmp_path)


def test_a_part_of_the_page_has_marks_of_its_own(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.add(Measurement("d:sent_01", "smollm2", 2, 0, "ours", "cpu", 0, 3.0, 90, 40, 32))
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- benchmarks smollm2: begin -->\n<!-- benchmarks smollm2: end -->\n"
    )
    order = ["--report", str(tmp_path / "log"), "--page", str(page)]
    assert cli(["bench", "engine", *order]) == 2  # the page has no main part
    assert cli(["bench", "engine", *order, "--part", "smollm2"]) == 0
    text = page.read_text()
    assert text.startswith("before\n") and "\n### Case d" in text and "\n## " not in text
    assert "| d:sent_01 | smollm2 | 2 |  | 3.00 | 40.0 | 16.0 | 2.50 |" in text


def test_implementations_take_turns() -> None:
    job = engine.Job(Cell("a", "tiny", 2, 3), {"ours": 3, "stock": 2, "floor": 3}, memory=False)
    order = [(r, m, i) for _, i, m, r in engine._measurements(job, Selection())]
    assert order[:6] == [(0, m, i) for m in METRICS for i in ("ours", "stock", "floor")]
    assert [i for r, _, i in order if r == 2] == ["ours", "floor"] * 2


def test_the_whole_plan_is_that_of_the_docs() -> None:
    jobs = plan(Selection())
    cells = [job.cell for job in jobs]
    assert len(set(cells)) == len(cells)
    for model in ("embedded", "8k", "32k", "128k"):
        for case in "abce":
            for n in (8, 32, 128):
                job = jobs[cells.index(Cell(case, model, n, 32))]
                with_stock = n == 32 or model == "32k"
                assert (job.repeats.get("stock") == 3) == with_stock
                assert (job.repeats.get("tuned") == 3) == with_stock
                assert job.repeats["ours"] == job.repeats["loop"] == job.repeats["floor"] == 5
    for n in (8, 32, 128):
        job = jobs[cells.index(Cell("c", "smollm2", n, 32))]
        assert job.repeats.get("stock") == (1 if n == 32 else None)
        assert job.repeats["ours"] == job.repeats["loop-shared"] == 5
    for model in ("embedded", "smollm2"):
        assert sum(c.case.startswith("d") and c.model == model for c in cells) == 9
    assert jobs[cells.index(Cell("b", "128k", 32, 32))].cell_of("stock").tokens == 8
    assert jobs[cells.index(Cell("e", "128k", 32, 32))].cell_of("tuned").tokens == 12
    assert jobs[cells.index(Cell("b", "128k", 32, 32))].cell_of("ours").tokens == 32
    assert jobs[cells.index(Cell("b", "32k", 1, 32))].repeats["stock"] == 3
    assert {c.tokens for c in cells if (c.case, c.model, c.n) == ("b", "32k", 8)} == {
        *(16, 32, 64, 128, 256)
    }


def test_a_selection_says_what_there_is() -> None:
    with pytest.raises(UsageError, match="no model '64k'; one of embedded"):
        dataclasses.replace(TINY, models=("64k",))
    with pytest.raises(UsageError, match="no case 'f'"):
        dataclasses.replace(TINY, cases=("f",))


ROWS = [
    *(
        Measurement("b", "128k", 32, 32, "ours", "cpu", i, v, 800)
        for i, v in enumerate((2.0, 1.0, 9.0))
    ),
    Measurement("b", "128k", 32, 8, "stock", "cpu", 0, 20.0),
    Measurement("b", "128k", 32, 32, "floor", "cpu", 0, 1.5),
    Measurement("b", "128k", 32, 32, "ours", "memory", 0, 100.0),
    Measurement("b", "128k", 32, 32, "ours", "wall", 0, 1.0),
    Measurement("d:sent_01", "embedded", 32, 0, "ours", "cpu", 0, 3.0),
    Measurement("d:sent_01", "embedded", 32, 0, "floor", "cpu", 0, 2.4),
]


def test_ratios_compare_medians_for_each_token() -> None:
    found = {(r["case"], r["tokens"], r["metric"]): r for r in ratios(ROWS)}
    here = found["b", 32, "cpu"]
    assert here["seconds_per_token"]["ours"] == pytest.approx(2.0 / 1024)
    assert here["ratios"]["stock / ours"] == pytest.approx(40.0)
    assert here["ratios"]["floor / ours"] == pytest.approx(0.75)
    assert here["ratios"]["loop / ours"] is None
    assert found["d:sent_01", 0, "cpu"]["ratios"]["floor / ours"] == pytest.approx(0.8)


def test_the_report_goes_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Head\n\n{BEGIN}\nold\n{END}\n\ntail\n")
    text = tables(ROWS, {"processor": "a fast one"})
    into_page(page, text)
    into_page(page, text)
    written = page.read_text()
    assert written.startswith("# Head\n\n") and written.endswith(f"{END}\n\ntail\n")
    assert written.count("| b | 128k | 32 | 32 |") == 3  # CPU, wall, memory
    assert "old" not in written and "40.0" in written and "0.750" in written
    page.write_text("no markers")
    with pytest.raises(UsageError, match="markers"):
        into_page(page, text)


def test_the_docs_page_has_the_markers() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "benchmarks.md"
    begin, end = page.read_text().find(BEGIN), page.read_text().find(END)
    assert 0 < begin < end


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from disciple_ext.bench.figure import draw

    draw(ROWS, tmp_path / "img" / "figure.svg")
    assert "<svg" in (tmp_path / "img" / "figure.svg").read_text()


@pytest.mark.slow
def test_peak_memory_is_measured_in_a_process_of_its_own() -> None:
    peak = peak_megabytes("ours", Cell("a", "tiny", 2, 3), "none")
    assert peak is None or 0 <= peak < 500


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--case a --model tiny -n 2 --tokens 3 --implementation ours,loop --metric cpu"
    out = ["bench", "engine", *options.split(), "--repeats", "1", "--out", str(tmp_path)]
    assert cli([*out, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["results"]
    assert found["ratios"]["loop / ours"] > 0
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}{END}")
    assert cli(["bench", "engine", "--report", str(tmp_path), "--page", str(page)]) == 0
    assert "| a | tiny | 2 |" in page.read_text()
    assert cli(["bench", "engine", "--page", str(page)]) == 2


def test_without_a_cuda_device_nothing_is_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert cli(["bench", "engine", "--device", "cuda"]) == 0
    assert "no CUDA device" in capsys.readouterr().err
