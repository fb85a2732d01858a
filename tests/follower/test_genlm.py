"""Followers over genlm-backend's AsyncLM: the real AsyncTransformer, and what stands for vLLM's."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from genlm.backend.llm import AsyncTransformer, MockAsyncLM
from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

from disciple_ext.errors import FollowerError
from disciple_ext.follower import from_loaded
from disciple_ext.follower.genlm import from_async_lm
from disciple_ext.follower.hf import EMBEDDED, from_model
from disciple_ext.protocol.prefix import Prefix
from disciple_ext.protocol.requests import Draw, LogProbs, Mass, Request, Score
from disciple_ext.protocol.vocabulary import from_ids
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.testing import run_sampler

SOURCE = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        if self.context.token_count == 6:
            await self.end()
"""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(EMBEDDED)


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    """A small random Llama, with more logits than the tokenizer has tokens."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(tokenizer) + 40,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=96,
        eos_token_id=[1, 5],
    )
    made = LlamaForCausalLM(config).eval()
    made.lm_head.weight.data.mul_(20.0)
    return made


def ask(follower: Any, *requests: Request) -> list[Any]:
    async def everything() -> list[Any]:
        return await asyncio.gather(*(follower.ask(r) for r in requests), return_exceptions=True)

    return asyncio.run(everything())


def test_answers_equal_those_of_our_own_engine(model: Any, tokenizer: Any) -> None:
    follower = from_loaded(AsyncTransformer(model, tokenizer, timeout=0.0))
    ours = from_model(model, tokenizer, name="ours")
    assert follower.vocabulary.size == ours.vocabulary.size == len(tokenizer) + 40
    assert follower.vocabulary.eos == ours.vocabulary.eos and follower.vocabulary.eos >= {1, 5}
    assert follower.vocabulary.tokens == ours.vocabulary.tokens
    assert follower.max_context == ours.max_context == 96
    assert follower.prompt("Hello", "now") == ours.prompt("Hello", "now")
    long = Prefix.of([2, *range(10, 70)])
    short, longer = Prefix.of([2, 11]), long.extend([9, 8])
    some = from_ids(range(20, 400), ours.vocabulary.size)
    requests: list[Request] = [
        *(LogProbs(c, t) for c in (long, short, longer) for t in (1.0, 0.7)),
        Mass(short, some, 1.3),
        Draw(longer, short, some, 0.4),
        Score(short, (30, 31, 32), 0.5),
        Score(short, (30, 31, 7)),
        Score(long, (9, 8)),
    ]
    for got, wanted in zip(ask(follower, *requests), ask(ours, *requests), strict=True):
        got, wanted = (getattr(x, "log_p", x) for x in (got, wanted))
        np.testing.assert_allclose(got, wanted, atol=1e-4)


def test_a_program_runs_the_same(model: Any, tokenizer: Any) -> None:
    def texts(follower: Any) -> list[str]:
        return [str(p) for p in run_sampler(SMCSampler(), SOURCE, follower, 24, seed=3).particles]

    ours = texts(from_model(model, tokenizer, name="ours"))
    assert texts(from_async_lm(AsyncTransformer(model, tokenizer, timeout=0.0))) == ours


def test_a_score_asks_for_each_prefix_once(model: Any, tokenizer: Any) -> None:
    follower = from_async_lm(AsyncTransformer(model, tokenizer, timeout=0.0))
    asked: list[Prefix] = []
    inner = follower.backend.logits

    async def logits(contexts: Any) -> Any:
        asked.extend(contexts)
        return await inner(contexts)

    follower.backend.logits = logits  # type: ignore[method-assign]
    start = Prefix.of([2, 3])
    ask(follower, Score(start, (4, 5)), Score(start, (4, 6)), Score(start.then(4), (7, 8)))
    assert len(asked) == len(set(asked)) == 3


class Engine(MockAsyncLM):
    """What is read of an AsyncVirtualLM: its engine's configuration."""

    def __init__(self, tokenizer: Any, config: Any, generation: dict[str, Any]) -> None:
        super().__init__(tokenizer)
        model_config = SimpleNamespace(
            hf_config=config, max_model_len=64, try_get_generation_config=lambda: generation
        )
        vllm_config = SimpleNamespace(model_config=model_config)
        self.llm_engine = SimpleNamespace(llm_engine=SimpleNamespace(vllm_config=vllm_config))


def test_vllms_configuration_gives_length_size_and_ends(tokenizer: Any) -> None:
    config = LlamaConfig(vocab_size=len(tokenizer), eos_token_id=5)
    generation = GenerationConfig(eos_token_id=[1, 7]).to_diff_dict()
    follower = from_async_lm(Engine(tokenizer, config, generation))
    assert follower.max_context == 63  # vLLM wants room for the token that follows
    assert follower.vocabulary.size == len(tokenizer)
    assert follower.vocabulary.eos == {1, 5, 7}
    (refused,) = ask(follower, LogProbs(Prefix.of((9,) * 64)))
    assert isinstance(refused, FollowerError) and "63" in str(refused)
    assert from_async_lm(Engine(tokenizer, config, {})).vocabulary.eos == {5}


def test_rows_of_another_length_are_refused(tokenizer: Any) -> None:
    config = LlamaConfig(vocab_size=len(tokenizer) + 8, eos_token_id=5)
    (reply,) = ask(from_async_lm(Engine(tokenizer, config, {})), LogProbs(Prefix.of([9])))
    assert isinstance(reply, FollowerError)
    assert f"{len(tokenizer)} log-probabilities" in str(reply)
