"""The report in a real browser: it loads from a file, and nothing goes wrong there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from disciple_ext.evaluation.report.build import build
from disciple_ext.evaluation.report.figures import FIGURES, draw
from disciple_ext.evaluation.report.page import render_page

from .logs import write_log

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
CLICK = '<script>document.querySelector("#pass_at_1 td[data-lines]").click();</script>'

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


def loaded(page: str, place: Path) -> tuple[str, list[str]]:
    """The page's document once its script has run, and what the console said."""
    (place / "page.html").write_text(page, "utf-8")
    done = subprocess.run(
        [
            *(str(CHROMIUM), *QUIET, f"--user-data-dir={place / 'profile'}"),
            *("--window-size=390,900", "--enable-logging=stderr", "--dump-dom"),
            (place / "page.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_the_page_loads_from_a_file_and_shows_the_runs_of_a_number(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    report = build([write_log(tmp_path / "n4"), write_log(tmp_path / "n2", n=2)])
    page = render_page(report, draw(report)).replace("</body>", f"{CLICK}</body>")
    document, console = loaded(page, tmp_path)
    assert console == []
    assert document.count("<svg ") == len(FIGURES)
    rows = re.findall(r"<tr [^>]*data-line=[^>]*>", document)
    assert len(rows) == 72 and '<details id="every" open="">' in document
    # The first number is that of all instances of a type: three, under three methods, twice.
    assert sum("hidden" not in row for row in rows) == 18


def test_the_console_would_tell_of_an_error_and_of_a_request(tmp_path: Path) -> None:
    report = build([write_log(tmp_path / "n4")])
    page = render_page(report, {})
    wrong = '<img src="https://example.org/x.png"><script>nonsense();</script></body>'
    console = "\n".join(loaded(page.replace("</body>", wrong), tmp_path)[1])
    assert "nonsense is not defined" in console and "Content Security Policy" in console
