"""The viewer in a real browser: what it shows is what the record says."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, found
from test_page import EVIL, hostile

from disciple_ext import self_steer
from disciple_ext.samplers import weights
from disciple_ext.testing import ReplayPlanner, ToyFollower
from disciple_ext.trace.llamppl import texts_of
from disciple_ext.trace.record import Record
from disciple_ext.trace.viewer import page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(found() is None, reason="Chromium is not installed"),
]

AXE = """axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map(
    (v) => v.id + ': ' + v.nodes.map((n) => n.html.slice(0, 200)).join(' | ')))"""
ROWS = """[...document.querySelectorAll('.stage:first-child .particles li:not([hidden])')]
    .map((r) => ({number: Number(r.querySelector('.rank').textContent) - 1, state: r.dataset.state,
        text: r.querySelector('.text').textContent,
        fresh: r.querySelector('mark').textContent,
        weight: r.querySelector('.weight').textContent, drop: r.querySelector('.drop').textContent,
        chosen: r.getAttribute('aria-selected')}))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Callable[..., Browser]:
    """A browser that shows some records, in a window of a size."""

    def show(*records: Record, width: int = 1280, height: int = 900) -> Browser:
        path = tmp_path / "trace.html"
        path.write_text(page(records), encoding="utf-8")
        browser.console.clear()
        browser.requests.clear()
        browser.prefer(prefers_color_scheme="light")
        browser.resize(width, height)
        browser.open(path, offline=True)
        return browser

    return show


def percent(share: float) -> str:
    if share == 0:
        return "0 %"
    return "<0.1 %" if share < 0.001 else f"{100 * share:.{1 if share < 0.1 else 0}f} %"


def logs(values: list[float | None]) -> list[float]:
    return [-math.inf if value is None else value for value in values]


def ancestors(run: dict[str, Any], frame: int, place: int) -> list[int]:
    """The rows of a particle's ancestors, from the first step on, itself at the end."""
    path = [place]
    while frame > 0:
        place = run["steps"][frame]["rows"]["from"][place]
        frame -= 1
        path.insert(0, place)
    return path


def place_of(browser: Browser, frame: int, row: int) -> tuple[float, float]:
    """Where a particle is drawn in the window."""
    x, y = browser.run(
        "(() => { const p = app.stages[0].picture, c = p.canvas.getBoundingClientRect();"
        f"return [c.left + p.x({frame}) - p.left, c.top + p.y({row}) - p.top]; }})()"
    )
    return x, y


def test_it_opens_from_a_file_without_a_network(toy: Any, shown: Callable[..., Browser]) -> None:
    browser = shown(toy.result.record)
    assert browser.console == []
    assert all(url.startswith("file://") for url in browser.requests)
    assert len(browser.requests) == 1
    assert browser.run("document.querySelector('.ribbon').textContent") == toy.result.text


@pytest.mark.parametrize("name", ["toy", "embedded"])
def test_particles_weights_and_words_are_the_records(
    name: str, request: pytest.FixtureRequest, shown: Callable[..., Browser]
) -> None:
    run = request.getfixturevalue(name).run
    browser, texts = shown(request.getfixturevalue(name).result.record), texts_of(run)
    for frame, step in enumerate(run["steps"]):
        browser.run(f"app.go({frame})")
        rows, told = browser.run(ROWS), step["rows"]
        assert [row["number"] for row in rows] == list(range(len(told["add"])))
        assert [row["text"] for row in rows] == texts[step["step"]]
        assert [row["fresh"] for row in rows] == [run["strings"][s] for s in told["add"]]
        shares = weights.normalise(logs(told["log_weight"]))
        assert [row["weight"] for row in rows] == [percent(float(s)) for s in shares]
        assert "".join(row["state"] for row in rows) == told["state"]
        dead = [row["drop"] for row in rows if row["state"] == "d"]
        assert all(drop.startswith("It died") or drop == "It is dead." for drop in dead)
        lines = browser.run(
            "[...document.querySelectorAll('.line.ran')]"
            ".map((line) => Number(line.querySelector('.number').textContent))"
        )
        ran = {run["sources"][s][1] for flat in told["changes"] for s in flat[::2]}
        assert ran - {0} == set(lines)


def test_the_lineage_leads_from_the_first_word_to_the_answer(
    toy: Any, shown: Callable[..., Browser]
) -> None:
    browser, run = shown(toy.result.record), toy.run
    path = browser.run("[...app.stages[0].path]")
    texts = texts_of(run)
    last = next(f for f, row in reversed(list(enumerate(path))) if row >= 0)
    assert path[: last + 1] == ancestors(run, last, path[last])
    assert texts[run["steps"][last]["step"]][path[last]] == toy.result.text
    pieces = browser.run("app.stages[0].pieces.filter(Boolean).map((p) => p.textContent)")
    assert "".join(pieces) == toy.result.text
    # Another particle's lineage, chosen with the mouse on the genealogy.
    browser.run("app.go(2)")
    browser.mouse("click", *place_of(browser, 2, 4))
    assert browser.run("[...app.stages[0].path].slice(0, 3)") == ancestors(run, 2, 4)
    (row,) = [row for row in browser.run(ROWS) if row["chosen"] == "true"]
    assert row["number"] == 4


