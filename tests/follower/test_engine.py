"""The whole engine, requests to replies, against plain forwards; and its memory over many runs."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from disciple_ext.follower.engine.kv import KVBackend
from disciple_ext.follower.host import HostFollower
from disciple_ext.protocol.prefix import Prefix
from disciple_ext.protocol.requests import Branch, Draw, Drawn, Mass, Score
from disciple_ext.protocol.vocabulary import TokenMask, Vocabulary

KNOWN, V = 290, 300
"""Tokens of the tokenizer, and logits of the model."""


def follower(kv_bytes: int = 2**24) -> HostFollower:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=V,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    model = LlamaForCausalLM(config).eval()
    model.lm_head.weight.data.mul_(30.0)
    vocabulary = Vocabulary([b"a"] * KNOWN, eos=[0], encode=lambda text: [1], size=V)
    backend = KVBackend(model, kv_bytes=kv_bytes)
    return HostFollower(backend, vocabulary, lambda user, hint: (1,), name="tiny")


@torch.inference_mode()
def plain(made: HostFollower, context: Prefix, temperature: float) -> np.ndarray[Any, Any]:
    model: Any = made.backend.model  # type: ignore[attr-defined]
    logits = model(input_ids=torch.tensor([context.tokens]), use_cache=False).logits[0, -1]
    out: np.ndarray[Any, Any] = torch.log_softmax(logits.double() / temperature, -1).numpy()
    return out


def prompt_of(rng: random.Random, length: int) -> Prefix:
    return Prefix.of([rng.randrange(V) for _ in range(length)])


@pytest.mark.parametrize("kv_bytes", [20_000, 2**24])
@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.0])
def test_replies_are_those_of_plain_forwards(temperature: float, kv_bytes: int) -> None:
    rng, made = random.Random(3), follower(kv_bytes)
    mask = TokenMask(np.arange(V) % 3 == 1)
    proposals, priors = [prompt_of(rng, 30)] * 6, [prompt_of(rng, 9)] * 6

    async def step() -> None:
        requests = [
            Draw(q, p, mask if i % 2 else None, rng.random(), temperature)
            for i, (q, p) in enumerate(zip(proposals, priors, strict=True))
        ]
        replies = await asyncio.gather(*(made.ask(r) for r in requests))
        for i, (request, drawn) in enumerate(zip(requests, replies, strict=True)):
            q = plain(made, request.proposal, temperature)
            assert request.prior is not None
            p = plain(made, request.prior, temperature)
            assert drawn.log_q == pytest.approx(q[drawn.token], abs=1e-4)
            assert drawn.log_p == pytest.approx(p[drawn.token], abs=1e-4)
            mass = 0.0 if request.mask is None else np.log(np.exp(q[mask.array]).sum())
            assert drawn.log_mass == pytest.approx(mass, abs=1e-4)
            # Ragged: every third lineage goes on by two tokens.
            more = (drawn.token, 5) if i % 3 == 0 else (drawn.token,)
            proposals[i], priors[i] = proposals[i].extend(more), priors[i].extend(more)

    async def everything() -> None:
        for k in range(8):
            await step()
            if k % 3 == 2:
                ancestors = [rng.randrange(6) for _ in range(6)]
                proposals[:] = [proposals[a] for a in ancestors]
                priors[:] = [priors[a] for a in ancestors]
        tokens = (4, 8, 15)
        (logs, mass) = await asyncio.gather(
            made.ask(Score(priors[0], tokens, temperature)),
            made.ask(Mass(proposals[0], mask, temperature)),
        )
        for i, log in enumerate(logs):
            row = plain(made, priors[0].extend(tokens[:i]), temperature)
            assert log == pytest.approx(row[tokens[i]], abs=1e-4)
        row = plain(made, proposals[0], temperature)
        assert mass == pytest.approx(np.log(np.exp(row[mask.array]).sum()), abs=1e-4)

    asyncio.run(everything())


def test_a_branch_and_the_draw_after_it_are_one_forward() -> None:
    made, rng = follower(), random.Random(1)
    context, mask = prompt_of(rng, 12), TokenMask(np.arange(V) < 150)

    async def run() -> None:
        branched = await made.ask(Branch(context, None, mask, None, None, 0.5))
        kept = mask if branched.value else ~mask
        drawn = await made.ask(Draw(context, None, kept, 0.5))
        assert drawn.log_mass == branched.log_p
        assert drawn.token in kept

    asyncio.run(run())
    assert made.forwards == 1


def test_a_cancelled_run_leaves_the_engine_usable() -> None:
    made, rng = follower(), random.Random(2)
    start = prompt_of(rng, 12)

    async def particle(i: int) -> Prefix:
        context = start
        for k in range(6):
            drawn = await made.ask(Draw(context, None, None, (i * 7 + k) % 10 / 10))
            context = context.then(drawn.token)
        return context

    async def run(cancel_after: int | None) -> list[Any]:
        tasks = [asyncio.ensure_future(particle(i)) for i in range(5)]
        for _ in range(cancel_after or 0):
            await asyncio.sleep(0)
        for task in tasks if cancel_after is not None else []:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    wanted = asyncio.run(run(None))
    for rounds in (0, 1, 5, 9):
        cancelled = asyncio.run(run(rounds))
        assert all(isinstance(x, asyncio.CancelledError) for x in cancelled)
        assert asyncio.run(run(None)) == wanted


def test_a_batch_of_any_size_draws_what_each_would_draw_alone() -> None:
    rng = random.Random(4)
    start, uniforms = prompt_of(rng, 20), [[rng.random() for _ in range(5)] for _ in range(9)]

    async def texts(made: HostFollower, chosen: list[int]) -> list[Prefix]:
        async def one(i: int) -> Prefix:
            context = start
            for u in uniforms[i]:
                context = context.then((await made.ask(Draw(context, None, None, u))).token)
            return context

        return list(await asyncio.gather(*(one(i) for i in chosen)))

    together = asyncio.run(texts(follower(), list(range(9))))
    for count in (1, 2, 5):
        for i in range(0, 9, count):
            chosen = list(range(i, min(9, i + count)))
            assert asyncio.run(texts(follower(), chosen)) == [together[k] for k in chosen]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_does_not_grow_with_the_number_of_runs() -> None:
    made, rng = follower(2**19), random.Random(5)
    vocabulary = made.vocabulary

    async def particle(context: Prefix, k: int) -> None:
        for step in range(8):
            bits = np.arange(V) % 3 != step % 3
            mask = vocabulary.mask(("k", k, step), "some", bits.copy)
            await made.ask(Branch(context, None, mask, None, None, rng.random()))
            drawn = await made.ask(Draw(context, None, mask, rng.random()))
            assert isinstance(drawn, Drawn)
            context = context.then(drawn.token)

    async def run(k: int) -> None:
        start = prompt_of(rng, 40)
        await asyncio.gather(*(particle(start, k) for _ in range(8)))

    sizes = []
    for k in range(600):
        asyncio.run(run(k))
        if k in (99, 599):
            sizes.append(resident())
    assert sizes[1] < 1.05 * sizes[0]
