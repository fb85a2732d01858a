"""The benchmark of the masks: it runs, its log is gone on with. Nothing here is timed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from disciple_ext import UsageError
from disciple_ext.bench import masks
from disciple_ext.bench.log import read_log, read_machine
from disciple_ext.bench.masks_table import BEGIN, END, figures, table
from disciple_ext.bench.table import into_page


def test_ours_is_measured_and_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "find_spec", lambda name: None)
    told: list[str] = []

    def progress(row: masks.Measured, done: int, total: int) -> None:
        told.append(row.case)

    for _ in range(2):
        rows = masks.run(["date", "json"], ["8k"], tmp_path, progress, steps=3)
    assert told == ["date"] * 3 + ["json"] * 3, "measured once"
    assert rows == read_log(tmp_path)
    for row in rows:  # a step is a difference of two times: in three steps it may be below zero
        assert row.value is not None and math.isfinite(row.value), row
        assert row.value > 0 or row.metric != "build", row
    assert {figure["case"] for figure in figures(rows)} == {"date", "json"}
    page = tmp_path / "page.md"
    page.write_text(f"a\n{BEGIN}\nold\n{END}\nb\n")
    into_page(page, table(rows, read_machine(tmp_path)), BEGIN, END)
    text = page.read_text()
    assert "| 8k | date |" in text and "old" not in text and "llguidance" in text


def test_unknown_names_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no case 'x'; one of date"):
        masks.run(["x"], ["8k"], None, lambda *_: None)
    with pytest.raises(UsageError, match="no vocabulary '9k'"):
        masks.run(["date"], ["9k"], None, lambda *_: None)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["date", "arithmetic"])
def test_genlm_control_is_measured_at_the_same_places(case: str) -> None:
    pytest.importorskip("genlm.control")
    tokens = masks.vocabulary("8k")
    timed = masks.ours(case, tokens, 4)
    theirs = masks.Potentials(case, tokens)
    places = [(place, kind) for place in timed.places for kind in masks.ROWS]
    assert len(theirs.timed(places, False, 60.0)) == 8
    assert len(theirs.timed(places[:1], True, 60.0)) == 1