def test_the_filter_leaves_ancestors_and_descendants(
    toy: Any, shown: Callable[..., Browser]
) -> None:
    browser, run = shown(toy.result.record), toy.run
    browser.run("app.go(3); app.stages[0].choose([3, 1]); app.stages[0].onlyButton.click()")
    for frame in range(len(run["steps"])):
        browser.run(f"app.go({frame})")
        here = {row["number"] for row in browser.run(ROWS)}
        if frame <= 3:
            assert here == {ancestors(run, 3, 1)[frame]}
        else:
            rows = range(len(run["steps"][frame]["rows"]["add"]))
            assert here == {i for i in rows if ancestors(run, frame, i)[3] == 1}
    browser.press("Escape")
    assert browser.run("app.stages[0].node") is None


def test_keys_step_play_and_choose(toy: Any, shown: Callable[..., Browser]) -> None:
    browser, steps = shown(toy.result.record), len(toy.run["steps"])
    where = "document.getElementById('where').textContent"
    browser.press("Home")
    assert browser.run(where) == f"step 1 (1 of {steps})"
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    browser.press("ArrowLeft")
    assert browser.run(where) == f"step 2 (2 of {steps})"
    browser.press("End")
    assert browser.run("app.at") == steps - 1
    browser.run("document.getElementById('speed').value = '4'")
    browser.press(" ")
    browser.until("app.timer !== null && app.at > 0 && app.at < app.steps - 1")
    browser.press(" ")
    assert browser.run("app.timer") is None
    browser.press(" ")
    browser.until("app.timer === null && app.at === app.steps - 1")
    browser.run("app.go(1); document.querySelector('.particles').focus()")
    before = browser.run("app.stages[0].path[1]")
    browser.press("ArrowDown" if before < 11 else "ArrowUp")
    assert abs(browser.run("app.stages[0].path[1]") - before) == 1
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_drop_is_explained_on_hover(toy: Any, shown: Callable[..., Browser]) -> None:
    browser, run = shown(toy.result.record), toy.run
    forced = next(
        (frame, place)
        for frame, step in enumerate(run["steps"])
        for place, flat in enumerate(step["rows"]["changes"])
        if step["rows"]["state"][place] != "d"
        and any(run["strings"][run["sources"][s][0]] == "force" for s in flat[::2])
    )
    browser.mouse("move", *place_of(browser, *forced))
    tip = browser.run("document.querySelector('.tip:not([hidden])').textContent")
    assert f"Particle {forced[1] + 1}, step {run['steps'][forced[0]]['step']}" in tip
    assert "the program forced “ river”, line 10" in tip
    assert "Masks in force: AvoidWordsMask(['rain'])" in tip and "be brief" in tip
    browser.run(f"app.go({forced[0]}); app.stages[0].choose([{forced[0]}, {forced[1]}])")
    assert "the program forced" in browser.run("document.querySelector('.why').textContent")
    assert "▶" in browser.run("document.querySelectorAll('.line')[9].textContent")


CRASH = """class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        1 / 0
"""


def two_attempts(program: str) -> Record:
    planner = ReplayPlanner([CRASH, program])
    follower = ToyFollower.random(5, [" the", " old", " man", " river", " rain", " saw"])
    result = self_steer(
        "t", planner=planner, follower=follower, n=8, sandbox="none", trace=True, dry_run=False
    )
    assert result.record is not None
    return result.record


def test_attempts_stand_in_tabs_with_their_errors(toy: Any, shown: Callable[..., Browser]) -> None:
    browser = shown(two_attempts(toy.result.program["source"]))
    tabs = "[...document.querySelectorAll('[role=tab]')].map((t) => t.textContent)"
    assert [t.split(" · ")[1] for t in browser.run(tabs)] == ["ProgramCrashed", "ok"]
    browser.run("document.querySelectorAll('[role=tab]')[0].click()")
    error = browser.run("document.querySelector('.error').textContent")
    assert "ZeroDivisionError" in error and "line 4" in error
    assert "1 / 0" in browser.run("document.querySelector('.line.failed').textContent")
    browser.run("document.querySelectorAll('[role=tab]')[0].focus()")
    browser.press("ArrowRight")
    assert browser.run(
        "document.querySelector('[aria-selected=true][role=tab]').textContent"
    ).endswith("ok")
    assert browser.run("document.querySelector('.error')") is None


