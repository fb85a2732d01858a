"""The report: every number follows from the lines it names, and the page stands alone."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from disciple_ext import cli
from disciple_ext.errors import EvaluationError, UsageError
from disciple_ext.evaluation.logs.log import LogWriter
from disciple_ext.evaluation.report.build import build
from disciple_ext.evaluation.report.figures import FIGURES, draw
from disciple_ext.evaluation.report.markdown import render_markdown
from disciple_ext.evaluation.report.page import render_page

from .logs import EVIL, METHODS, TASKS, write_log

Raw = dict[str, Any]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("runs")
    other = write_log(place / "n2 <b>$", n=2)
    return [write_log(place / "n4"), other]


# Each metric once more, from the raw lines and by other code than the package's.


def weights(raw: Raw) -> list[float]:
    logs = [sample["log_weight"] for sample in raw["samples"]]
    parts = [1.0 if log is None else math.exp(float(log)) for log in logs]
    total = sum(parts)
    return [part / total if total else 0.0 for part in parts]


def share(raw: Raw, keep: Callable[[Raw], bool]) -> float:
    return sum(w for w, s in zip(weights(raw), raw["samples"], strict=True) if keep(s))


def valid(raw: Raw) -> float:
    return share(raw, lambda sample: sample["passed"])


def at_k(raw: Raw, k: int) -> float:
    if raw["method"] != "follower":
        return 1 - (1 - valid(raw)) ** k
    failing = sum(not s["passed"] for s in raw["samples"])
    miss = 1.0
    for i in range(k):  # none of k draws without replacement passes
        miss *= max(0, failing - i) / (raw["n"] - i)
    return 1 - miss


def nats(raw: Raw) -> float:
    parts = zip(weights(raw), raw["samples"], strict=True)
    return sum(w * s["log_prob"] / s["tokens"] for w, s in parts)


def confused(column: str, raw: Raw) -> Callable[[Raw], bool]:
    said, _, truth = column.removeprefix("check ").partition(", ")
    check = {"passes": True, "fails": False, "silent": None}[said]
    return lambda s: s["check"] is check and s["passed"] == (truth == "valid")


def uniform(rows: Iterable[Raw], value: Callable[[Raw], float]) -> float:
    """The mean over types of the mean over instances."""
    by_task = defaultdict(list)
    for raw in rows:
        by_task[raw["task"]].append(value(raw))
    means = [sum(values) / len(values) for values in by_task.values()]
    return sum(means) / len(means)


def again(key: str, row: str, column: str, raws: list[Raw]) -> float | None:
    """A cell's value from its lines; None for one that is a part of a larger run."""
    k = int(column[2:]) if re.fullmatch(r"[kn]=\d+", column) else 0
    if key == "followers":
        return 1000.0 if column == "million parameters" else uniform(raws, valid)
    if key == "pass_at_1":
        if column == "instances":
            return len({raw["id"] for raw in raws})
        return uniform(raws, valid)
    if key == "pass_at_k":
        return uniform(raws, lambda raw: at_k(raw, k))
    if key == "budget":
        if all(raw["n"] == k for raw in raws):
            return uniform(raws, valid)
        return None if raws[0]["method"] == "is" else uniform(raws, valid)
    if key == "nats":
        return uniform(raws, nats)
    if key == "coherency":
        return uniform(raws, lambda raw: raw["score"])
    if key == "confusion":
        if column == "null":
            return uniform(raws, lambda raw: float(sum(weights(raw)) == 0))
        return uniform(raws, lambda raw: share(raw, confused(column, raw)))
    if key == "confusion_counts":
        if column == "null":
            return sum(not raw["samples"] for raw in raws)
        return sum(confused(column, raw)(s) for raw in raws for s in raw["samples"])
    if key == "retries":
        if column == "runs":
            return len(raws)
        number = int(row.partition("#")[2]) - 1
        shares = [became(raw, number).get(column, 0.0) for raw in raws]
        return sum(shares) / len(raws)
    if key == "messages":
        return len(raws)
    if key == "runs":
        failed = sum(raw["error"] is not None for raw in raws)
        seconds = uniform(raws, lambda raw: raw["seconds"])
        return {"runs": len(raws), "errors": failed, "seconds": seconds}[column]
    if key == "cost":
        if column == "runs with a price":
            return len(raws)
        return uniform(raws, lambda raw: 100 * raw["cost"])
    assert key == "tokens"
    used = {"follower": "follower_tokens", "planner, written": "planner_output"}
    used |= {"planner, read": "planner_input", "planner, from cache": "planner_cached"}
    if column in used:
        return uniform(raws, lambda raw: raw["usage"].get(used[column], 0))
    return None  # the answer is drawn: see the test of tokens by hand


def became(raw: Raw, number: int) -> dict[str, float]:
    if number < len(raw["attempts"]) - 1 or raw["error"]:
        return {raw["attempts"][number]["outcome"]: 1.0}
    return {"valid": valid(raw), "invalid": 1 - valid(raw)}


