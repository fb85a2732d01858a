"""Draw the pictures of this folder from real runs: python docs/explanation/make_pictures.py.

The program is ``examples/programs/glasgow.py``, the model the embedded follower. It takes some
minutes on one core, and needs matplotlib (``pip install 'disciple-ext[bench]'``).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

from disciple_ext import Result, run_program
from disciple_ext.records.events import Event, Resampled, StepDone

HERE = Path(__file__).parent
PROGRAM = (HERE.parents[1] / "examples" / "programs" / "glasgow.py").read_text("utf-8")
FREE = """
class InferenceModel(BaseModel):
    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        await self.next_sentence(max_words=30)
        await self.end()

    def check(self, text):
        return len(units.words(text)) == 9
"""
BUDGETS = (4, 16, 64)
SEEDS = range(20)
KEPT, LOST = "#0b5394", "#bbbbbb"


def run(program: str, sampler: str, n: int, seed: int, on_event: Any = None) -> Result:
    """One run in this process."""
    options: dict[str, Any] = {"follower": "embedded", "sandbox": "none", "on_event": on_event}
    return run_program(program, sampler=sampler, n=n, seed=seed, **options)


def lineages(axes: Any, sampler: str, n: int = 16, seed: int = 3) -> None:
    """Log weights by step; a line breaks off where a particle has no descendant."""
    events: list[Event] = []
    run(PROGRAM, sampler, n, seed, events.append)
    steps: list[tuple[list[float], list[int]]] = []
    for event in events:
        if isinstance(event, StepDone):
            weights = [particle.log_weight for particle in event.particles]
            steps.append((weights, list(range(n))))
        elif isinstance(event, Resampled):
            steps[-1] = (steps[-1][0], list(event.ancestors))
    alive = set(range(n))
    for place in range(len(steps) - 1, 0, -1):
        weights, _ = steps[place]
        before, ancestors = steps[place - 1]
        parents = set()
        # What was resampled starts from the mean weight: draw each line from its parent's weight.
        for index in range(n):
            kept = index in alive
            if kept:
                parents.add(ancestors[index])
            ends = [before[ancestors[index]], weights[index]]
            if all(map(math.isfinite, ends)):
                colour, width = (KEPT, 1.4) if kept else (LOST, 0.7)
                axes.plot([place, place + 1], ends, color=colour, lw=width, zorder=1 + kept)
        alive = {ancestors[index] for index in alive} if parents else alive
        if place == len(steps) - 1:
            axes.scatter([place + 1] * n, weights, s=8, color=KEPT, zorder=3)
    axes.set_xticks(range(1, len(steps) + 1))
    axes.set_xlabel("step")
    axes.set_ylabel("log weight")
    axes.set_title(f"{sampler}: {n} particles, {len(alive)} first steps live on", fontsize=9)


def evidences(axes: Any) -> None:
    """The estimates of the log evidence, one dot for each seed."""
    for side, (sampler, colour) in enumerate((("is", "#b45f06"), ("smc", KEPT))):
        for place, n in enumerate(BUDGETS):
            found = [run(PROGRAM, sampler, n, seed).log_evidence for seed in SEEDS]
            values = [value for value in found if value is not None]
            x = place + 0.25 * side - 0.125
            axes.scatter([x] * len(values), values, s=9, color=colour, alpha=0.6, lw=0)
            mean = sum(values) / len(values)
            axes.plot([x - 0.1, x + 0.1], [mean, mean], color=colour, lw=2)
            spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
            print(f"{sampler} n={n}: mean log evidence {mean:.1f}, standard deviation {spread:.1f}")
        axes.scatter([], [], s=9, color=colour, label=sampler)
    axes.set_xticks(range(len(BUDGETS)), [str(n) for n in BUDGETS])
    axes.set_xlabel("particles")
    axes.set_ylabel("estimate of the log evidence")
    axes.set_title(f"{len(SEEDS)} seeds", fontsize=9)
    axes.legend(loc="lower right", fontsize=8)


def rejection(n: int = 512) -> None:
    """How often free sentences happen to have nine words."""
    result = run(FREE, "rs", n, 0)
    accepted = sum(particle.check is True for particle in result.particles)
    print(
        f"rs: {accepted} of {n} free sentences have nine words; log evidence "
        f"{result.log_evidence:.1f}"
    )


def main() -> None:
    """Draw, and print the figures of the page."""
    matplotlib.rcParams.update({"svg.hashsalt": "disciple", "svg.fonttype": "none"})
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
    lineages(axes[0], "is")
    lineages(axes[1], "smc")
    axes[1].sharey(axes[0])
    evidences(axes[2])
    figure.savefig(HERE / "img" / "samplers.svg", metadata={"Date": None})
    rejection()


if __name__ == "__main__":
    main()
