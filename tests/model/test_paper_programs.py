"""The two programs printed in the paper's appendix, as printed, bugs included."""

from __future__ import annotations

import math

import pytest

from disciple_ext.errors import NoParticleAlive
from disciple_ext.loop.steer import run_program
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.testing import ScriptedFollower, run_sampler

SENT_01 = '''\
class InferenceModel(BaseModel):
    """Generates a sentence with exactly 102 characters, including whitespace."""
    def __init__(self, context, max_tokens: int = 32):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target_length = 102

    async def step(self):
        async with MaxCharsMask(self, max_chars=self.target_length - len(self)):
            token = await self.next_token()
        if len(self) == self.target_length:
            async with PunctuationMask(self):
                await self.next_token()
            await self.end()
            return
        if self.context.token_count > self.max_tokens:
            self.condition(False)
            await self.end()
            return
'''

PARA_05 = '''\
class InferenceModel(BaseModel):
    """Generates a paragraph with exactly 5 sentences, where each sentence ends with a specific word."""
    def __init__(self, context, max_tokens: int = 256):
        super().__init__(context=context, max_tokens=max_tokens)
        self.sentence_ends = ["offices", "door", "Oxford", "College", "initially"]
        self.sentence_count = 0

    async def step(self):
        target_last_word = self.sentence_ends[self.sentence_count]
        while True:
            word = await self.next_word()
            if word.strip().lower() == target_last_word:
                async with PunctuationMask(self):
                    await self.next_token()
                break
            if self.context.token_count > self.max_tokens:
                self.condition(False)
                await self.end()
                return
        self.sentence_count += 1
        if self.sentence_count >= len(self.sentence_ends):
            await self.end()
            return
'''  # noqa: E501

SENTENCE = (
    "The keeper of the old lighthouse walked along the northern shore "
    "every morning and counted all the gulls."
)


def test_sent_01_writes_103_characters() -> None:
    # Its bug: the 102 characters are complete before the punctuation is added.
    script = SENTENCE[:102] + "."
    assert len(script) == 103
    population = run_sampler(ImportanceSampler(), SENT_01, ScriptedFollower(script), 4)
    assert [str(p) for p in population.particles] == [script] * 4
    assert all(p.finish_reason == "ended" for p in population.particles)
    assert population.log_evidence == pytest.approx(0.0, abs=1e-3)


def test_sent_01_fits_whatever_the_follower_writes_into_its_budget() -> None:
    # This follower never stops at 102 characters, so the mask has to bring it there.
    script = "The grey gulls wheeled over the water and the boats " * 4
    result = run_program(
        SENT_01, follower=ScriptedFollower(script, other=0.2), sandbox="none", n=16, sampler="smc"
    )
    alive = [p for p in result.particles if p.log_weight > -math.inf]
    assert alive and {len(p.text) for p in alive} == {103}
    assert all(p.text[-1] in ".!?" for p in alive)


def test_para_05_writes_two_sentences_and_then_runs_to_its_token_limit() -> None:
    # Its bug: a lower-cased word never equals "Oxford".
    script = "They moved the offices. She knocked at the door." + " He went to Oxford and" * 60
    population = run_sampler(ImportanceSampler(), PARA_05, ScriptedFollower(script), 2)
    for particle in population.particles:
        assert particle.sentence_count == 2
        assert str(particle) == script[: len(str(particle))]
        assert particle.context.token_count == 256
        assert (particle.finish_reason, particle.weight) == ("max_tokens", -math.inf)
        assert particle.line == 11  # await self.next_word()
    with pytest.raises(NoParticleAlive, match="2 max_tokens of 2"):
        run_program(PARA_05, follower=ScriptedFollower(script), sandbox="none", n=2)


def test_para_05_with_lower_case_ends_writes_all_five_sentences() -> None:
    source = PARA_05.replace('"Oxford", "College"', '"oxford", "college"')
    script = (
        "They moved the offices. She knocked at the door. He went to Oxford. "
        "She left the College! It was closed initially."
    )
    population = run_sampler(ImportanceSampler(), source, ScriptedFollower(script), 2)
    assert [str(p) for p in population.particles] == [script] * 2
