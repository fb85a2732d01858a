"""Make the pictures of the trace viewer: python docs/how-to/trace_pictures.py (needs Chromium)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from disciple_ext import self_steer
from disciple_ext.trace.viewer import page

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "trace"))

from chromium import Browser  # noqa: E402

WORDS = "Please generate a sentence containing the word 'winter', 'boat', 'market'."
PLACES = (
    "Please generate a sentence:\n1) with exactly 12 words;\n"
    "2) with the 4th, 8th, 11th words to be 'old', 'river', 'stone' respectively."
)
OPTIONS = {"follower": "embedded", "n": 32, "trace": True}


def main() -> None:
    """Trace three runs, open them, and take four pictures."""
    winter = self_steer(WORDS, **OPTIONS, seed=1).record
    smc, plain = (self_steer(PLACES, **OPTIONS, seed=4, sampler=s) for s in ("smc", "is"))
    assert winter is not None and smc.record is not None
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        one, two = Path(folder) / "one.html", Path(folder) / "two.html"
        one.write_text(page([winter]), encoding="utf-8")
        two.write_text(page([smc.record, plain.record], ["smc", "is"]), encoding="utf-8")
        at = "app.go(Math.round(app.steps * 0.6));"

        def take(name: str, path: Path, width: int, height: int, theme: str, do: str) -> None:
            browser.resize(width, height)
            browser.prefer(prefers_color_scheme=theme)
            browser.open(path)
            browser.run(do + "; 0")
            browser.screenshot(HERE / "img" / f"{name}.png")

        (HERE / "img").mkdir(exist_ok=True)
        take("trace-light", one, 1160, 860, "light", "0")
        words = at + "app.stages[0].wordsButton.click()"
        take("trace-dark", one, 1180, 880, "dark", words)
        take("trace-compare", two, 1240, 760, "light", "0")
        take("trace-phone", one, 360, 740, "light", at + "scrollTo(0, 250)")


if __name__ == "__main__":
    main()