def lines(log: dict[str, Any]) -> dict[int, Raw]:
    directory = Path(log["directory"])
    text = (directory / "results.jsonl").read_text().splitlines()
    found = {number: json.loads(line) for number, line in enumerate(text, 1)}
    verdicts = map(json.loads, (directory / "judgements.jsonl").read_text().splitlines())
    scores = {(v["id"], v["method"]): v["score"] for v in verdicts}
    for raw in found.values():
        raw["score"] = scores[raw["id"], raw["method"]]
    return found


def numbers(ranges: str) -> list[int]:
    ends = [part.partition("-") for part in ranges.split(",")]
    return [n for a, _, b in ends for n in range(int(a), int(b or a) + 1)]


def test_every_number_follows_from_the_lines_it_names(logs: list[Path]) -> None:
    data = json.loads(json.dumps(build(logs).to_dict(), allow_nan=False))
    found = {log["label"]: lines(log) for log in data["logs"]}
    seen: dict[str, int] = defaultdict(int)
    for table in data["tables"]:
        for row in table["rows"]:
            for column, cell in zip(table["columns"], row["cells"], strict=True):
                if not isinstance(cell["value"], int | float):
                    continue
                if "published" in cell:
                    assert re.search("tab:|Token|model card", cell["published"])
                    continue
                source = data["sources"][cell["source"]]
                raws = [found[log][n] for log, ranges in source.items() for n in numbers(ranges)]
                expected = again(table["key"], row["name"], column, raws)
                if expected is not None:
                    where = (table["key"], row["name"], column)
                    assert cell["value"] == pytest.approx(expected), where
                    seen[table["key"]] += 1
                if "low" in cell:
                    assert cell["low"] - 1e-9 <= cell["value"] <= cell["high"] + 1e-9
    missed = {table["key"] for table in data["tables"]} - set(seen)
    assert missed == {"published"}, "its numbers are the paper's"


def test_the_lines_of_a_cell_are_those_of_its_row_and_column(logs: list[Path]) -> None:
    report = build(logs[:1])
    table = report.table("pass_at_1")
    assert table is not None
    cell = dict(table.column("is"))["sentences"]
    assert {line.row.method for line in cell.lines} == {"is"}
    assert {line.row.task for line in cell.lines} == {"sent_01", "sent_04"}
    assert 2 not in [line.number for line in cell.lines], "the instance was run again later"
    assert 37 in [line.number for line in cell.lines]


def test_smc_has_a_number_only_where_it_was_run(logs: list[Path]) -> None:
    alone, both = build(logs[:1]).table("budget"), build(logs).table("budget")
    assert alone is not None and both is not None
    assert alone.columns == both.columns == ("n=1", "n=2", "n=4")
    values = {name: [cell.value for cell in cells] for name, cells in alone.rows}
    assert values["smc, sentences"][:2] == [None, None]
    assert None not in values["is, sentences"]
    values = {name: [cell.value for cell in cells] for name, cells in both.rows}
    assert values["smc, sentences"][0] is None and None not in values["smc, sentences"][1:]


def test_a_budget_is_left_out_unless_all_of_a_level_has_it(logs: list[Path]) -> None:
    place = logs[0].parent / "partly"
    writer = LogWriter(place)
    writer.append(build(logs[1:]).series[0].lines[0].row)
    writer.close()
    (place / "run.json").write_bytes((logs[1] / "run.json").read_bytes())
    table = build([logs[0], place]).table("budget")
    assert table is not None
    values = {name: [cell.value for cell in cells] for name, cells in table.rows}
    assert values["smc, sentences"][:2] == [None, None], "one of six instances ran with n = 2"


def test_a_suite_of_ones_own_has_every_table_and_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    log = write_log(tmp_path / "own")
    for name in ("results.jsonl", "judgements.jsonl"):
        text = (log / name).read_text()
        for task in TASKS:
            text = text.replace(task, f"own_{task[-2:]}")
        (log / name).write_text(text)
    report = build([log])
    table = report.table("budget")
    assert table is not None
    assert {name.rpartition(", ")[2] for name, _ in table.rows} == {"all"}
    assert {name for name, (_, figure) in FIGURES.items() if figure(report) is None} == set()


