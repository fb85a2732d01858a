"""The in-process follower: batching, bad requests, temperature, vocabulary, chat prompts."""

from __future__ import annotations

import asyncio
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from disciple_ext.errors import FollowerError, UsageError
from disciple_ext.follower import from_loaded
from disciple_ext.follower.chat_template import ChatPrompt
from disciple_ext.follower.hf import from_model, from_pretrained
from disciple_ext.protocol.prefix import Prefix
from disciple_ext.protocol.requests import (
    Branch,
    Call,
    Draw,
    Drawn,
    LogProbs,
    Mass,
    NextBytes,
    Request,
    Score,
)
from disciple_ext.protocol.vocabulary import TokenMask, from_ids
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.testing import ToyFollower, run_sampler

SOURCE = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        if self.context.token_count == 6:
            await self.end()
"""
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>"
    "{% endfor %}<|assistant|>{% if enable_thinking is not defined or enable_thinking %}"
    "<think>{% endif %}"
)


def tokenizer(template: str | None = TEMPLATE, bos: bool = True) -> Any:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<s>", "</s>", "<|user|>", "<|assistant|>", "<|end|>", "<think>", "<pad>"]
    vocab = {t: i for i, t in enumerate([*special, *alphabet, "Ġa", "th"])}
    core = Tokenizer(models.BPE(vocab=vocab, merges=[("Ġ", "a"), ("t", "h")]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<s>" if bos else None,
        eos_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=special[2:6],
    )
    made.chat_template = template
    return made


def llama(size: int, **options: Any) -> Any:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=128,
        **options,
    )
    model = LlamaForCausalLM(config).eval()
    model.lm_head.weight.data.mul_(20.0)
    return model


def prefix(follower: Any, user: str = "p") -> Prefix:
    return Prefix.of(follower.prompt(user))


def ask(follower: Any, *requests: Request) -> list[Any]:
    async def everything() -> list[Any]:
        return await asyncio.gather(*(follower.ask(r) for r in requests), return_exceptions=True)

    return asyncio.run(everything())


# Batches and bad requests ---------------------------------------------------------------------


def test_requests_that_wait_together_are_one_forward() -> None:
    toy = ToyFollower.random(1)
    p, q = prefix(toy, "p"), prefix(toy, "q")
    replies = ask(
        toy,
        Draw(q, p, None, 0.3),
        Draw(q, p, None, 0.9),
        Branch(q, p, from_ids([0], toy.vocabulary.size), None, None, 0.5),
        Mass(p, from_ids([0, 1], toy.vocabulary.size)),
        LogProbs(q),
        Score(p, (0,)),
    )
    assert toy.forwards == 1 and not any(isinstance(r, BaseException) for r in replies)
    row = toy.probabilities("p")
    assert replies[3] == pytest.approx(math.log(row[:2].sum()), abs=1e-6)
    assert replies[4] == pytest.approx(
        np.log(toy.probabilities("q")[:-1]).tolist() + [-math.inf], abs=1e-5
    )  # noqa: E501
    assert replies[5] == pytest.approx((math.log(row[0]),), abs=1e-6)


def test_next_bytes_are_sums_over_the_tokens_of_each_segment() -> None:
    toy = ToyFollower.random(1, ("a", "b", "ab", "abc", "aba", "ba"))
    p, row = prefix(toy), toy.probabilities("p")
    mask = from_ids([0, 3, 4], toy.vocabulary.size)
    replies = ask(
        toy,
        NextBytes(p),
        NextBytes(p, b"a"),
        NextBytes(p, b"ab", mask),
        NextBytes(p, b"c"),
        NextBytes(p, b"", None, 2.0),
        NextBytes(p, b"abca"),
    )
    assert toy.forwards == 1
    # a, then what is longer than a; b, then what is longer than b.
    wanted = [row[0], row[2] + row[3] + row[4], row[1], row[5]]
    assert np.exp(replies[0]) == pytest.approx(wanted, rel=1e-6)
    assert np.exp(replies[1]) == pytest.approx([row[2], row[3] + row[4]], rel=1e-6)
    assert np.exp(replies[2]) == pytest.approx([row[4], row[3]], rel=1e-6)
    assert len(replies[3]) == 0
    roots = np.sqrt(row[:-1]) / np.sqrt(row[:-1]).sum()
    assert np.exp(replies[4][0]) == pytest.approx(roots[0], rel=1e-5)
    assert isinstance(replies[5], FollowerError) and "no token begins with" in str(replies[5])


def test_tiny_masses_of_bytes_keep_their_digits() -> None:
    toy = ToyFollower({"p": lambda text: {"a": 1.0, "ab": 1e-30, "ac": 2e-30}}, ("a", "ab", "ac"))
    (logs,) = ask(toy, NextBytes(prefix(toy), b"a"))
    assert logs == pytest.approx([math.log(1e-30), math.log(2e-30)], rel=1e-6)


def test_a_bad_request_fails_alone() -> None:
    toy = ToyFollower.random(2)
    good = Draw(prefix(toy), None, None, 0.5)
    bad: list[Request] = [
        Draw(Prefix.ROOT, None, None, 0.5),
        Draw(Prefix.of([99]), None, None, 0.5),
        Draw(Prefix.of([99, 0]), None, None, 0.5),
        Draw(prefix(toy), Prefix.of([99]), None, 0.5),
        Draw(toy.prompt("p"), None, None, 0.5),  # type: ignore[arg-type]
        Draw(None, None, None, 0.5),  # type: ignore[arg-type]
        Draw(Prefix(None, 0), None, None, 0.5),
        LogProbs(prefix(toy), temperature=0.0),
        LogProbs(prefix(toy), temperature=math.nan),
        Score(prefix(toy), (99,)),
        Score(prefix(toy), (0, -1)),
        Score(prefix(toy), (0, 1.5)),  # type: ignore[arg-type]
        Score(prefix(toy), [0, 1]),  # type: ignore[arg-type]
        Score(prefix(toy), ()),
        Score(toy.prompt("p"), (0,)),  # type: ignore[arg-type]
        Score(Prefix.ROOT, (0, 1)),
        Mass(prefix(toy), from_ids([0], 3)),
        Call("nobody"),
    ]
    replies = ask(toy, *bad, good)
    assert [type(r) for r in replies] == [FollowerError] * len(bad) + [Drawn]
    assert "nobody" in str(replies[-2]) and "3 entries" in str(replies[-3])
    assert "at least one" in str(replies[0]) and "from 0 to" in str(replies[1])
    assert "a Prefix, not tuple" in str(replies[4])


def test_what_was_found_sound_does_not_hide_what_is_not() -> None:
    follower = from_model(llama(300), tokenizer(), name="tiny")
    good = prefix(follower).extend([50] * 20)
    bad = good.then(300)
    long = good.extend([1] * 129)
    for _ in range(2):
        replies = ask(
            follower, *(LogProbs(c) for c in (good, bad, bad.then(1), long, long.then(1)))
        )
        assert [isinstance(r, FollowerError) for r in replies] == [False, True, True, True, True]


def test_contexts_beyond_the_models_length_are_refused() -> None:
    follower = from_model(llama(300), tokenizer(), name="tiny")
    (reply,) = ask(follower, LogProbs(Prefix.of((1,) * 129)))
    assert isinstance(reply, FollowerError) and "128" in str(reply)
    program = SOURCE.replace("== 6", "== 10**6")
    population = run_sampler(ImportanceSampler(), program, follower, 2)
    assert {p.finish_reason for p in population.particles} == {"max_tokens"}


async def test_a_cancelled_request_leaves_the_others_and_the_follower() -> None:
    toy = ToyFollower.random(4)
    request = Draw(prefix(toy), None, None, 0.5)
    tasks = [asyncio.ensure_future(toy.ask(request)) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError) and second == third
    assert await toy.ask(request) == second


def test_a_follower_outlives_the_loop_it_was_used_in() -> None:
    toy = ToyFollower.random(4)
    request = Draw(prefix(toy), None, None, 0.5)

    async def abandon() -> None:
        task = asyncio.ensure_future(toy.ask(request))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(abandon())
    (reply,) = ask(toy, request)
    assert isinstance(reply, Drawn)


# Callbacks ------------------------------------------------------------------------------------


class Answers:
    """Takes what is delivered; ``wait`` until there are so many answers."""

    def __init__(self) -> None:
        self.got: list[tuple[Any, BaseException | None]] = []
        self.thread = threading.get_ident()

    def take(self, reply: Any, error: BaseException | None) -> None:
        assert threading.get_ident() == self.thread
        self.got.append((reply, error))

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.got) < count:
                await asyncio.sleep(0)


async def test_answers_are_delivered_once_and_not_before_submit_returns() -> None:
    toy = ToyFollower.random(7)
    request, answers = Draw(prefix(toy), None, None, 0.5), Answers()
    toy.submit(request, answers.take)
    toy.submit(Draw(Prefix.of([99]), None, None, 0.5), answers.take)
    assert answers.got == []
    drawn = await toy.ask(request)
    await answers.wait(2)
    assert toy.forwards == 1
    (nothing, error), (reply, fine) = answers.got
    assert isinstance(error, FollowerError) and nothing is None
    assert (reply, fine) == (drawn, None)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(answers.got) == 2


async def test_a_backends_failure_is_delivered_to_all_of_its_round() -> None:
    toy, answers = ToyFollower.random(7), Answers()

    async def broken(contexts: Any) -> Any:
        raise MemoryError("too large")

    toy.backend.logits = broken  # type: ignore[method-assign]
    for u in (0.1, 0.9):
        toy.submit(Draw(prefix(toy), None, None, u), answers.take)
    await answers.wait(2)
    assert all(r is None and "too large" in str(e) for r, e in answers.got)
    assert {type(e) for _, e in answers.got} == {FollowerError}


async def test_dropped_requests_are_forgotten() -> None:
    toy, answers = ToyFollower.random(7), Answers()
    toy.submit(Draw(prefix(toy, "dropped"), None, None, 0.5), answers.take).drop()
    await toy.ask(Draw(prefix(toy), None, None, 0.5))
    assert toy.forwards == 1 and len(toy._known.rows) == 1  # it was not even computed
    assert answers.got == []


async def test_a_callback_that_raises_harms_nobody() -> None:
    toy, answers = ToyFollower.random(7), Answers()
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))

    def broken(reply: Any, error: BaseException | None) -> None:
        raise RuntimeError("no")

    draw = Draw(prefix(toy), None, None, 0.5)
    requests: list[Request] = [draw, Score(prefix(toy), (0, 1)), Call("nobody")]
    for request in requests:
        toy.submit(request, broken)
        toy.submit(request, answers.take)
    await answers.wait(3)
    assert [type(e) for _, e in answers.got] == [FollowerError, type(None), type(None)]
    assert [str(c["exception"]) for c in reported] == ["no"] * 3
    assert isinstance(await toy.ask(draw), Drawn)


async def test_a_callback_may_submit_and_drop() -> None:
    toy, answers = ToyFollower.random(7), Answers()
    later: list[Any] = []

    def bad_again(reply: Any, error: BaseException | None) -> None:
        answers.take(reply, error)
        if len(answers.got) < 3:
            toy.submit(Call("nobody"), bad_again)

    def go_on(reply: Any, error: BaseException | None) -> None:
        later[0].drop()
        toy.submit(Draw(prefix(toy).then(reply.token), None, None, 0.5), answers.take)

    toy.submit(Call("nobody"), bad_again)
    toy.submit(Draw(prefix(toy), None, None, 0.5), go_on)
    later.append(toy.submit(Draw(prefix(toy), None, None, 0.6), answers.take))
    await answers.wait(4)
    errors = [e for _, e in answers.got if e is not None]
    assert len(errors) == 3 and len(answers.got) == 4 and toy.forwards == 2


def test_submitting_needs_a_running_loop() -> None:
    toy = ToyFollower.random(7)
    with pytest.raises(RuntimeError, match="no running event loop"):
        toy.submit(Draw(prefix(toy), None, None, 0.5), Answers().take)


def test_temperature_divides_the_logits() -> None:
    toy = ToyFollower.random(5)
    for temperature in (0.5, 1.0, 3.0):
        hot = toy.probabilities("p")[:-1] ** (1 / temperature)
        hot /= hot.sum()
        logs, score, mass = ask(
            toy,
            LogProbs(prefix(toy), temperature),
            Score(prefix(toy), (1, 0), temperature),
            Mass(prefix(toy), from_ids([0, 2], toy.vocabulary.size), temperature),
        )
        assert np.exp(logs[:-1]) == pytest.approx(hot, abs=1e-5)
        assert score[0] == pytest.approx(math.log(hot[1]), abs=1e-5)
        assert math.exp(mass) == pytest.approx(hot[0] + hot[2], abs=1e-5)


# Hugging Face models --------------------------------------------------------------------------


def test_ids_beyond_the_tokenizer_and_special_tokens_are_never_drawn() -> None:
    made = tokenizer()
    known = len(made)
    model = llama(known + 40)
    model.lm_head.weight.data[known:] *= 10.0  # what the tokenizer lacks is what the model wants
    follower = from_model(model, made, name="tiny")
    assert follower.vocabulary.size == known + 40
    population = run_sampler(SMCSampler(), SOURCE, follower, 16)
    for particle in population.particles:
        assert all(t in follower.vocabulary.text_mask for t in particle.context.generated)
    plain = SOURCE.replace("self.next_token()", "self.sample(self.context.next_token())")
    plain = plain.replace("token_count == 6", "token_count == 1 or self.finish_reason")
    population = run_sampler(ImportanceSampler(), plain, follower, 64)
    drawn = {p.context.generated[0] for p in population.particles}
    assert drawn and max(drawn) < known
    # Their mass is charged to the weight, as is any other that is ruled out.
    (logs,) = ask(follower, LogProbs(prefix(follower, "toy")))
    lost = math.log(np.exp(logs[:known].astype(np.float64)).sum())
    assert lost < -0.5


def test_every_id_that_ends_a_text_counts() -> None:
    made = tokenizer()
    end = made.convert_tokens_to_ids("<|end|>")
    model = llama(len(made), eos_token_id=[1, end])
    follower = from_model(model, made, name="tiny")
    assert follower.vocabulary.eos == {1, end}
    (logs,) = ask(follower, LogProbs(prefix(follower, "x")))
    (mass,) = ask(follower, Mass(prefix(follower, "x"), follower.vocabulary.eos_mask))
    assert mass == pytest.approx(np.logaddexp(logs[1], logs[end]), abs=1e-5)


def test_tokens_spell_the_text() -> None:
    follower = from_model(llama(len(tokenizer())), tokenizer(), name="tiny")
    vocabulary = follower.vocabulary
    for text in (" a thé", "the\n𝄞", "<|user|>", "", "  "):
        ids = vocabulary.encode(text)
        if text != "<|user|>":  # a special token is no text
            assert vocabulary.decode(ids) == text
    assert vocabulary.encode(" a") == (tokenizer().convert_tokens_to_ids("Ġa"),)


def test_one_seed_gives_one_result_on_a_real_model() -> None:
    def texts(follower: Any, seed: int) -> list[str]:
        return [str(p) for p in run_sampler(SMCSampler(), SOURCE, follower, 6, seed=seed).particles]

    follower = from_model(llama(300), tokenizer(), name="tiny")
    first = texts(follower, 1)
    assert texts(follower, 1) == first  # a warm cache changes nothing
    assert texts(from_model(llama(300), tokenizer(), name="tiny"), 1) == first
    assert texts(follower, 2) != first


def test_models_are_loaded_from_a_directory(tmp_path: Path) -> None:
    made = tokenizer()
    llama(len(made), eos_token_id=1).save_pretrained(tmp_path)
    made.save_pretrained(tmp_path)
    follower = from_pretrained(str(tmp_path))
    assert follower.name == f"hf:{tmp_path}"
    population = run_sampler(ImportanceSampler(), SOURCE, follower, 2)
    assert all(p.context.token_count == 6 for p in population.particles)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(FollowerError, match="cannot be loaded"):
        from_pretrained(str(tmp_path))
    (tmp_path / "config.json").unlink()
    with pytest.raises(FollowerError, match=r"config\.json"):
        from_pretrained(str(tmp_path))


# Chat prompts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("template", [TEMPLATE, "{{ bos_token }}" + TEMPLATE, None])
def test_prompts_have_exactly_one_bos(template: str | None) -> None:
    made = tokenizer(template)
    ids = ChatPrompt(made)("Hello", "Note to self: hurry")
    assert ids[0] == made.bos_token_id and ids.count(made.bos_token_id) == 1
    assert made.decode(ids).endswith("Note to self: hurry\n")


def test_prompts_switch_thinking_off_and_end_where_the_answer_begins() -> None:
    text = tokenizer().decode(ChatPrompt(tokenizer())("Hello"))
    assert text.replace(" ", "") == "<s><|user|>Hello<|end|><|assistant|>"
    template = TEMPLATE.replace("{{ bos_token }}", "")
    made = tokenizer(template, bos=False)
    assert made.decode(ChatPrompt(made)("Hi")).replace(" ", "") == "<|user|>Hi<|end|><|assistant|>"


def test_a_template_that_fails_names_the_model() -> None:
    with pytest.raises(FollowerError, match="chat template"):
        ChatPrompt(tokenizer("{{ raise_exception('no') }}"))("Hi")


# Loaded models of others ----------------------------------------------------------------------


def test_an_async_lm_is_a_follower(tmp_path: Path) -> None:
    from genlm.backend.llm import AsyncTransformer

    made = tokenizer()
    llama(len(made), eos_token_id=1).save_pretrained(tmp_path)
    made.save_pretrained(tmp_path)
    model = LlamaForCausalLM.from_pretrained(tmp_path)
    theirs = from_loaded(AsyncTransformer(model, made))
    ours = from_pretrained(str(tmp_path))
    contexts = [prefix(ours, "Hi"), prefix(ours, "Hi").extend([50, 60])]
    for context in contexts:
        a, b = ask(theirs, LogProbs(context))[0], ask(ours, LogProbs(context))[0]
        assert a == pytest.approx(b, abs=1e-4)
    (a,), (b,) = (ask(f, Score(contexts[0], (50, 60, 70))) for f in (theirs, ours))
    assert a == pytest.approx(b, abs=1e-4)
    texts = [
        [str(p) for p in run_sampler(SMCSampler(), SOURCE, f, 4).particles] for f in (theirs, ours)
    ]
    assert texts[0] == texts[1]


def test_a_follower_stays_what_it_is_and_others_are_refused() -> None:
    toy = ToyFollower.random(1)
    assert from_loaded(toy) is toy
    with pytest.raises(UsageError, match="float"):
        from_loaded(1.5)


def test_masks_of_programs_may_be_plain_sets() -> None:
    toy = ToyFollower.random(6)
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        self.first = await self.sample(self.context.mask_dist({0, 1}))
        await self.next_token()
        await self.end()
"""
    population = run_sampler(ImportanceSampler(), source, toy, 16)
    assert {p.first for p in population.particles} == {True, False}
    assert all((str(p) in "ab") == p.first for p in population.particles)
    assert isinstance(population.particles[0].masks.vocabulary.text_mask, TokenMask)


def test_many_masks_on_one_distribution() -> None:
    toy = ToyFollower.random(1, [chr(97 + i) for i in range(10)])
    size, context = toy.vocabulary.size, prefix(toy)
    masks = [from_ids(range(i % 3, 12), size) for i in range(200)]
    row = np.exp(ask(toy, LogProbs(context))[0].astype(float))
    for k in range(0, 200, 7):  # some that the row knows, and some that are new
        some = masks[max(0, k - 5) : k + 7]
        for mask, log_mass in zip(some, ask(toy, *(Mass(context, m) for m in some)), strict=True):
            assert log_mass == pytest.approx(math.log(row[mask.array].sum()), abs=1e-6)
