"""What llama.cpp computes, against the same file in torch."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from disciple_ext import DiscipleError, run_program
from disciple_ext.follower.gguf.load import from_gguf
from disciple_ext.models.store import find
from disciple_ext.protocol.prefix import Prefix
from disciple_ext.protocol.requests import Draw, Drawn, LogProbs, Mass, Score

Load = Callable[..., Any]
SIZE = 266
# Keys and values are float16 there. The models are random, with logits up to 30: one wrong token in
# a context is some nats.
CLOSE = {"atol": 0.1, "rtol": 0.0}
NATS = 0.003


@pytest.fixture
def tiny(write: Callable[..., Path], tmp_path: Path) -> Path:
    return write(tmp_path / "tiny.gguf")


def logits(follower: Any, contexts: list[Prefix]) -> torch.Tensor:
    return asyncio.run(follower.backend.logits(contexts)).log_softmax(-1)


def check(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Whether distributions are the same but for rounding."""
    torch.testing.assert_close(ours, theirs, **CLOSE)
    assert ((theirs.exp() * (theirs - ours)).sum(-1)).max() < NATS


def texts(seed: int, count: int, length: int) -> list[Prefix]:
    generator = random.Random(seed)
    return [Prefix.of(generator.choices(range(SIZE), k=length)) for _ in range(count)]


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_architectures(
    architecture: str, load: Load, write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write(tmp_path / "tiny.gguf", architecture)
    contexts = [Prefix.of(c) for c in ((1, 5, 9), (7,), range(40, 80), (1, 5, 10))]
    ours, theirs = logits(load(path), contexts), logits(from_gguf(str(path)), contexts)
    check(ours, theirs)
    assert (theirs[0] - theirs[3]).abs().max() > 1  # the model tells contexts apart


@pytest.mark.parametrize(
    "limits",
    [{}, {"sequences": 3}, {"context": 256}, {"context": 256, "sequences": 1}],
    ids=["room", "few sequences", "few cells", "one sequence"],
)
def test_a_population_that_grows_and_is_resampled(
    limits: dict[str, int], load: Load, tiny: Path
) -> None:
    """Whatever is shared, forgotten and computed again, each context's logits are its own."""
    ours, theirs = load(tiny, **limits), from_gguf(str(tiny))
    generator = random.Random(1)
    prompts = texts(2, 2, 30)
    particles = [prompts[i % 2] for i in range(12)]
    for _ in range(25):
        chosen = generator.choices(particles, k=len(particles))
        particles = [p.then(generator.randrange(SIZE)) for p in chosen]
        distinct = list(dict.fromkeys(particles))
        check(logits(ours, distinct), logits(theirs, distinct))
    assert ours.backend._cells.used <= limits.get("context", 8192)


def test_more_tokens_than_a_batch_and_more_logits_than_a_call(load: Load, tiny: Path) -> None:
    ours, theirs = load(tiny, sequences=256), from_gguf(str(tiny))
    contexts = texts(3, 200, 9)
    check(logits(ours, contexts), logits(theirs, contexts))


def test_scores(load: Load, tiny: Path) -> None:
    ours, theirs = load(tiny), from_gguf(str(tiny))
    one, two = texts(4, 2, 20)
    pairs = [(one, (4, 5, 6)), (one, (4, 5, 9, 1)), (two, (7,)), (one.then(4), (5, 6))]
    logits(ours, [one.then(4).then(5)])  # part of it is known
    found = asyncio.run(ours.backend.score(pairs))
    for a, b in zip(found, asyncio.run(theirs.backend.score(pairs)), strict=True):
        check(a.log_softmax(-1), b.log_softmax(-1))
    again = asyncio.run(ours.backend.score(pairs))
    for a, b in zip(found, again, strict=True):
        check(a.log_softmax(-1), b.log_softmax(-1))


def test_every_kind_of_request(load: Load, tiny: Path) -> None:
    ours, theirs = load(tiny), from_gguf(str(tiny))
    context, prior = texts(5, 2, 12)
    mask = ours.vocabulary.where("some", "some", lambda text: text < "a")
    requests = [
        LogProbs(context),
        Score(context, (41, 42)),
        Mass(context, mask),
        Draw(context, prior, mask, 0.37),
    ]

    async def ask(follower: Any) -> list[Any]:
        return await asyncio.gather(*(follower.ask(request) for request in requests))

    for a, b in zip(asyncio.run(ask(ours)), asyncio.run(ask(theirs)), strict=True):
        if isinstance(b, Drawn):
            assert a.token == b.token
            a, b = ((d.log_q, d.log_mass, d.log_p) for d in (a, b))
        torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), **CLOSE)


def test_beginnings_are_evaluated_once(load: Load, tiny: Path) -> None:
    follower = load(tiny)
    engine = follower.backend.engine
    (prompt,) = texts(6, 1, 40)
    hint = prompt.extend((7, 8, 9))
    contexts = [*(prompt.then(t) for t in range(8)), *(hint.then(t) for t in range(8))]
    logits(follower, contexts)
    assert (engine.tokens, follower.forwards) == (40 + 8 + 3 + 8 - 1, 1)  # 7 is of both
    logits(follower, [c.then(5) for c in contexts])
    assert engine.tokens == 40 + 8 + 3 + 8 - 1 + 16


def test_a_run_computes_the_same_again(load: Load, tiny: Path) -> None:
    follower = load(tiny)
    source = """
class InferenceModel(BaseModel):
    @classmethod
    def prior_prompt(cls):
        return "the and"

    async def step(self):
        await self.next_token()
        if self.context.token_count == 12:
            await self.end()
"""
    found = []
    for _ in range(2):
        follower.forget()
        result = run_program(source, follower=follower, n=16, seed=3, sandbox="none")
        found.append([(particle.text, particle.log_weight) for particle in result.particles])
    assert found[0] == found[1]
    assert len(set(found[0])) > 1


def test_threads_of_one_follower_do_not_disturb_one_another(load: Load, tiny: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    ours, theirs = load(tiny), from_gguf(str(tiny))
    parts = [texts(seed, 4, 25) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda part: logits(ours, part), parts))
    for part, rows in zip(parts, found, strict=True):
        check(rows, logits(theirs, part))


PROSE = """The harbour was quiet when the ferry came in. A man in a grey coat stood at the rail and
counted the lamps along the quay, as he had done every evening for eleven years. There were nine of
them, and tonight one was out. He wrote it down, since nobody else would, and went to look for the
mayor."""


def test_a_quantised_model_is_within_a_hundredth_of_a_nat(load: Load) -> None:
    try:
        path = find("smollm2")
    except DiscipleError as missing:
        pytest.skip(str(missing))
    ours, theirs = load(path), from_gguf(str(path))
    context = Prefix.of(theirs.prompt("Write a short story about a harbour."))
    pairs = [(context, theirs.vocabulary.encode(PROSE))]
    p, q = (asyncio.run(f.backend.score(pairs))[0].log_softmax(-1) for f in (theirs, ours))
    nats = (p.exp() * (p - q)).sum(-1)
    assert len(nats) > 60 and nats.mean() < 0.01 and nats.max() < 0.3
