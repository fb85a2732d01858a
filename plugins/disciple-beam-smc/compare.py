"""Compare samplers with the embedded follower, at equal follower tokens.

    python compare.py [--seeds 4] [--copies 4,16] [--tasks sent_01,sent_04,para_05,words]

Three tasks are COLLIE's, with the expert planner's programs: their weights correct a proposal that
knows the task to a prior that does not. In the fourth, ``words``, a program of our own draws each
of eight words evenly from a list, and its weight is their probability under the prior.

Every task is run with ``smc`` first; the other samplers get as many particles as use the same
number of follower tokens with three other seeds. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from disciple_beam_smc import BeamSMC, WeightedBeamSMC

from disciple_ext import DiscipleError, Limits, Result, Task, run_program, self_steer
from disciple_ext.demo import DEMO, DemoTask
from disciple_ext.evaluation.scores.metrics import pass_at_1
from disciple_ext.evaluation.suites.collie import verify
from disciple_ext.registry.plugins import load_plugins
from disciple_ext.samplers.base import Sampler
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.samplers.smc import SMCSampler

HEAD = (
    *("task", "sampler", "n", "tokens", "Pass@1", "log-prob of a token"),
    *("s.d. log Z", "forwards", "CPU seconds"),
)

SENT_01 = DemoTask(
    "sent_01",
    "Please generate a sentence with exactly 82 characters. "
    "Include whitespace into your character count.",
    82,
    n=32,
)
WORDS = DemoTask("words", "Write a sentence of eight words from the list.", None, n=32)
# Twice the paper's particles for paragraphs: eight leave no room for beams.
TASKS = {
    **{t.type: t if t.n >= 16 else replace(t, n=16) for t in (SENT_01, *DEMO[1:])},
    "words": WORDS,
    "words_128": replace(WORDS, type="words_128", n=128),
}

PROGRAM = '''
class InferenceModel(BaseModel):
    """Writes a sentence of eight words from a list."""

    LIST = (
        "the a he she they we it was were is had and but in on at to of with for very old big "
        "small good new man woman boy girl house dog day water city river went came saw made "
        "took said there his her their first last many"
    ).split()

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        word = self.random.choice(self.LIST)
        await self.force(" " + word if self.text else word.capitalize())
        if len(self.words) == 8:
            await self.force(".")
            self.finish()

    def check(self, text):
        return len(text.split()) == 8
'''


@dataclass(frozen=True)
class Measured:
    """One run: follower tokens and forwards, Pass@1, log-prob of a token, log evidence, CPU."""

    tokens: int
    forwards: int
    pass_at_1: float
    log_prob: float | None
    log_evidence: float | None
    seconds: float


def measure(task: DemoTask, sampler: Sampler, n: int, seed: int, follower: Any) -> Measured:
    """Run a task once; a run without an answer counts as failed."""
    begun = time.process_time()
    asked = Task(task.prompt, n=n, limits=Limits(timeout=240))
    options: dict[str, Any] = {
        "follower": follower,
        "sampler": sampler,
        "seed": seed,
        "sandbox": "none",  # so that the seconds are those of one process
    }
    try:
        if task.targets is None:
            result = run_program(PROGRAM, asked, **options)
        else:
            result = self_steer(asked, retries=1, **options)
    except DiscipleError as error:
        print(f"  {task.type}, {sampler.name}, seed {seed}: {error}")
        return Measured(0, 0, 0.0, None, None, time.process_time() - begun)
    passed = [
        bool(p.check) if task.targets is None else verify(task.type, task.targets, p.text)
        for p in result.particles
    ]
    return Measured(
        result.usage.follower_tokens,
        result.usage.forwards,
        pass_at_1([p.log_weight for p in result.particles], passed),
        log_prob(result),
        result.log_evidence,
        time.process_time() - begun,
    )


def log_prob(result: Result) -> float:
    """Log-prob of a token under the prior, as a mean over particles by weight."""
    return math.fsum(
        p.weight * p.log_prob / p.tokens for p in result.particles if p.weight and p.log_prob
    )


def samplers(copies: Sequence[int]) -> Iterator[tuple[str, Sampler]]:
    """What is compared, ``smc`` first."""
    yield "smc", SMCSampler()
    yield "is", ImportanceSampler()
    for make in (BeamSMC, WeightedBeamSMC):
        for k in copies:
            yield f"{make.name}, K = {k}", make(k)


def particles(task: DemoTask, sampler: Sampler, budget: float, follower: Any) -> int:
    """The particles that use about ``budget`` follower tokens."""
    tries = [measure(task, sampler, task.n, 1000 + seed, follower).tokens for seed in range(3)]
    share = budget / statistics.mean(tries) if any(tries) else 1.0
    return task.n if abs(share - 1.0) < 0.03 else max(1, round(task.n * share))


def mean(values: Iterable[float | None], digits: int) -> str:
    """The mean and its standard error, as text."""
    found = [value for value in values if value is not None]
    if not found:
        return "-"
    error = statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else 0.0
    return f"{statistics.mean(found):.{digits}f} ± {error:.{digits}f}"


def spread(values: Iterable[float | None]) -> str:
    """The standard deviation, as text."""
    found = [v for v in values if v is not None]
    return f"{statistics.stdev(found):.2f}" if len(found) > 1 else "-"


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--tasks", default="sent_01,sent_04,para_05,words")
    parser.add_argument("--copies", default="4,16")
    options = parser.parse_args()
    follower = load_plugins().make("followers", "embedded")
    print("| " + " | ".join(HEAD) + " |")
    print("|---" * len(HEAD) + "|")
    for task in (TASKS[name] for name in options.tasks.split(",")):
        budget = 0.0
        for name, sampler in samplers([int(k) for k in options.copies.split(",")]):
            n = particles(task, sampler, budget, follower) if budget else task.n
            runs = [measure(task, sampler, n, seed, follower) for seed in range(options.seeds)]
            budget = budget or statistics.mean(r.tokens for r in runs)
            cells = [
                task.type,
                name,
                str(n),
                f"{statistics.mean(r.tokens for r in runs):.0f}",
                mean((r.pass_at_1 for r in runs), 2),
                mean((r.log_prob for r in runs), 2),
                spread(r.log_evidence for r in runs),
                f"{statistics.mean(r.forwards for r in runs):.0f}",
                mean((r.seconds for r in runs), 1),
            ]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
