"""Followers in vLLM: what is said where it cannot run, and vLLM itself where it is installed.

The tests marked ``vllm`` need vLLM: ``make test-vllm`` makes an environment with it.
"""

from __future__ import annotations

import asyncio
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from genlm.backend.llm import AsyncTransformer
from genlm.backend.llm import vllm as genlm_vllm
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from disciple_ext.errors import FollowerError, UsageError
from disciple_ext.follower import vllm as ours
from disciple_ext.follower.hf import EMBEDDED, from_model
from disciple_ext.protocol.prefix import Prefix
from disciple_ext.protocol.requests import LogProbs, Mass, Request, Score
from disciple_ext.protocol.vocabulary import from_ids
from disciple_ext.registry.plugins import load_plugins
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.testing import run_sampler

SPECS = ("vllm", "vllm-logprobs")
# Weights differ by the masks' masses, and by the prompts of proposal and prior.
SOURCE = """
class InferenceModel(BaseModel):
    @classmethod
    def prior_prompt(cls):
        return "Write a word."

    @classmethod
    def proposal_prompt(cls):
        return "Write a word without e."

    async def step(self):
        async with AvoidCharsMask(self, "e"), MaxCharsMask(self, max_chars=4):
            await self.next_token()
        if self.context.token_count == 8:
            await self.end()
"""


def make(spec: str) -> Any:
    return load_plugins(installed=False).make("followers", spec)


def small_llama(size: int, eos: list[int]) -> Any:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,  # of 32: vLLM's attention on CPUs takes no smaller heads
        num_key_value_heads=1,
        max_position_embeddings=256,
        eos_token_id=eos,
    )
    model = LlamaForCausalLM(config).eval()
    model.lm_head.weight.data.mul_(20.0)
    return model


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random Llama on disk, with more logits than its tokenizer has tokens."""
    folder = tmp_path_factory.mktemp("llama")
    tokenizer = AutoTokenizer.from_pretrained(EMBEDDED)
    tokenizer.save_pretrained(folder)
    small_llama(len(tokenizer) + 40, [1, 5]).save_pretrained(folder)
    return folder


def ask(follower: Any, *requests: Request) -> list[Any]:
    async def everything() -> list[Any]:
        return await asyncio.gather(*(follower.ask(r) for r in requests))

    return asyncio.run(everything())


# Where it cannot run --------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_names_a_model(spec: str) -> None:
    for empty in (spec, f"{spec}:"):
        with pytest.raises(UsageError, match=f"'{spec}:PATH'"):
            make(empty)


@pytest.mark.parametrize("spec", SPECS)
def test_a_directory_that_is_none_is_named(spec: str, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(FollowerError, match="no model directory|no Hugging Face model"):
            make(f"{spec}:{path}")


def without(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    monkeypatch.setattr(ours, "find_spec", lambda name: None if name in missing else object())


@pytest.mark.parametrize("spec", SPECS)
def test_without_vllm_the_message_says_how_to_get_it(
    spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "vllm")
    with pytest.raises(FollowerError, match="vLLM is not installed") as raised:
        make(f"{spec}:{EMBEDDED}")
    assert "pip install 'disciple-ext[vllm]'" in str(raised.value)
    assert "'hf:'" in str(raised.value)


@pytest.mark.parametrize("cuda", [False, True])
def test_capturing_needs_a_gpu_and_triton(cuda: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "triton")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    lacking = "no Triton here" if cuda else "no CUDA device that torch can use here"
    with pytest.raises(FollowerError, match=lacking) as raised:
        make(f"vllm:{EMBEDDED}")
    assert "use 'hf:' or 'vllm-logprobs:'" in str(raised.value)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with a GPU, up to the engine itself."""
    without(monkeypatch)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(genlm_vllm, "HAS_VLLM", True)
    for name in ("VLLM_LOGGING_STREAM", "VLLM_NO_USAGE_STATS", "VLLM_LOGGING_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")


