"""Compare `rejuvenate` and `edit` with `smc`, `is` and `rs` at equal follower tokens.

    python compare.py [--tasks sent_01,late,acrostic,toy] [--n 32] [--seeds 6] [--first 0]

``sent_01`` and ``sent_04`` are COLLIE's, with the expert planner's programs. ``late`` and
``acrostic`` are programs of our own: one is judged at its end only, in the other a wrong letter is
fatal. All four run on the embedded follower. ``toy`` is a small model whose target is
enumerated, so that errors can be measured.

Every task is run with ``smc`` first; the others get as many particles as use the same number of
follower tokens with three other seeds. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from disciple_rejuvenate import EditSampler, RejuvenateSampler

from disciple_ext import DiscipleError, Limits, Result, Task, run_program, self_steer
from disciple_ext.demo import DEMO
from disciple_ext.evaluation.scores.metrics import pass_at_1
from disciple_ext.evaluation.suites.collie import verify
from disciple_ext.protocol.requests import Draw, Score
from disciple_ext.registry.plugins import load_plugins
from disciple_ext.samplers.base import Population, Sampler
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.samplers.rejection import RejectionSampler
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.samplers.weights import normalise
from disciple_ext.testing import ExactPosterior, ToyFollower, exact_posterior, run_sampler

HEAD = (
    *("task", "sampler", "n", "tokens", "Pass@1", "answered", "log-prob of a token"),
    *("texts", "s.d. log Z", "CPU seconds"),
)
TOY_HEAD = ("sampler", "n", "tokens", "error of averages", "error of log Z", "texts")

SENT_01 = (
    "Please generate a sentence with exactly 82 characters. "
    "Include whitespace into your character count."
)

LATE = '''
class InferenceModel(BaseModel):
    """A sentence that is judged only at its end: 40 to 44 characters."""

    def __init__(self, context, max_tokens=48):
        super().__init__(context=context, max_tokens=max_tokens)

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        if self.text and await self.wants(".!?"):
            await self.end_sentence()
            await self.end()
        else:
            await self.next_word(capital=not self.text, punctuation="")

    def check(self, text):
        return 40 <= len(text) <= 44
'''
ACROSTIC = '''
class InferenceModel(BaseModel):
    """Four words whose first letters spell "this". Nothing is masked: a wrong letter is fatal."""

    def __init__(self, context, max_tokens=48):
        super().__init__(context=context, max_tokens=max_tokens)

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        word = await self.next_word(capital=not self.text, punctuation="")
        self.condition(word[0].lower() == "this"[len(self.words) - 1])
        if len(self.words) == 4:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return "".join(word[0].lower() for word in units.words(text)) == "this"
'''
PROGRAMS = {"late": LATE, "acrostic": ACROSTIC}
COLLIE = {t.type: (t.prompt, t.targets) for t in DEMO if t.targets is not None}
COLLIE["sent_01"] = (SENT_01, 82)

# What is good shows a step too late: resampling leaves few of the letters before it.
TOY = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        if len(self) > 1:
            self.score({"ab": 2.0, "bc": 1.0, "cc": -2.0}.get(self.text[-2:], 0.0))
        if len(self) == 6:
            self.finish()
"""


@dataclass(frozen=True)
class Measured:
    """One run; the numbers are those of the table's columns."""

    tokens: int
    pass_at_1: float
    log_prob: float | None
    texts: int
    log_evidence: float | None
    seconds: float


def measure(name: str, sampler: Sampler, n: int, seed: int, follower: Any) -> Measured:
    """Run a task once; a run without an answer counts as failed."""
    begun = time.process_time()
    prompt, targets = COLLIE.get(name, ("Write a sentence.", None))
    asked = Task(prompt, n=n, limits=Limits(timeout=240))
    counting = Counting(follower)
    # In this process, so that the seconds are those of one.
    options: dict[str, Any] = {
        "follower": counting,
        "sampler": sampler,
        "seed": seed,
        "sandbox": "none",
    }
    try:
        if name in PROGRAMS:
            result = run_program(PROGRAMS[name], asked, **options)
        else:
            result = self_steer(asked, retries=1, **options)
    except DiscipleError:
        return Measured(counting.tokens, 0.0, None, 0, None, time.process_time() - begun)
    passed = [
        bool(p.check) if targets is None else verify(name, targets, p.text)
        for p in result.particles
    ]
    return Measured(
        counting.tokens,
        pass_at_1([p.log_weight for p in result.particles], passed),
        log_prob(result, passed),
        len({p.text for p in result.particles if p.weight}),
        result.log_evidence,
        time.process_time() - begun,
    )


def log_prob(result: Result, passed: list[bool]) -> float | None:
    """Log-prob of a token under the prior, as a mean by weight over particles that pass."""
    pairs = [
        (p.weight, p.log_prob / p.tokens)
        for p, ok in zip(result.particles, passed, strict=True)
        if ok and p.weight and p.log_prob is not None
    ]
    return math.fsum(w * x for w, x in pairs) / math.fsum(w for w, _ in pairs) if pairs else None


class Counting:
    """The follower, counting what it is asked for."""

    def __init__(self, follower: Any) -> None:
        self._follower, self.tokens = follower, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._follower, name)

    def __deepcopy__(self, memo: object) -> Counting:
        return self

    async def ask(self, request: Any) -> Any:
        """Count a draw as one token, and each token that is scored."""
        if isinstance(request, Draw):
            self.tokens += 1
        elif isinstance(request, Score):
            self.tokens += len(request.tokens)
        return await self._follower.ask(request)


