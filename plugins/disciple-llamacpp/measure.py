"""What `llamacpp:` computes, how fast, and how much of it: the figures of the README.

    python plugins/disciple-llamacpp/measure.py kl MODEL.gguf --texts FILE.jsonl
    python plugins/disciple-llamacpp/measure.py speed MODEL.gguf
    python plugins/disciple-llamacpp/measure.py shared MODEL.gguf

`kl` compares next-token distributions with those of the same file in torch, as float32: in nats a
token, at each token of texts behind chat prompts. `speed` gives processor milliseconds a token for
populations under one prompt of 64 tokens, on one thread. `shared` counts the tokens that one run of
SMC has evaluated, in both. A FILE has an object with a "text" on each line; .xz is read, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import random
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from disciple_llamacpp.load import from_spec

from disciple_ext import run_program
from disciple_ext.follower.gguf.load import from_gguf
from disciple_ext.protocol.prefix import Prefix

PROMPTS = (
    "Write a sentence.",
    "Please generate a sentence with exactly 82 characters.",
    "Write a short story about a dog who finds an old map.",
    "Explain in simple words why the sky is blue.",
)
SMC = """
class InferenceModel(BaseModel):
    @classmethod
    def prior_prompt(cls):
        return "Write a sentence about the sea."

    @classmethod
    def proposal_prompt(cls):
        return "Write a sentence of twelve words about the sea."

    async def step(self):
        await self.next_word()
        if len(self.words) == 12:
            await self.end()
"""


def texts(path: Path, count: int) -> list[str]:
    """Texts of 100 characters and more, drawn with a fixed seed."""
    opened: Any = lzma.open(path, "rt") if path.suffix == ".xz" else path.open(encoding="utf-8")
    with opened as lines:
        found = [json.loads(line)["text"] for line in lines]
    return random.Random(0).sample([text for text in found if len(text) >= 100], count)


def kl(arguments: argparse.Namespace) -> None:
    """KL(float32 || llama.cpp) and what the most likely tokens are."""
    ours = from_spec(f"{arguments.model},threads=1,{arguments.options}".rstrip(","))
    plain = from_gguf(arguments.model, dtype="float32")
    torch.set_num_threads(1)
    divergences, same = [], []
    for i, text in enumerate(texts(arguments.texts, arguments.count)):
        context = Prefix.of(plain.prompt(PROMPTS[i % len(PROMPTS)]))
        pair = (context, tuple(plain.vocabulary.encode(text)[:64]))
        p, q = (
            asyncio.run(follower.backend.score([pair]))[0].double().log_softmax(-1)
            for follower in (plain, ours)
        )
        divergences.append((p.exp() * (p - q)).sum(-1))
        same.append(p.argmax(-1) == q.argmax(-1))
    nats, agree = torch.cat(divergences), torch.cat(same).double()
    print(
        f"{nats.numel()} tokens: mean {nats.mean():.4f} nats, 99 % below "
        f"{nats.quantile(0.99):.4f}, max {nats.max():.4f}; the same token first: {agree.mean():.3f}"
    )


def speed(arguments: argparse.Namespace) -> None:
    """Processor milliseconds a token, the median of 16 steps."""
    ours = from_spec(f"{arguments.model},threads=1,{arguments.options}".rstrip(","))
    found = {"llamacpp": ours}
    if arguments.torch:
        found |= {t: from_gguf(arguments.model, dtype=t) for t in ("float32", "bfloat16")}
    torch.set_num_threads(1)
    for name, follower in found.items():
        for particles in (1, 8, 32, 128):
            generator = random.Random(0)
            backend: Any = follower.backend
            follower.forget()
            prompt = Prefix.of(generator.choices(range(5, 40_000), k=64))
            asyncio.run(backend.logits([prompt]))
            contexts = [prompt] * particles
            steps = []
            for _ in range(16):
                contexts = [c.then(generator.randrange(5, 40_000)) for c in contexts]
                begun = time.process_time()
                asyncio.run(backend.logits(contexts))
                steps.append(1e3 * (time.process_time() - begun) / particles)
            print(f"{name}: N={particles}: {median(steps):.2f} ms a token", flush=True)


def shared(arguments: argparse.Namespace) -> None:
    """Tokens evaluated in one run, here and by the torch engine."""
    ours = from_spec(f"{arguments.model},threads=1,{arguments.options}".rstrip(","))
    plain = from_gguf(arguments.model, dtype="float32")
    torch.set_num_threads(1)
    counts = {"torch": 0}
    run = plain.backend._run  # type: ignore[attr-defined]

    def counted(ids: Any, *rest: Any) -> Any:
        counts["torch"] += ids.numel()
        return run(ids, *rest)

    plain.backend._run = counted  # type: ignore[attr-defined]
    for name, follower in (("torch", plain), ("llamacpp", ours)):
        begun = time.process_time()
        result = run_program(SMC, follower=follower, n=32, seed=0, sandbox="none")
        took = time.process_time() - begun
        counts["llamacpp"] = ours.backend.engine.tokens  # type: ignore[attr-defined]
        tokens = sum(particle.tokens for particle in result.particles)
        print(
            f"{name}: {counts[name]} tokens evaluated in {follower.backend.forwards} passes for "
            f"{tokens} tokens of text, {took:.1f} s of processor time: {result.text!r}"
        )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for function in (kl, speed, shared):
        command = commands.add_parser(function.__name__, help=function.__doc__)
        command.add_argument("model", help="a GGUF file")
        command.add_argument("--options", default="", help="as in library=llama_cpp")
        command.set_defaults(function=function)
        if function is kl:
            command.add_argument("--texts", type=Path, required=True)
            command.add_argument("--count", type=int, default=32)
        if function is speed:
            command.add_argument("--torch", action="store_true", help="time gguf: too")
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
