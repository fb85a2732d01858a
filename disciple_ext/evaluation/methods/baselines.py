"""Methods without a planner: the follower alone."""

from __future__ import annotations

from ...records.program import Program

__all__ = ["follower_program", "sample_program"]

_SOURCE = '''\
class InferenceModel(BaseModel):
    """Samples from the follower alone, end of text included."""

    def __init__(self, context, max_tokens={max_tokens}):
        super().__init__(context=context)
        self.limit = max_tokens
{prompt}
    async def step(self):
        await self.sample(self.context.next_token())
        if self.finish_reason == "ended":
            self.finish()
        elif self.context.token_count >= self.limit:
            self.finish_reason = "max_tokens"  # cut there, and kept: it is what the model wrote
            self.finish()
'''
_PROMPT = """
    @classmethod
    def proposal_prompt(cls):
        return {prompt!r}
"""


def follower_program(max_tokens: int) -> Program:
    """The paper's follower-only baseline: the task itself is the prompt.

    Args:
        max_tokens: tokens after which a text is cut.
    """
    return _program(max_tokens, "")


def sample_program(prompt: str, max_tokens: int) -> Program:
    """Unconstrained samples under ``prompt``."""
    return _program(max_tokens, _PROMPT.format(prompt=prompt))


def _program(max_tokens: int, prompt: str) -> Program:
    source = _SOURCE.format(max_tokens=max_tokens, prompt=prompt)
    return Program(source, planner="follower", trusted=True)
