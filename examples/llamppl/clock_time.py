"""A time of day by a small grammar: a hand-written automaton as masks, no library needed.

Run it with: python examples/llamppl/clock_time.py (some seconds). For full speed change one
import: `from disciple_ext import FollowerContext as LMContext`.
"""

import asyncio
from functools import cache

import numpy as np
from llamppl import LMContext, Model, smc_steer

from disciple_ext import FollowerLM

DIGITS = "0123456789"
# state: {character: next state}, for ` 1:30 pm.` and the like; the last state has no way on.
AUTOMATON = {
    "start": {" ": "hour"},
    "hour": {"1": "teen", **dict.fromkeys("23456789", "colon")},
    "teen": {":": "minutes", **dict.fromkeys("012", "colon")},
    "colon": {":": "minutes"},
    "minutes": dict.fromkeys("012345", "minute"),
    "minute": dict.fromkeys(DIGITS, "space"),
    "space": {" ": "half"},
    "half": dict.fromkeys("ap", "m"),
    "m": {"m": "stop"},
    "stop": {".": "end"},
    "end": {},
}


def follow(state, text):
    """The state after a text, or None where the grammar has no such text."""
    for char in text:
        state = AUTOMATON[state].get(char)
        if state is None:
            return None
    return state


@cache
def allowed(lm, state):
    """Tokens whose whole text the grammar allows next."""
    special = set(lm.tokenizer.all_special_ids)
    return {
        i
        for i, text in enumerate(lm.str_vocab)
        if text and i not in special and follow(state, text) is not None
    }


class ClockTime(Model):
    """A text that the automaton accepts."""

    def __init__(self, lm, prompt):
        """Open the context."""
        super().__init__()
        self.lm = lm
        self.context = LMContext(lm, prompt)
        self.state = "start"
        self.text = ""

    async def step(self):
        """Write one token of the grammar."""
        await self.observe(self.context.mask_dist(allowed(self.lm, self.state)), True)
        token = await self.sample(self.context.next_token())
        text = self.lm.str_vocab[token.token_id]
        self.text += text
        self.state = follow(self.state, text)
        if self.state == "end":
            self.finish()

    def __str__(self):
        return self.text


async def main():
    """Write times of day by SMC steering."""
    lm = FollowerLM.from_pretrained("embedded")
    for particle in await smc_steer(ClockTime(lm, "The last train home left at"), 4, 3):
        print(f"{particle.weight:7.2f} {particle}")


if __name__ == "__main__":
    np.random.seed(1)
    asyncio.run(main())
