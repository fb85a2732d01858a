"""Draw the rooms of the package, from the top of its imports down: img/rooms.svg.

    python docs/explanation/draw_rooms.py

A test holds the rows to the layers of ``tests/test_imports.py``, and the picture to this script.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

PICTURE = Path(__file__).parent / "img" / "rooms.svg"

ROWS: tuple[dict[str, str], ...] = (
    {"cli": "parse, call one function, render"},
    {"bench": "timings, against LLaMPPL"},
    {"builtin": "our own plugins", "demo": "nine tasks", "doctor": "what is there"},
    {
        "control": "genlm-control, both ways",
        "evaluation": "suites, methods, logs, scores",
        "testing": "toy models, check_sampler",
        "scaffold": "new plugins",
    },
    {"loop": "Algorithm 1: plan, run, feed back"},
    {"run": "one run: particles, level, result"},
    {"services": "judges, rewards, potentials", "registry": "hooks, plugins, specs"},
    {
        "planner": "task to program",
        "samplers": "particles to a population",
        "sandbox": "locks, pipe, static check",
        "follower": "the language model",
        "models": "weights on disk",
        "trace": "record and viewer",
    },
    {"model": "BaseModel, contexts, masks, text by the character"},
    {
        "protocol": "requests, prefixes, vocabulary",
        "text": "words, sentences, lines",
        "records": "task, program, result, events",
    },
    {"errors": "one tree", "folders": "for users", "version": "one place"},
)
WIDTH, ROW, GAP, ROOM = 960, 64, 10, 46
PROCESSES = {"host": "#e8f0fa", "both": "#f3eefa", "worker": "#fdf3e4"}
PLACE = {
    "model": "worker",
    "samplers": "worker",
    **dict.fromkeys(("protocol", "text", "records", "errors", "version", "run", "sandbox"), "both"),
    "registry": "both",
}


def picture() -> str:
    """The SVG."""
    height = ROW * len(ROWS) + 44
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" role="img" aria-label="Rooms of the package, by layer">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, row in enumerate(ROWS):
        width = (WIDTH - GAP * (len(row) + 1)) / len(row)
        for place, (room, job) in enumerate(row.items()):
            x, y = GAP + place * (width + GAP), GAP + number * ROW
            middle, fill = x + width / 2, PROCESSES[PLACE.get(room, "host")]
            out += [
                f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{ROOM}" rx="6" '
                f'fill="{fill}" stroke="#5b6b7b"/>',
                f'<text x="{middle:.0f}" y="{y + 19}" font-size="15" font-weight="bold" '
                f'text-anchor="middle" fill="#1b2733">{room}</text>',
                f'<text x="{middle:.0f}" y="{y + 36}" font-size="12" text-anchor="middle" '
                f'fill="#33414e">{escape(job)}</text>',
            ]
    legend = {"host": "host process", "worker": "locked worker", "both": "both sides"}
    for place, (side, name) in enumerate(legend.items()):
        x, y = GAP + place * 190, height - 30
        out += [
            f'<rect x="{x}" y="{y}" width="18" height="18" fill="{PROCESSES[side]}" '
            'stroke="#5b6b7b"/>',
            f'<text x="{x + 26}" y="{y + 14}" font-size="13" fill="#1b2733">{name}</text>',
        ]
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
