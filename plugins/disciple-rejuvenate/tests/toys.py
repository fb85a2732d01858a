"""Programs for the tests, and their exact targets after any number of steps."""

from __future__ import annotations

import functools
import math
from collections import Counter

from disciple_ext.testing import ExactPosterior, ToyFollower, exact_posterior

# One token a step in all of them, so that a text's first t tokens are those of t steps.

# Ends early or late, with weights that differ by when, and by the text.
ENDS = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.next_token()
        self.score({"a": 0.8, "b": -0.8, "c": 0.0}[token])
        if token == "a" or len(self) == 4:
            self.score(0.7 if len(self) < 3 else -0.7)
            self.finish()
"""

# A twist in force that says the opposite of the weights, and is taken back a step later.
TWISTED = """
class InferenceModel(BaseModel):
    async def step(self):
        token = await self.next_token()
        self.score({"a": 0.5, "b": -0.5, "c": 0.0}[token])
        self.twist({"a": -1.5, "b": 1.0, "c": 0.5}[token])
        if len(self) == 3:
            self.finish()
"""

# A mask, deaths, a pending draw, a twist, and an end that the follower chooses.
MIXED = """
class InferenceModel(BaseModel):
    async def step(self):
        async with AvoidCharsMask(self, "b" if self.text.endswith("b") else ""):
            token = await self.next_token()
        self.condition(self.text != "ab" and len(self) < 4)
        self.twist({"a": 0.6, "b": -0.6, "c": 0.0}[token])
        if await self.wants_to_end():
            await self.end()
"""

MODELS = {"ends": ENDS, "twisted": TWISTED, "mixed": MIXED}


@functools.cache
def toy(seed: int = 1) -> ToyFollower:
    return ToyFollower.random(seed, ["a", "b", "c"], eos=2, special=1)


@functools.cache
def exact(source: str) -> ExactPosterior:
    return exact_posterior(source, toy())


State = tuple[str, bool]


def target(source: str, steps: int) -> dict[State, float]:
    """The target after some steps: probability of each text, and whether it has finished."""
    masses: Counter[State] = Counter()
    for e in exact(source).executions:
        log_weight = e.path[min(steps, len(e.path) - 1)]
        if log_weight > -math.inf:
            state = e.text[:steps], len(e.path) - 1 <= steps
            masses[state] += math.exp(e.log_proposal + log_weight)
    return {state: mass / masses.total() for state, mass in masses.items()}


def heaviest(source: str, steps: int) -> float:
    """The largest log weight after some steps."""
    return max(e.path[min(steps, len(e.path) - 1)] for e in exact(source).executions)
