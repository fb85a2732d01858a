"""The cached engine against a plain forward pass of the same model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from disciple_ext.follower.engine.blocks import Slot
from disciple_ext.follower.engine.kv import KVBackend, PlainBackend
from disciple_ext.protocol.prefix import Prefix

V = 40
SMALL: dict[str, Any] = {
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}


def make(kind: str) -> Any:
    torch.manual_seed(0)
    model: Any
    if kind == "llama":
        model = LlamaForCausalLM(LlamaConfig(**SMALL))
    elif kind == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(**SMALL, head_dim=16))
    else:
        model = GPT2LMHeadModel(
            GPT2Config(vocab_size=V, n_positions=256, n_embd=32, n_layer=2, n_head=4)
        )
    for parameter in model.parameters():  # the usual small init gives nearly even logits
        if parameter.dim() > 1:
            parameter.data.mul_(4.0)
    return model.eval()


MODELS = {kind: make(kind) for kind in ("llama", "qwen3", "gpt2")}
each_model = pytest.mark.parametrize("kind", sorted(MODELS))


@torch.inference_mode()
def plain(model: Any, context: tuple[int, ...]) -> torch.Tensor:
    out: torch.Tensor = model(input_ids=torch.tensor([context]), use_cache=False).logits[0, -1]
    return torch.log_softmax(out.float(), -1)


def logits(backend: Any, contexts: list[tuple[int, ...]]) -> torch.Tensor:
    rows: torch.Tensor = asyncio.run(backend.logits([Prefix.of(c) for c in contexts]))
    return rows


def score(backend: Any, pairs: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> Any:
    return asyncio.run(backend.score([(Prefix.of(c), tokens) for c, tokens in pairs]))


def same(model: Any, backend: KVBackend, contexts: list[tuple[int, ...]]) -> None:
    got = torch.log_softmax(logits(backend, contexts), -1)
    for row, context in zip(got, contexts, strict=True):
        torch.testing.assert_close(row, plain(model, context), atol=1e-4, rtol=0)


def text(seed: int, length: int) -> tuple[int, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(0, V, (length,), generator=generator).tolist())


@each_model
def test_the_models_tell_contexts_apart(kind: str) -> None:
    model = MODELS[kind]
    assert (plain(model, (1, 2, 3)) - plain(model, (2, 1, 3))).abs().max() > 0.05


@each_model
def test_ragged_batches_and_one_token_extensions(kind: str) -> None:
    model = MODELS[kind]
    backend = KVBackend(model)
    contexts = [text(i, length) for i, length in enumerate((1, 7, 3, 19, 12))]
    same(model, backend, contexts)
    for step in range(6):
        contexts = [(*c, (step * 7 + i) % V) for i, c in enumerate(contexts)]
        before = backend.forwards
        same(model, backend, contexts)
        assert backend.forwards == before + 1
    # Rows at different stages: some extended by one token, one by several, one new, one again.
    contexts = [(*contexts[0], 1), (*contexts[1], 2, 3, 4), text(9, 5), contexts[3], contexts[4]]
    same(model, backend, contexts)


@each_model
def test_clones_diverge_from_a_shared_prefix(kind: str) -> None:
    model = MODELS[kind]
    backend = KVBackend(model)
    prompt = text(1, 10)
    same(model, backend, [prompt])
    children = [(*prompt, i) for i in range(6)]
    same(model, backend, children)
    for depth in range(3):  # resampling: everybody goes on from one of them
        children = [(*children[depth], i, depth) for i in range(6)]
        same(model, backend, children)
    same(model, backend, [(*prompt, 3, 3), prompt[:4], (*prompt[:4], 5), prompt])


@each_model
def test_a_changed_prompt_before_the_same_text(kind: str) -> None:
    model = MODELS[kind]
    backend = KVBackend(model)
    shared, tail = text(1, 8), text(2, 6)
    same(model, backend, [(*shared, 1, *tail)])
    same(model, backend, [(*shared, 2, 3, *tail), (*shared, *tail)])
    same(model, backend, [(*shared, 1, *tail, 4), (*shared, 2, 3, *tail, 4)])


@each_model
def test_scores_of_several_tokens(kind: str) -> None:
    model = MODELS[kind]
    backend = KVBackend(model)
    context, tokens = text(3, 9), text(4, 5)
    same(model, backend, [context])
    pairs = [(context, tokens), (context, tokens[:2]), (text(5, 3), (7,)), (text(6, 1), text(7, 8))]
    got = score(backend, pairs)
    for rows, (c, t) in zip(got, pairs, strict=True):
        assert rows.shape == (len(t), V)
        for i in range(len(t)):
            row = torch.log_softmax(rows[i], -1)
            torch.testing.assert_close(row, plain(model, (*c, *t[:i])), atol=1e-4, rtol=0)
    same(model, backend, [(*context, *tokens), (*context, *tokens[:2], 3)])


def held(backend: KVBackend) -> int:
    store = backend._store
    return store.cache.nbytes + sum(t.nbytes for t in store.trunks)


def check_index(backend: KVBackend) -> None:
    store = backend._store
    for node, holder in store.where.items():
        assert holder.tip.tokens[: len(node)] == node.tokens
        if isinstance(holder, Slot):
            assert store.slots[holder.index] is holder and len(node) > holder.base
        else:
            assert holder in store.trunks
    for slot in store.slots.values():
        assert (slot.trunk is None) == (slot.base == 0)
        if slot.trunk is not None:
            assert slot.trunk in store.trunks
            assert slot.tip.tokens[: slot.base] == slot.trunk.tip.tokens[: slot.base]


def test_the_index_names_what_is_held_and_nothing_else() -> None:
    backend = KVBackend(MODELS["llama"], kv_bytes=60_000)
    for i in range(60):
        logits(backend, [text(i % 3, 5 + i % 7), (*text(i % 3, 4), i % V, 1)])
        logits(backend, [text(i, 20), (*text(i, 14), *text(i + 1, 30)), text(i % 4, 20)])
        check_index(backend)


def test_a_prompt_is_evaluated_once_and_shared_by_all_that_follow() -> None:
    model = MODELS["llama"]
    backend = KVBackend(model)
    prompt = text(1, 30)
    same(model, backend, [prompt])
    (trunk,) = backend._store.trunks
    children = [(*prompt, i) for i in range(8)]
    for step in range(5):
        same(model, backend, children)
        children = [(*children[i - i % 4], i, step) for i in range(8)]  # resampling
    assert list(backend._store.trunks) == [trunk] and trunk.tip.tokens == prompt
    assert all(s.trunk is trunk and s.base == 30 for s in backend._store.slots.values())
    same(model, backend, [(*prompt[:20], 5), (*prompt[:20], 6)])  # a part of it serves as well
    assert len(backend._store.trunks) == 1


def test_a_hint_is_evaluated_once_for_a_whole_population() -> None:
    model = MODELS["gpt2"]
    backend = KVBackend(model)
    prompt, texts = text(1, 20), [text(i + 2, 5 + i % 3) for i in range(8)]
    same(model, backend, [prompt])
    same(model, backend, [(*prompt, *t) for t in texts])
    before, hinted = backend.forwards, (*prompt, *text(50, 12))
    same(model, backend, [(*hinted, *t) for t in texts])
    assert backend.forwards == before + 2
    assert [t.tip.tokens for t in backend._store.trunks if len(t.tip) == 32] == [hinted]


def test_slots_of_dead_lineages_are_used_again() -> None:
    backend = KVBackend(MODELS["llama"])
    prompt = text(1, 20)
    children = [(*prompt, i) for i in range(8)]
    logits(backend, [prompt])
    for step in range(40):
        logits(backend, children)
        ancestors = [i - i % 4 if step % 3 == 0 else i for i in range(8)]
        children = [(*children[a], i, step) for i, a in enumerate(ancestors)]
    assert backend._store.cache.capacity[0] <= 24


@each_model
def test_logits_do_not_depend_on_the_rest_of_the_batch(kind: str) -> None:
    model, prompt = MODELS[kind], text(1, 20)
    alone: dict[tuple[int, ...], torch.Tensor] = {}
    for count in (1, 2, 3, 5, 8, 11):
        backend = KVBackend(model)
        logits(backend, [prompt])
        contexts = [(*prompt, i) for i in range(count)]
        for _ in range(3):
            for context, row in zip(contexts, logits(backend, contexts), strict=True):
                torch.testing.assert_close(
                    row, alone.setdefault(context, row.clone()), atol=2e-5, rtol=0
                )
            contexts = [(*c, 3) for c in contexts]


def test_bfloat16_does_not_round_by_the_batch_or_the_cut() -> None:
    # Not "nearly": what differs in one digit of bfloat16 flips a draw, and the text is another.
    torch.manual_seed(0)
    # Of a width as models have it: small products may go other ways.
    config = LlamaConfig(**SMALL | {"hidden_size": 576, "intermediate_size": 1536})
    model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    prompt = text(1, 20)
    contexts = [(*prompt, *text(i, 3 + i % 9)) for i in range(11)]
    alone = [logits(KVBackend(model), [c])[0] for c in contexts]
    together = KVBackend(model)
    for row, context in zip(logits(together, contexts), alone, strict=True):
        assert torch.equal(row, context)
    # Token by token, under a trunk of the prompt alone, in batches that shrink.
    slow = KVBackend(model)
    logits(slow, [prompt])
    for k in range(1, 12):
        there = [i for i, c in enumerate(contexts) if len(c) >= 20 + k]
        for i, row in zip(there, logits(slow, [contexts[i][: 20 + k] for i in there]), strict=True):
            if len(contexts[i]) == 20 + k:
                assert torch.equal(row, alone[i])
    # And a hint later: other beginnings, the same texts.
    logits(slow, [(*prompt, *text(77, 12), i) for i in range(5)])
    scores = score(KVBackend(model), [(c[:20], c[20:]) for c in contexts])
    for c, rows in zip(contexts, scores, strict=True):
        assert torch.equal(rows[-1], logits(slow, [c[:-1]])[0])


@pytest.mark.parametrize("kv_bytes", [1, 60_000])
def test_what_a_small_budget_evicts_is_computed_again(kv_bytes: int) -> None:
    model = MODELS["llama"]
    backend = KVBackend(model, kv_bytes=kv_bytes)
    contexts = [text(i, 4 + i % 9) for i in range(12)]
    for _ in range(3):
        same(model, backend, contexts)
        same(model, backend, [(*c, 1) for c in contexts[::2]])
        same(model, backend, [text(99, 150)])  # a long text leaves room for fewer
        same(model, backend, contexts[:3])


@each_model
def test_all_that_texts_add_is_one_pass(kind: str) -> None:
    model, prompt = MODELS[kind], text(1, 20)
    backend = KVBackend(model)
    logits(backend, [prompt])
    before = backend.forwards
    same(model, backend, [(*prompt, *text(i, 1 if i % 2 else 6)) for i in range(9)])
    assert backend.forwards == before + 1


def test_longer_texts_do_not_cost_those_that_go_on_their_keys() -> None:
    model, prompt = MODELS["llama"], text(1, 20)
    # Enough for many short slots, or for some long ones.
    backend = KVBackend(model, kv_bytes=400_000)
    contexts = [(*prompt, *text(i, 3)) for i in range(40)]
    logits(backend, [prompt])
    logits(backend, contexts)
    many, tokens = backend._store.cache.capacity
    evaluated = 0
    run = backend._run

    def counted(ids: torch.Tensor, *rest: Any) -> torch.Tensor:
        nonlocal evaluated
        evaluated += ids.numel()
        return run(ids, *rest)

    backend._run = counted  # type: ignore[method-assign]
    few = contexts[:4]
    for step in range(40):
        few = [(*c, step) for c in few]
        same(model, backend, few)
        check_index(backend)
    slots, longer = backend._store.cache.capacity
    assert slots < many and longer > tokens
    assert evaluated == 40 * len(few)


@pytest.mark.parametrize("length", [6, 20])
def test_the_budget_holds(length: int) -> None:
    model = MODELS["llama"]
    budget = 400_000
    backend = KVBackend(model, kv_bytes=budget)
    for start in range(0, 400, 4):
        contexts = [text(i, length) for i in range(start, start + 4)]
        for step in range(3):
            logits(backend, contexts)
            assert 0 < held(backend) <= budget
            contexts = [(*c, step) for c in contexts]
    assert held(backend) > budget / 5
    check_index(backend)


def test_beginnings_that_are_long_idle_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disciple_ext.follower.engine.blocks._IDLE", 30)
    model = MODELS["llama"]
    backend = KVBackend(model)
    kept = text(1000, 20)
    for i in range(100):
        same(model, backend, [text(i, 20), kept])
        kept = (*kept, i % V)
    assert len(backend._store.trunks) < 40, "budget is left for all of them"
    assert any(trunk.tip.tokens == text(1000, 20) for trunk in backend._store.trunks)
    check_index(backend)


def test_more_contexts_than_rows() -> None:
    model = MODELS["qwen3"]
    backend = KVBackend(model, rows=4)
    contexts = [text(i, 2 + i % 6) for i in range(11)]
    same(model, backend, contexts)
    same(model, backend, [(*c, 2) for c in contexts] + [text(50, 3)])
    pairs = [(text(i, 3), text(i + 100, 2)) for i in range(9)]
    assert [x.shape for x in score(backend, pairs)] == [(2, V)] * 9


def test_random_walks_of_a_population() -> None:
    model = MODELS["llama"]
    backend = KVBackend(model, kv_bytes=120_000, rows=8)
    generator = torch.Generator().manual_seed(5)

    def pick(high: int) -> int:
        return int(torch.randint(0, high, (1,), generator=generator))

    population = [text(i % 2, 6) for i in range(6)]
    for _ in range(25):
        population = [population[pick(6)] for _ in range(6)]  # resample
        population = [(*c, *text(pick(10**6), 1 + pick(3))) for c in population]
        if pick(4) == 0:
            population[0] = population[0][: 3 + pick(5)]
        same(model, backend, list(dict.fromkeys(population)))
        check_index(backend)


@each_model
def test_the_plain_backend_is_the_plain_forward(kind: str) -> None:
    model = MODELS[kind]
    backend = PlainBackend(model)
    same(model, backend, [text(1, 5), text(2, 9)])  # type: ignore[arg-type]
    (rows,) = score(backend, [(text(1, 4), text(2, 3))])
    for i in range(3):
        row = torch.log_softmax(rows[i], -1)
        torch.testing.assert_close(
            row, plain(model, (*text(1, 4), *text(2, 3)[:i])), atol=1e-4, rtol=0
        )
