"""Measure what two prompts are good for: python docs/explanation/prior_and_proposal.py.

Two programs, three ways to prompt each, on the embedded follower; some minutes on one core. Prints
tables of means over the seeds. A word of the task, such as "door", picks one of the two.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import Sequence

from disciple_ext import Result, run_program
from disciple_ext.evaluation.methods.scoring import score_texts
from disciple_ext.registry.plugins import load_plugins

KIND = "Write a sentence."
WORDS = "Write a sentence with the words 'winter', 'boat', 'market'."
DOOR = "Write a sentence with 8 words that ends with 'door'."
PROMPTS = """
class InferenceModel(BaseModel):
    @classmethod
    def prior_prompt(cls):
        return {prior!r}

    @classmethod
    def proposal_prompt(cls):
        return {proposal!r}
"""
PROGRAMS = {
    DOOR: """
    async def step(self):
        if len(self.words) < 7:
            await self.next_word(capital=not self.text)
        else:
            await self.force(" door")
            await self.end_sentence()
            await self.end()
""",
    WORDS: """
    def __init__(self, context, max_tokens=120):
        super().__init__(context=context, max_tokens=max_tokens)
        self.missing = ["winter", "boat", "market"]
        self.free = 0

    async def step(self):
        for word in self.missing if self.text else []:
            if self.free == 6 or await self.wants_word(word):
                await self.force(" " + word)
                self.missing = [other for other in self.missing if other != word]
                self.free = 0
                break
        else:
            await self.next_word(capital=not self.text)
            self.free += 1
        count = len(self.words)
        if not self.missing and (count >= 30 or (count >= 4 and await self.wants(".!?"))):
            await self.end_sentence()
            await self.end()
""",
}


def nats_per_token(texts: Sequence[str]) -> float:
    """Mean log-probability of a token of the texts under the prompt without the constraint."""
    follower = load_plugins().make("followers", "embedded")
    scored = asyncio.run(score_texts(follower, [(KIND, text) for text in texts]))
    tokens = [token.log_prob for text in scored for token in text]
    return statistics.fmean(tokens)


def run(asked: str, setup: tuple[str, str], sampler: str, seed: int, n: int = 32) -> Result:
    """One run of a task's program under two prompts."""
    prompts = PROMPTS.format(prior=setup[0], proposal=setup[1])
    program = prompts + PROGRAMS[asked]
    options = {"follower": "embedded", "sandbox": "none"}
    return run_program(program, sampler=sampler, seed=seed, n=n, **options)


def table(asked: str, seeds: int) -> None:
    """Print the table of one task."""
    setups = {
        "kind of text in both": (KIND, KIND),
        "constraint in both": (asked, asked),
        "prior and proposal": (KIND, asked),
    }
    print(f"\n{asked}\n")
    print("| Prompts | ESS of 32, `is` | log evidence, `is` | log evidence, `smc` | nats/token |")
    print("|--|--:|--:|--:|--:|")
    for name, setup in setups.items():
        plain = [run(asked, setup, "is", seed) for seed in range(seeds)]
        smc = [run(asked, setup, "smc", seed) for seed in range(seeds)]
        figures = (
            statistics.fmean(result.ess for result in plain),
            statistics.fmean(result.log_evidence or 0.0 for result in plain),
            statistics.fmean(result.log_evidence or 0.0 for result in smc),
            nats_per_token([result.text or "" for result in smc]),
        )
        print(f"| {name} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |")


if __name__ == "__main__":
    for asked in PROGRAMS:
        if len(sys.argv) < 2 or sys.argv[1] in asked:
            table(asked, seeds=20)