def samplers() -> Iterator[tuple[str, Sampler]]:
    """What is compared, ``smc`` first."""
    yield "`smc`", SMCSampler()
    yield "`is`", ImportanceSampler()
    yield "`rs`", RejectionSampler()
    yield "`rejuvenate`, k = 1", RejuvenateSampler(window=1)
    yield "`rejuvenate`, k = 3", RejuvenateSampler(window=3)
    yield "`edit`", EditSampler()


def equal(name: str, sampler: Sampler, n: int, budget: float, follower: Any) -> int:
    """The particles that use about ``budget`` follower tokens."""
    for _ in range(2):
        tries = [measure(name, sampler, n, 1000 + s, follower).tokens for s in range(3)]
        n = max(1, round(n * budget / max(1.0, statistics.mean(tries))))
    return n


def mean(values: Iterable[float | None], digits: int) -> str:
    """The mean and its standard error, as text."""
    found = [value for value in values if value is not None]
    if not found:
        return "-"
    error = statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else 0.0
    return f"{statistics.mean(found):.{digits}f} ± {error:.{digits}f}"


def spread(values: Iterable[float | None]) -> str:
    """The standard deviation, as text."""
    found = [v for v in values if v is not None and v > -math.inf]
    return f"{statistics.stdev(found):.2f}" if len(found) > 1 else "-"


def row(*cells: object) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def on_the_embedded_follower(names: list[str], n: int, seeds: range) -> None:
    """The table of tasks on the embedded follower."""
    follower = load_plugins().make("followers", "embedded")
    row(*HEAD)
    print("|---" * len(HEAD) + "|")
    for name in names:
        budget = 0.0
        for title, sampler in samplers():
            if title == "`rs`" and name not in PROGRAMS:
                continue  # these programs leave nothing to reject
            m = equal(name, sampler, n, budget, follower) if budget else n
            runs = [measure(name, sampler, m, seed, follower) for seed in seeds]
            budget = budget or statistics.mean(r.tokens for r in runs)
            row(
                name,
                title,
                m,
                f"{statistics.mean(r.tokens for r in runs):.0f}",
                mean((r.pass_at_1 for r in runs), 2),
                f"{statistics.mean(r.pass_at_1 > 0 for r in runs):.2f}",
                mean((r.log_prob for r in runs), 2),
                f"{statistics.mean(r.texts for r in runs):.1f}",
                spread(r.log_evidence for r in runs),
                mean((r.seconds for r in runs), 1),
            )


def on_the_toy(n: int, runs: int) -> None:
    """The table of errors on the toy: SMC and its moves, at equal tokens."""
    follower = ToyFollower.random(3, "abc")
    exact = exact_posterior(TOY, follower)
    row(*TOY_HEAD)
    print("|---" * len(TOY_HEAD) + "|")
    budget = 0.0
    moving = [(f"k = {k}", RejuvenateSampler(window=k)) for k in (1, 2, 4)]
    moving.append(("k = 2, 3 moves", RejuvenateSampler(window=2, moves=3)))
    for title, sampler, as_many in (
        ("`smc`", SMCSampler(), True),
        ("`is`", ImportanceSampler(), False),
        *((f"`rejuvenate`, {name}", sampler, False) for name, sampler in moving),
        *((f"`rejuvenate`, {name}, as many particles", sampler, True) for name, sampler in moving),
    ):
        m = n
        for _ in range(0 if as_many else 2):
            tokens = statistics.mean(toy_run(sampler, follower, m, 9000 + s)[1] for s in range(10))
            m = max(1, round(m * budget / tokens))
        found = [toy_run(sampler, follower, m, seed) for seed in range(runs)]
        budget = budget or statistics.mean(tokens for _, tokens in found)
        row(
            title,
            m,
            f"{statistics.mean(tokens for _, tokens in found):.0f}",
            mean((error(p, exact) for p, _ in found), 4),
            mean((abs((p.log_evidence or 0.0) - math.log(exact.evidence)) for p, _ in found), 4),
            f"{statistics.mean(len({str(q) for q in p.particles}) for p, _ in found):.1f}",
        )


def toy_run(sampler: Sampler, follower: Any, n: int, seed: int) -> tuple[Population, int]:
    """One run on the toy, and its tokens."""
    counting = Counting(follower)
    return run_sampler(sampler, TOY, counting, n, seed=seed), counting.tokens


def error(population: Population, exact: ExactPosterior) -> float:
    """Mean error of the probabilities of each letter at each place."""
    shares = normalise([p.weight for p in population.particles])
    off: dict[tuple[int, str], float] = {}
    for text, p in exact.probabilities.items():
        for place in enumerate(text):
            off[place] = off.get(place, 0.0) - p
    for share, particle in zip(shares, population.particles, strict=True):
        for place in enumerate(str(particle)):
            off[place] = off.get(place, 0.0) + float(share)
    return statistics.mean(map(abs, off.values()))


def main() -> None:
    """Run everything and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", default="sent_01,late,acrostic,toy")
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=100, help="runs on the toy")
    options = parser.parse_args()
    names = options.tasks.split(",")
    if tasks := [name for name in names if name != "toy"]:
        seeds = range(options.first, options.first + options.seeds)
        on_the_embedded_follower(tasks, options.n, seeds)
    if "toy" in names:
        on_the_toy(options.n, options.runs)


if __name__ == "__main__":
    main()
