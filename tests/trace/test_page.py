"""The page is one file that loads nothing and lets no text of a program's act."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import types
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from disciple_ext import Result, UsageError
from disciple_ext.trace import viewer
from disciple_ext.trace.record import Record, Recorder
from disciple_ext.trace.viewer import embedded, page

EVIL = "</script><img src=x onerror=alert(1)><!--<script>@records@ \u2028 & \"'"


class Tags(HTMLParser):
    """The tags of a page, and what stands inside its scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[tuple[str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style"):
            self.inside.append((self.tags[-1][0], data))


def hostile() -> Record:
    """A record in which every text that a program or a planner chooses is an attack."""
    recorder = Recorder()
    recorder.about(task=EVIL, follower=EVIL, program=EVIL)
    data = json.loads(recorder.record().to_json())
    data["attempts"][0] |= {"outcome": EVIL, "error": EVIL, "traceback": EVIL}
    rows = {"from": [-1], "add": [1], "log_weight": [None], "state": "d", "changes": [[0, None]],
            "log_prior": [0], "log_proposal": [0], "hint": [1], "line": [1]}  # fmt: skip
    step = {"step": 1, "alive": 0, "finished": 0, "ess": 0, "tokens": 1, "seconds": 0, "rows": rows}
    final = {"text": EVIL, "log_weight": None, "weight": 0.0, "check": None, "reason": EVIL,
             "finish_reason": EVIL, "tokens": 1, "log_prob": None, "from": [1, 0]}  # fmt: skip
    data["runs"] = [{
        "attempt": 1, "sampler": EVIL, "n": 1, "timeout": 1, "seconds": 1, "tokens": 1,
        "log_evidence": None, "ess": None, "strings": ["", EVIL], "sources": [[1, 1, 1, 1]],
        "steps": [step], "resampled": [], "ends": [[1, 0, 1, 1]], "final": [final],
        "printed": EVIL, "cut": {}}]  # fmt: skip
    data["answer"] = {"text": EVIL, "check": None, "verified": None, "rule": EVIL, "ess": 0}
    return Record(data)


def test_no_text_of_a_record_becomes_markup() -> None:
    html = page([hostile()], [EVIL])
    assert [tag for tag, _ in Tags(html).tags].count("script") == 2
    assert not [tag for tag, _ in Tags(html).tags if tag == "img"]
    assert html.count("onerror") == html.count("src=x onerror=alert(1)>")
    assert "<img" not in html and "<!--" not in html
    assert embedded(html) == json.loads(hostile().to_json())


def test_the_policy_allows_its_own_style_and_script_alone(toy: Any) -> None:
    html = toy.result.record.to_html()
    parsed = Tags(html)
    policy = next(a["content"] for t, a in parsed.tags if a.get("http-equiv"))
    assert policy and policy.startswith("default-src 'none'") and "unsafe" not in policy
    kinds = {"style": 0, "script": 0}
    for kind, text in parsed.inside:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        kinds[kind] += f"{kind}-src 'sha256-{digest}'" in policy
    assert kinds == {"style": 1, "script": 1}
    assert not re.findall(r"(?:src|href)=|@import|url\(|https?://", html)


def test_the_script_puts_text_into_the_page_as_text_only() -> None:
    script = "".join(path.read_text() for path in Path(viewer.__file__).parent.glob("*.js"))
    forbidden = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|fetch\("
    assert not re.findall(forbidden, script)


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(
    toy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    shell = types.ModuleType("IPython")
    shell.get_ipython = lambda: types.SimpleNamespace(kernel=True)  # type: ignore[attr-defined]
    shell.display = types.SimpleNamespace(display=shown.append, HTML=str)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", shell)
    toy.result.show()
    (tag, attributes), *rest = Tags(shown[0]).tags
    assert tag == "iframe" and attributes["sandbox"] == "allow-scripts" and not rest
    assert attributes["srcdoc"] == toy.result.record.to_html()


def test_elsewhere_it_opens_the_browser(
    toy: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(viewer.webbrowser, "open", lambda url: bool(asked.append(url)) or True)
    toy.result.show()
    assert asked[0].startswith("file://") and asked[0].endswith("trace.html")
    assert Path(asked[0].removeprefix("file://")).read_text() == toy.result.record.to_html()


def test_a_run_that_was_not_traced_says_how_to(run_toy: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match="trace=True"):
        run_toy(trace=False).result.show()


# A result in a notebook -------------------------------------------------------------------------


def test_the_summary_has_the_best_texts_escaped(toy: Any, run_toy: Callable[..., Any]) -> None:
    source = (
        "class InferenceModel(BaseModel):\n"
        "    async def step(self):\n"
        "        await self.next_token()\n"
        "        self.finish()\n"
        f"    def __str__(self): return {EVIL!r}\n"
    )
    evil = run_toy(source=source).result
    assert evil.text == EVIL
    tags = {tag for tag, _ in Tags(evil._repr_html_()).tags}
    assert not tags & {"img", "script"}
    html = toy.result._repr_html_()
    heaviest = max(toy.result.particles, key=lambda p: p.weight)
    assert heaviest.text in html and f"ESS {toy.result.ess:.1f} of 12" in html


@pytest.mark.slow  # pandas takes its time
def test_a_data_frame_has_a_row_for_each_particle(toy: Any) -> None:
    pytest.importorskip("pandas")
    frame = toy.result.to_dataframe()
    assert list(frame.text) == [
        p.text for p in sorted(toy.result.particles, key=lambda p: -p.log_weight)
    ]
    assert frame.weight.sum() == pytest.approx(1.0)
    assert {"check", "finish_reason", "log_prob"} < set(frame.columns)


def test_a_missing_pandas_names_its_command(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        toy.result.to_dataframe()


def test_a_result_without_its_record_is_as_before(toy: Any) -> None:
    data = toy.result.to_dict()
    assert "record" not in data
    again = Result.from_dict(data)
    assert again.record is None and again == toy.result
