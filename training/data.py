"""Turn the corpus into packed shards of chat examples.

Usage: ``python -m training.data --corpus train.jsonl.xz --tokenizer DIR
--out DIR --tokens 12000000``. Shards are made one after another, deterministically from the seed,
and each appears under its final name only when whole, so training may start on the first.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from training.examples import Example
from training.maker import Maker


def encode(
    examples: list[Example], tokenizer: PreTrainedTokenizerBase
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield (token ids, loss mask) of every example; only the assistant's text is learnt."""
    heads, bodies = [], []
    for e in examples:
        note = f"Note to self: {e.hint}\n" if e.hint else ""
        given = e.text[: e.learn_from]
        heads.append(f"<|begin|><|user|>\n{e.prompt}<|end|>\n<|assistant|>\n{note}{given}")
        bodies.append(f"{e.text[e.learn_from :]}<|end|>")
    for head, body in zip(
        tokenizer(heads)["input_ids"], tokenizer(bodies)["input_ids"], strict=True
    ):
        yield head + body, [0] * len(head) + [1] * len(body)


def pack(
    encoded: list[tuple[list[int], list[int]]], length: int, pad: int
) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Pack examples into rows, longest first into the first row with room (a few open rows)."""
    rows: list[tuple[list[int], list[int]]] = []
    by_room: dict[int, list[int]] = defaultdict(list)
    for ids, mask in sorted(encoded, key=lambda pair: -len(pair[0])):
        ids, mask = ids[:length], mask[:length]
        room = next((r for r in range(len(ids), length + 1) if by_room[r]), None)
        if room is None:
            rows.append(([], []))
            index, room = len(rows) - 1, length
        else:
            index = by_room[room].pop()
        rows[index][0].extend(ids)
        rows[index][1].extend(mask)
        by_room[room - len(ids)].append(index)
    tokens = np.full((len(rows), length), pad, dtype=np.uint16)
    learnt = np.zeros((len(rows), length), dtype=np.uint8)
    for i, (ids, mask) in enumerate(rows):
        tokens[i, : len(ids)] = ids
        learnt[i, : len(mask)] = mask
    return tokens, learnt


def main() -> None:
    """Write shards until the wanted number of tokens is reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="train.jsonl.xz")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer directory")
    parser.add_argument("--out", type=Path, required=True, help="directory of the shards")
    parser.add_argument("--tokens", type=float, default=2e7, help="tokens wanted")
    parser.add_argument("--shard-examples", type=int, default=24000)
    parser.add_argument("--length", type=int, default=384, help="row length")
    parser.add_argument("--story-characters", type=int, default=1400, help="longest story")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="print so many examples, write nothing")
    args = parser.parse_args()
    maker = Maker(args.corpus, args.seed, args.story_characters)
    if args.show:
        for _ in range(args.show):
            print(maker.example(), "\n")
        return
    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    args.out.mkdir(parents=True, exist_ok=True)
    shuffler = np.random.default_rng(args.seed)
    total = number = 0
    while total < args.tokens:
        examples = [maker.example() for _ in range(args.shard_examples)]
        tokens, learnt = pack(
            list(encode(examples, tokenizer)), args.length, tokenizer.pad_token_id
        )
        order = shuffler.permutation(len(tokens))
        partial = args.out / f"partial-{number:04d}.npz"
        np.savez(partial, tokens=tokens[order], learnt=learnt[order])
        partial.rename(args.out / f"shard-{number:04d}.npz")
        used = int((tokens != tokenizer.pad_token_id).sum())
        total += used
        number += 1
        print(
            f"shard {number}: {total} tokens, {used / tokens.size:.3f} full, "
            f"{learnt.mean():.3f} learnt",
            flush=True,
        )


if __name__ == "__main__":
    main()
