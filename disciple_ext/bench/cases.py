"""The cases: what is written, as our programs, and what one measurement of one of them is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CASES", "HINT_EVERY", "MAX_CHARS", "NOISE", "Cell", "Prompts", "program", "prompts"]

MAX_CHARS = 5
"""Characters that a token may have where there is a mask."""

NOISE = 0.5
"""Standard deviation, in nats, of what is added to each log weight after a masked token, so that
particles are resampled every third token or so: random weights would never need it."""

HINT_EVERY = 10
"""Tokens between two hints."""

CASES = {
    "a": "unconstrained",
    "b": "a mask before every token",
    "c": "proposal, prior and mask",
    "d": "the expert COLLIE programs",
    "e": f"a hint every {HINT_EVERY} tokens",
}


@dataclass(frozen=True)
class Cell:
    """One place of the table.

    Attributes:
        case: a letter of :data:`CASES`; for (d) with the task's type, as in ``"d:sent_01"``.
        model: name of the model (:data:`disciple_ext.bench.synthetic.MODELS`).
        n: particles.
        tokens: tokens each particle writes; 0 where the program decides.
    """

    case: str
    model: str
    n: int
    tokens: int


@dataclass(frozen=True)
class Prompts:
    """What the particles write under.

    Attributes:
        prior: the message under which the text should be fluent.
        proposal: the message that also knows the constraint, or None for the same.
    """

    prior: str
    proposal: str | None = None

    def hint(self, written: int) -> str:
        """The hint after so many tokens, as the text that goes into the prompt."""
        return f"Note to self: {_hint(written)}"


def _hint(written: int) -> str:
    return f"{written:04d} tokens are there"


def prompts(case: str, run: int) -> Prompts:
    """The prompts of one run: 14 and 59 tokens with a synthetic tokenizer.

    Args:
        case: the case.
        run: number of the run. Each has prompts of its own, so that no run finds what another one
            has left in a cache.
    """
    short = f"write {run:06d}"
    long = f"{short}, with words of five letters or fewer, please"
    return Prompts(short, long) if case == "c" else Prompts(long)


_HEAD = """\
class InferenceModel(BaseModel):
    @classmethod
    def prior_prompt(cls):
        return {prior!r}

    @classmethod
    def proposal_prompt(cls):
        return {proposal!r}

    async def step(self):
"""
_STEPS = {
    "a": """\
        await self.next_token()
""",
    "b": f"""\
        async with MaxCharsMask(self, max_chars={MAX_CHARS}):
            await self.next_token()
        self.score(self.random.gauss(0.0, {NOISE}))
""",
    "e": f"""\
        written = self.context.token_count
        if written and written % {HINT_EVERY} == 0:
            await self.hint(f"{{written:04d}} tokens are there")
        await self.next_token()
""",
}
_STEPS["c"] = _STEPS["b"]
_END = """\
        if self.context.token_count == {tokens}:
            self.finish()
"""


def program(case: str, given: Prompts, tokens: int) -> str:
    """Our program for a case that is no COLLIE task."""
    head = _HEAD.format(prior=given.prior, proposal=given.proposal)
    return head + _STEPS[case] + _END.format(tokens=tokens)