class Page(HTMLParser):
    """Open tags that were not closed, ids, and what would be fetched."""

    VOID = frozenset({"meta", "br", "link", "img"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.titles = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self._attributes(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._attributes(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes something else"

    def _attributes(self, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.ids.append(str(found["id"]))
        self.links += [str(found[name]) for name in ("href", "src") if name in found]
        self.titles += "data-lines" in found and bool(found.get("title"))


@pytest.fixture(scope="module")
def page(logs: list[Path]) -> str:
    pytest.importorskip("matplotlib")
    report = build(logs)
    return render_page(report, draw(report))


def test_the_page_is_well_formed_and_needs_no_network(page: str) -> None:
    parser = Page()
    parser.feed(page)
    parser.close()
    assert not parser.open
    assert len(set(parser.ids)) == len(parser.ids), "an id for each"
    assert "http:" not in page and "https:" not in page and "url(http" not in page
    assert all(link.startswith("#") for link in parser.links)
    used = {link[1:] for link in parser.links} | set(re.findall(r"url\(#([^)]+)\)", page))
    assert used <= set(parser.ids)
    assert not {"img", "image", "link", "iframe"} & set(parser.tags)
    assert parser.tags.count("script") == 1, "no text of a log becomes one"
    assert parser.titles > 100
    assert '"n4:1"' in page and "data-lines=" in page
    assert "color-scheme: light dark" in page and "width=device-width" in page


def test_the_figures_are_all_there_and_the_page_is_the_same_again(
    page: str, logs: list[Path]
) -> None:
    for name in FIGURES:
        assert f'<figure id="figure-{name}"><svg role="img"' in page
    assert page.count("<svg ") == len(FIGURES)
    report = build(logs)
    assert render_page(report, draw(report)) == page


def test_a_figure_without_numbers_is_left_out(logs: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "bare").mkdir()
    plain = (logs[0] / "results.jsonl").read_bytes().replace(b'"cost": 0', b'"cost": null, "x": 0')
    (tmp_path / "bare" / "results.jsonl").write_bytes(plain)
    report = build([tmp_path / "bare"])
    assert report.table("coherency") is None and report.table("cost") is None
    missing = {name for name, (_, figure) in FIGURES.items() if figure(report) is None}
    assert missing == {"coherency", "cost", "followers"}


def test_the_markdown_has_every_table_and_the_lines(logs: list[Path]) -> None:
    report = build(logs)
    text = render_markdown(report)
    for table in report.tables:
        assert f"## {table.title}" in text
    assert "| smc (n4) | sent_01 | `n4` | 1,4,7 |" in text
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block


def test_what_cannot_be_reported_is_said(logs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="each of them once"):
        build([logs[0], logs[0]])
    with pytest.raises(EvaluationError, match="there is no log"):
        build([tmp_path])
    (tmp_path / "results.jsonl").write_text("")
    with pytest.raises(EvaluationError, match="no run yet"):
        build([tmp_path])


def test_the_command(logs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = map(str, logs)
    html, markdown = tmp_path / "to" / "r.html", tmp_path / "r.md"
    assert cli.run(["report", first, "--html", str(html)]) == 0
    assert cli.run(["report", first, second, "--markdown", str(markdown)]) == 0
    assert "<h1>" in html.read_text() and "# Eval" in markdown.read_text()
    assert capsys.readouterr().out == "", "what was written to files is not printed too"
    assert cli.run(["report", first]) == 0
    shown = capsys.readouterr().out
    assert "| task | instances | smc | is | follower | paper: DisCIPL SMC, Llama-3.2-1B |" in shown
    assert cli.run(["report", first, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"pass_at_1", "instances", "errors", "seconds", "report"}
    assert [s["name"] for s in data["report"]["series"]] == list(METHODS)
    assert cli.run(["report", first, second, "--methods"]) == 2
    assert "--methods takes a single log" in capsys.readouterr().err


def test_no_option_of_the_command_is_ignored(
    logs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, text = str(logs[0]), tmp_path / "r.md"
    written = ["--markdown", str(text), "--inspect", str(tmp_path / "inspect")]
    assert cli.run(["report", first, "--methods", *written, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [standing["method"] for standing in shown] == list(METHODS)
    assert text.exists() and len(list((tmp_path / "inspect").iterdir())) == 3
    for wrong, message in (
        (["--methods", "--quality"], "choose --methods or --quality"),
        (["--method", "smc"], "--method goes with --quality"),
        (["--words", first], "--words goes with --quality"),
        (["--data", first, "--markdown", str(text)], "--data goes with --inspect or --quality"),
        ([str(logs[1]), "--quality"], "--quality takes a single log"),
    ):
        assert cli.run(["report", first, *wrong]) == 2
        assert message in capsys.readouterr().err


def test_a_directory_of_logs_stands_for_them(
    logs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert [log.label for log in build(logs[:1]).logs] == ["n4"]
    (tree,) = {log.parent for log in logs}
    assert {log.label for log in build([tree]).logs} >= {"n4", "n2 <b>$"}
    assert cli.run(["report", str(tree), "--methods"]) == 2
    assert "--methods takes a single log" in capsys.readouterr().err


def test_without_matplotlib_it_says_what_to_install(
    logs: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.run(["report", str(logs[0]), "--html", str(tmp_path / "r.html")]) == 2
    assert "pip install 'disciple-ext[bench]'" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_texts_of_a_log_are_shown_as_they_are(page: str) -> None:
    assert EVIL not in page
    assert "&lt;script&gt;alert(&quot;$x$&quot;)" in page