def test_a_vllm_that_genlm_backend_cannot_use(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(genlm_vllm, "HAS_VLLM", False)
    with pytest.raises(FollowerError, match=r"it needs vllm[<>=].*'vllm-logprobs:'"):
        make(f"vllm:{EMBEDDED}")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried"), "too little memory .* CUDA out of"),
        (ValueError("No available memory for the cache blocks."), "too little memory"),
        (MemoryError(), "too little memory"),
        (OSError("no file named model.safetensors\nsecond line"), "cannot load .*safetensors$"),
    ],
)
def test_what_vllm_raises_is_explained(
    error: Exception, said: str, gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def from_name(name: str, engine_opts: dict[str, Any]) -> Any:
        raise error

    engine = SimpleNamespace(from_name=from_name)
    monkeypatch.setattr(genlm_vllm, "AsyncVirtualLM", engine)
    with pytest.raises(FollowerError, match=said) as raised:
        make(f"vllm:{EMBEDDED}")
    assert raised.value.__cause__ is error


def test_capturing_goes_through_genlm_backend(
    saved: Path, gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With AsyncTransformer for the engine, and vLLM's configuration put on it."""
    given: list[Any] = []
    model = LlamaForCausalLM.from_pretrained(saved)

    def from_name(name: str, engine_opts: dict[str, Any]) -> Any:
        given.extend((name, engine_opts))
        lm = AsyncTransformer(model, AutoTokenizer.from_pretrained(name), timeout=0.0)
        config = SimpleNamespace(
            hf_config=model.config, max_model_len=256, try_get_generation_config=dict
        )
        inner = SimpleNamespace(vllm_config=SimpleNamespace(model_config=config))
        lm.llm_engine = SimpleNamespace(llm_engine=inner)
        return lm

    monkeypatch.setattr(genlm_vllm, "AsyncVirtualLM", SimpleNamespace(from_name=from_name))
    follower = make(f"vllm:{saved}")
    assert given == [str(saved), {"max_model_len": -1}]
    assert follower.name == f"vllm:{saved}" and follower.max_context == 255
    plain = from_model(model, AutoTokenizer.from_pretrained(saved), name="plain")
    request = LogProbs(Prefix.of([2, 9, 10]), 0.8)
    np.testing.assert_allclose(ask(follower, request)[0], ask(plain, request)[0], atol=1e-4)
    ours.from_capture(str(saved), max_model_len=64)
    assert given[3] == {"max_model_len": 64}


# The public API's rows ------------------------------------------------------------------------


class Generator:
    """Stands for a ``vllm.LLM``: the log-probability of a token tells context and token."""

    def __init__(self, size: int, leaves_out: int = 0) -> None:
        self.size = size
        self.leaves_out = leaves_out
        self.batches: list[int] = []

    def generate(self, prompts: Any, params: Any, use_tqdm: bool) -> list[Any]:
        assert params.logprobs == -1 and params.max_tokens == 1 and not use_tqdm
        self.batches.append(len(prompts))
        ids = [3, *reversed(range(self.leaves_out, self.size))]  # vLLM's: the choice, then by rank
        answers = []
        for prompt in prompts:
            logs = [-float(sum(prompt["prompt_token_ids"]) * 10 + i) for i in ids]
            found = SimpleNamespace(token_ids=ids, logprobs=logs)
            answers.append(SimpleNamespace(outputs=[SimpleNamespace(logprobs=found)]))
        return answers


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    stub = types.ModuleType("vllm")
    stub.SamplingParams = SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", stub)
    monkeypatch.setattr(ours, "_ENTRIES", 20)
    with ThreadPoolExecutor(max_workers=1) as thread:
        yield lambda llm: ours.LogprobsBackend(llm, thread, size=8, max_context=9)


def test_rows_are_in_the_order_of_tokens_and_come_in_portions(backend: Any) -> None:
    llm = Generator(8)
    contexts = [Prefix.of([1, i]) for i in range(5)]
    rows = asyncio.run(backend(llm).logits(contexts))
    wanted = [[-float((1 + i) * 10 + t) for t in range(8)] for i in range(5)]
    assert rows.tolist() == wanted and rows.dtype == torch.float32
    assert llm.batches == [2, 2, 1]
    (scores,) = asyncio.run(backend(llm).score([(contexts[0], (2, 3))]))
    assert scores.tolist() == [wanted[0], [-float(30 + t) for t in range(8)]]


def test_a_row_that_is_not_whole_is_refused(backend: Any) -> None:
    with pytest.raises(FollowerError, match="every token"):
        asyncio.run(backend(Generator(8, leaves_out=1)).logits([Prefix.of([1])]))


def test_llvmlite_claims_no_attribute_any_more() -> None:
    ffi = pytest.importorskip("llvmlite.binding.ffi")
    for _ in range(2):
        ours._hide_llvmlite()
        assert not hasattr(ffi.lib, "__dict__")
    assert callable(ffi.lib.LLVMPY_GetVersionInfo)


# vLLM itself ----------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["logprobs", "capture"])
def follower(request: pytest.FixtureRequest, saved: Path) -> Any:
    if find_spec("vllm") is None:
        pytest.skip("vLLM is not installed here: `make test-vllm` makes an environment with it")
    if request.param == "logprobs":
        return ours.from_logprobs(str(saved), dtype="float32", kv_cache_memory_bytes=2**26)
    if torch.cuda.is_available():
        return ours.from_capture(str(saved), dtype="float32", gpu_memory_utilization=0.3)
    if not ours._triton_compiles():
        pytest.skip(
            "genlm-backend's capture path needs a CUDA device, or tests/follower/interpreted.py"
        )
    return ours.from_capture(str(saved), kv_cache_memory_bytes=2**26)


@pytest.mark.vllm
def test_which_model_runner_it_was(follower: Any) -> None:
    """Capturing hooks into V2; the public API takes what vLLM chooses."""
    lm = getattr(follower.backend, "lm", None)
    engine = follower.backend.llm if lm is None else lm.llm_engine
    worker = engine.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker
    print(f"V2 model runner: {worker.use_v2_model_runner}")
    assert worker.use_v2_model_runner == ours._triton_compiles()


@pytest.fixture(scope="module")
def reference(saved: Path) -> Any:
    """Log-probabilities by a plain forward of transformers, one context at a time."""
    model = LlamaForCausalLM.from_pretrained(saved, dtype=torch.float32).eval()

    def rows(*contexts: Prefix, temperature: float = 1.0) -> torch.Tensor:
        with torch.inference_mode():
            logits = [model(torch.tensor([c.tokens])).logits[0, -1] for c in contexts]
        return torch.log_softmax(torch.stack(logits).float() / temperature, -1)

    return rows


def contexts_of_many_lengths() -> list[Prefix]:
    """Lengths from 1 to the longest; most share a beginning, as after resampling."""
    generator = torch.Generator().manual_seed(4)
    shared = Prefix.of(torch.randint(8, 8000, (140,), generator=generator).tolist())
    contexts = [Prefix.of([2]), Prefix.of([2, 17, 30])]
    for length in (1, 7, 31, 32, 33, 115):
        tail = torch.randint(8, 8000, (length,), generator=generator).tolist()
        contexts += [shared.extend(tail), shared.extend(tail[:-1]).then(7), Prefix.of(tail)]
    return list(dict.fromkeys(contexts))


@pytest.mark.vllm
def test_vllms_log_probabilities_equal_a_plain_forward(follower: Any, reference: Any) -> None:
    contexts = contexts_of_many_lengths()
    assert max(map(len, contexts)) == follower.max_context == 255
    wanted = reference(*contexts)
    worst = 0.0
    for some in (contexts, contexts[::-1], contexts[:1]):  # what is cached changes nothing
        rows = asyncio.run(follower.backend.logits(some)).cpu()
        order = [contexts.index(c) for c in some]
        worst = max(worst, float((rows - wanted[order]).abs().max()))
    grown = [c.then(40) for c in contexts if len(c) < 255]
    rows = asyncio.run(follower.backend.logits(grown)).cpu()
    worst = max(worst, float((rows - reference(*grown)).abs().max()))
    print(f"largest difference of log-probabilities, {len(contexts)} contexts: {worst:.1e}")
    assert worst < 1e-3


@pytest.mark.vllm
def test_requests_of_any_temperature_and_scores(follower: Any, reference: Any) -> None:
    context = Prefix.of([2, *range(50, 90)])
    tokens = (60, 61, 500)
    some = from_ids(range(100, 2000), follower.vocabulary.size)
    for temperature in (0.5, 1.0, 1.7):
        logs, mass, score = ask(
            follower,
            LogProbs(context, temperature),
            Mass(context, some, temperature),
            Score(context, tokens, temperature),
        )
        rows = reference(*(context.extend(tokens[:i]) for i in range(3)), temperature=temperature)
        np.testing.assert_allclose(logs, rows[0], atol=1e-3)
        np.testing.assert_allclose(mass, rows[0, 100:2000].logsumexp(-1), atol=1e-3)
        np.testing.assert_allclose(score, [rows[i, t] for i, t in enumerate(tokens)], atol=1e-3)


@pytest.mark.vllm
def test_a_small_program_runs_as_in_transformers(follower: Any, saved: Path) -> None:
    model = LlamaForCausalLM.from_pretrained(saved, dtype=torch.float32).eval()
    plain = from_model(model, AutoTokenizer.from_pretrained(saved), name="plain")
    assert follower.vocabulary.eos == plain.vocabulary.eos
    assert follower.vocabulary.size == plain.vocabulary.size
    assert follower.prompt("Hello") == plain.prompt("Hello")
    populations = [
        run_sampler(SMCSampler(), SOURCE, each, 16, seed=5) for each in (follower, plain)
    ]
    texts, wanted = ([str(p) for p in population.particles] for population in populations)
    assert texts == wanted and len(set(texts)) > 1
    weights, wanted_weights = ([p.weight for p in pop.particles] for pop in populations)
    np.testing.assert_allclose(weights, wanted_weights, atol=1e-2)
