"""Measure an exported model: held-out loss, share of real words, unselected samples.

Usage: ``python -m training.report --model DIR --valid SHARDS
--words /usr/share/dict/american-english-large --out report.json``
"""

# Torch may be unseen by the type checker: its classes and decorators are then untyped.
# mypy: disable-error-code="untyped-decorator,no-any-return"

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from training.corpus import read_documents
from training.model import Llama, Shape
from training.tokenizer import BOS, END, SPECIALS

_WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)?")
SAMPLES = {"Write a sentence.": 200, "Write a paragraph.": 50}


def load_plain(folder: Path) -> Llama:
    """Load exported weights into the training model, in float32."""
    config = json.loads((folder / "config.json").read_text())
    shape = Shape(
        vocabulary=config["vocab_size"],
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        inner=config["intermediate_size"],
        context=config["max_position_embeddings"],
        rope_theta=config["rope_theta"],
    )
    model = Llama(shape)
    weights = load_file(folder / "model.safetensors")
    model.load_state_dict({k: v.float() for k, v in weights.items()})
    return model


@torch.no_grad()
def held_out(folder: Path, shards: Path) -> dict[str, float]:
    """Return nats per token and bits per byte on the assistant texts of held-out pairs."""
    model = load_plain(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    bos, end = SPECIALS.index(BOS), SPECIALS.index(END)
    nats = count = size = 0.0
    for path in sorted(shards.glob("shard-*.npz")):
        with np.load(path) as data:
            ids = torch.from_numpy(data["tokens"].astype(np.int64))
            learnt = torch.from_numpy(data["learnt"])
        for part, keep in zip(ids.split(16), learnt.split(16), strict=True):
            nats += float(model.loss(part, keep, bos))
            texts = part[:, 1:][keep[:, 1:].bool()]
            count += len(texts)
            size += len(tokenizer.decode(texts[texts != end]).encode())
    return {
        "held_out_tokens": int(count),
        "held_out_nats_per_token": round(nats / count, 4),
        "held_out_bits_per_byte": round(nats / math.log(2) / size, 4),
    }


@torch.no_grad()
def sample(folder: Path, prompt: str, number: int, seed: int, batch: int = 50) -> list[str]:
    """Sample unconstrained answers at temperature one."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(seed)
    chat = [{"role": "user", "content": prompt}]
    head = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    texts: list[str] = []
    while len(texts) < number:
        rows = min(batch, number - len(texts))
        out = model.generate(
            head["input_ids"].repeat(rows, 1),
            attention_mask=head["attention_mask"].repeat(rows, 1),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=300,
        )
        texts += tokenizer.batch_decode(
            out[:, head["input_ids"].shape[1] :], skip_special_tokens=True
        )
    return texts


def known_words(word_list: Path | None, corpus: Path | None) -> tuple[set[str], str]:
    """Return the lower-cased real words and the name of where they come from."""
    if word_list is not None:
        return {w.strip().lower() for w in word_list.open(encoding="utf-8")}, word_list.name
    if corpus is None:
        raise SystemExit("give --words or --corpus")
    counts: Counter[str] = Counter()
    for _, text in read_documents(corpus):
        counts.update(w.lower() for w in _WORD.findall(text))
    return {w for w, n in counts.items() if n >= 3}, "words seen at least 3 times in the corpus"


def real_share(texts: list[str], known: set[str]) -> tuple[float, list[str]]:
    """Return the share of words that are real, and the commonest that are not."""
    words = [w.lower() for text in texts for w in _WORD.findall(text)]
    unknown = [w for w in words if w not in known and w.removesuffix("'s") not in known]
    common = [w for w, _ in Counter(unknown).most_common(12)]
    return round(1 - len(unknown) / max(1, len(words)), 4), common


def main() -> None:
    """Write the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="exported model directory")
    parser.add_argument("--valid", type=Path, required=True, help="folder of held-out shards")
    parser.add_argument("--words", type=Path, help="word list, one word per line")
    parser.add_argument("--corpus", type=Path, help="corpus to count words in, without a list")
    parser.add_argument("--checkpoint", type=Path, help="for the number of tokens seen")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    weights = args.model / "model.safetensors"
    report: dict[str, Any] = {
        "sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
        "parameters": sum(t.numel() for t in load_file(weights).values()),
        **held_out(args.model, args.valid),
    }
    if args.checkpoint:
        saved = torch.load(args.checkpoint, weights_only=True)
        report |= {k: saved[k] for k in ("step", "tokens", "learnt_tokens")}
    known, report["word_list"] = known_words(args.words, args.corpus)
    for prompt, number in SAMPLES.items():
        texts = sample(args.model, prompt, number, args.seed)
        share, unknown = real_share(texts, known)
        report[prompt] = {
            "samples": number,
            "real_word_share": share,
            "commonest_unknown": unknown,
            "first_samples": texts[: 10 if number == 200 else 4],
        }
    args.out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
