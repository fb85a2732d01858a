"""Compare `mcts` with `smc`, `is` and `rs` at equal follower tokens, with the embedded follower.

    python plugins/disciple-mcts/compare.py --n 32 --seeds 8
    python plugins/disciple-mcts/compare.py --tasks late exploration=0.5 width=2.0

`mcts` runs first; the others then get as many particles as take as many tokens (a particle that
dies early takes few). Every number is a mean over seeds: Pass@1 as in the paper (the share of the
weight that passes the program's check), answered (the share of seeds in which any text passes),
nats per token of the particles that pass under the prior, by weight, over the seeds in which one
did, and seconds.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from disciple_mcts import MCTSSampler

from disciple_ext import Limits, NoParticleAlive, Task, run_program
from disciple_ext.evaluation.scores.metrics import pass_at_1, sample_weights
from disciple_ext.protocol.requests import Draw, Score

PROGRAMS = Path(__file__).parents[2] / "examples" / "programs"

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


@dataclass(frozen=True)
class Row:
    """One run: tokens are what the follower was asked for."""

    passed: float
    log_prob: float | None
    tokens: int
    seconds: float


class Counting:
    """The follower, counting."""

    def __init__(self, follower):
        self._follower, self.tokens = follower, 0

    def __getattr__(self, name):
        return getattr(self._follower, name)

    def __deepcopy__(self, memo):
        return self

    async def ask(self, request):
        """Count a draw as one, and each forced token."""
        if isinstance(request, Draw):
            self.tokens += 1
        elif isinstance(request, Score):
            self.tokens += len(request.tokens)
        return await self._follower.ask(request)


FIRST = 0


def one(program, follower, sampler, n, seed):
    """One run."""
    counting = Counting(follower)
    task = Task("Write a sentence.", n=n, limits=Limits(timeout=120))
    begun = time.monotonic()
    try:
        found = run_program(
            program, task, follower=counting, sampler=sampler, seed=FIRST + seed, sandbox="none"
        ).particles
    except NoParticleAlive:
        found = ()
    seconds = time.monotonic() - begun
    logs = [p.log_weight for p in found]
    passing = [p for p in found if p.check and p.log_weight > -math.inf]
    shares = sample_weights([p.log_weight for p in passing])
    log_prob = sum(s * p.log_prob / p.tokens for s, p in zip(shares, passing, strict=True))
    passed = pass_at_1(logs, [bool(p.check) for p in found])
    return Row(passed, log_prob if passing else None, counting.tokens, seconds)


def several(program, follower, sampler, n, seeds):
    """One run for each seed."""
    return [one(program, follower, sampler, n, seed) for seed in range(seeds)]


def equal(program, follower, sampler, n, seeds, tokens):
    """Runs with as many particles as take so many tokens in the mean."""
    pilot = fmean(r.tokens for r in several(program, follower, sampler, n, min(seeds, 3)))
    n = max(1, round(n * tokens / pilot))
    return n, several(program, follower, sampler, n, seeds)


def main():
    """Run, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--tasks", default="acrostic,late,twister,glasgow")
    parser.add_argument("--only", default="mcts,smc,is,rs")
    options, rest = parser.parse_known_args()
    global FIRST
    FIRST = options.first
    settings = {k: float(v) if "." in v else int(v) for k, v in (r.split("=") for r in rest)}
    from disciple_ext.registry.plugins import load_plugins

    follower = load_plugins().make("followers", "embedded")
    programs = {
        "acrostic": ACROSTIC,
        "late": LATE,
        "twister": (PROGRAMS / "tongue_twister.py").read_text(),
        "glasgow": (PROGRAMS / "glasgow.py").read_text(),
    }
    print("| task | sampler | n | follower tokens | Pass@1 | answered | nats per token | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.tasks.split(","):
        mcts = several(programs[name], follower, MCTSSampler(**settings), options.n, options.seeds)
        tokens = fmean(r.tokens for r in mcts)
        lines = {"mcts": (options.n, mcts)}
        for other in ("smc", "is", "rs"):
            if other in options.only.split(","):
                lines[other] = equal(
                    programs[name], follower, other, options.n, options.seeds, tokens
                )
        for sampler, (n, rows) in lines.items():
            logs = [r.log_prob for r in rows if r.log_prob is not None]
            print(
                f"| {name} | {sampler} | {n} | {fmean(r.tokens for r in rows):.0f} "
                f"| {fmean(r.passed for r in rows):.2f} | {len(logs) / len(rows):.2f} "
                f"| {fmean(logs) if logs else math.nan:.2f} "
                f"| {fmean(r.seconds for r in rows):.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