def test_two_runs_are_compared_step_by_step(
    toy: Any, run_toy: Callable[..., Any], shown: Callable[..., Browser]
) -> None:
    other = run_toy(sampler="is")
    browser = shown(toy.result.record, other.result.record)
    browser.run("app.go(1)")
    for place, traced in enumerate((toy, other)):
        rows = browser.run(ROWS.replace(":first-child", f":nth-child({place + 1})"))
        assert [row["text"] for row in rows] == texts_of(traced.run)[2]
        facts = browser.run(f"document.querySelectorAll('.facts')[{place}].textContent")
        assert traced.run["sampler"] in facts
    left, right = browser.run(
        "[...document.querySelectorAll('.stage')].map((s) => s.getBoundingClientRect().left)"
    )
    assert left < right
    browser.run(
        "{ const s = document.getElementById('against'); s.value = '';"
        " s.dispatchEvent(new Event('change')); }"
    )
    assert browser.run("document.querySelectorAll('.stage').length") == 1


def test_hostile_texts_are_shown_and_do_nothing(shown: Callable[..., Browser]) -> None:
    browser = shown(hostile())
    browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    assert browser.console == [] and len(browser.requests) == 1
    assert browser.run("document.querySelectorAll('img, iframe, object').length") == 0
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.run("document.getElementById('task').textContent") == EVIL
    (row,) = browser.run(ROWS)
    assert row["text"] == EVIL
    assert browser.run("document.querySelector('.code').textContent") == EVIL
    # The policy holds even where markup gets in.
    browser.run(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hit = 1\">')"
    )
    browser.run("new Promise((done) => setTimeout(done, 200))")
    assert browser.run("window.hit") is None


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_is_accessible(
    toy: Any, run_toy: Callable[..., Any], shown: Callable[..., Browser], theme: str, width: int
) -> None:
    core = pytest.importorskip("axe_core_python")
    axe = (Path(core.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    records = (
        [toy.result.record],
        [toy.result.record, run_toy(sampler="is").result.record],
        [hostile()],
    )
    for group in (*records, [two_attempts(CRASH.replace("1 / 0", "self.finish()"))]):
        browser = shown(*group, width=width)
        browser.prefer(prefers_color_scheme=theme)
        browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
        browser.run("app.go(2)")
        browser.run(axe + ";0")
        assert browser.run(AXE) == []
        assert browser.run("document.documentElement.scrollWidth") <= width


def test_themes_and_motion_follow_the_reader(toy: Any, shown: Callable[..., Browser]) -> None:
    browser = shown(toy.result.record)
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    moves = "getComputedStyle(document.querySelector('.fill')).transitionDuration"
    assert browser.run(moves) != "0s"
    light = browser.run(paper)
    browser.prefer(prefers_color_scheme="dark", prefers_reduced_motion="reduce")
    dark = browser.run(paper)
    assert light != dark
    browser.run("document.getElementById('theme').click()")
    assert browser.run(paper) == light
    browser.run("document.getElementById('theme').click()")
    assert browser.run(paper) == dark
    assert browser.run(moves) == "0s"


LONG = '''
class InferenceModel(BaseModel):
    """Two hundred steps."""

    def __init__(self, context, max_tokens=400):
        super().__init__(context=context, max_tokens=max_tokens)
        self.count = 0

    async def step(self):
        self.count += 1
        async with AvoidWordsMask(self, ["market"]):
            await self.next_token()
        if self.count % 9 == 0:
            await self.force(" river")
        if self.count % 40 == 0:
            self.condition(self.random.random() > 0.3)
        if self.count == 200:
            self.finish()
'''


def test_128_particles_and_200_steps_stay_small_and_smooth(
    run_toy: Callable[..., Any], shown: Callable[..., Browser], capsys: pytest.CaptureFixture[str]
) -> None:
    record = run_toy(LONG, n=128).result.record
    size = len(record.to_html().encode())
    assert size < 5_000_000
    run = record.data["runs"][0]
    assert len(run["steps"]) == 200 and not run["cut"]
    browser = shown(record)
    opened = browser.busy()
    browser.run("app.go(0)")
    before, frames = browser.busy(), 100
    browser.run(f"""(async () => {{ for (let k = 0; k < {frames}; k++) {{
        app.go(2 * k); await new Promise(requestAnimationFrame); }} }})()""")
    step = (browser.busy() - before) / frames
    wall = json.loads(browser.run("JSON.stringify(performance.getEntriesByType('navigation')[0])"))
    with capsys.disabled():
        print(
            f"\n128 x 200: {size / 1e6:.1f} MB; CPU of the page's thread: {opened:.2f} s to open, "
            f"{1000 * step:.0f} ms a step; {wall['duration'] / 1000:.2f} s on the clock to open"
        )
    assert opened < 2.0 and step < 0.05
