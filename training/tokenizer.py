"""Train the byte-level BPE tokenizer of the embedded Follower.

Usage: ``python -m training.tokenizer --corpus train.jsonl.xz --out DIR``
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from training.corpus import SIMPLE_SOURCES, read_documents

BOS = "<|begin|>"
USER = "<|user|>"
ASSISTANT = "<|assistant|>"
END = "<|end|>"
END_OF_TEXT = "<|endoftext|>"
PAD = "<|pad|>"
SPECIALS = [PAD, END_OF_TEXT, BOS, USER, ASSISTANT, END]
VOCABULARY_SIZE = 8192
CONTEXT = 1024

# Words keep their leading space; digits and punctuation marks stand alone, and line breaks never
# join the mark before them, so that a program can force or forbid each of them by itself.
SPLIT_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)(?!\p{L})"
    r"| ?\p{L}+| ?\p{N}| ?\.\.\.| ?[^\s\p{L}\p{N}]|[\r\n]+|\s+(?!\S)|\s"
)

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{%- set ns = namespace(system='') -%}"
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'system' -%}"
    "{%- set ns.system = ns.system + message['content'] + '\\n' -%}"
    "{%- elif message['role'] == 'user' -%}"
    "{{ '<|user|>\\n' + ns.system + message['content'] + '<|end|>\\n' }}"
    "{%- set ns.system = '' -%}"
    "{%- elif message['role'] == 'assistant' -%}"
    "{{ '<|assistant|>\\n' + message['content'] + '<|end|>' }}"
    "{%- if not loop.last -%}{{ '\\n' }}{%- endif -%}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}"
)


def sample_texts(corpus: Path, megabytes: float, seed: int) -> Iterator[str]:
    """Yield a seeded sample of the corpus in which the simple sources are whole."""
    documents = list(read_documents(corpus))
    random.Random(seed).shuffle(documents)
    documents.sort(key=lambda pair: pair[0] not in SIMPLE_SOURCES)  # stable: shuffled in each half
    budget = megabytes * 1e6
    for _, text in documents:
        if budget <= 0:
            return
        budget -= len(text)
        yield text


def train_tokenizer(texts: Iterator[str]) -> Tokenizer:
    """Learn the merges and return the tokenizer; special tokens take the first ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def wrap(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """Give the tokenizer its special tokens and chat template for Transformers."""
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[USER, ASSISTANT, END_OF_TEXT],
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def main() -> None:
    """Train, wrap and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="train.jsonl.xz")
    parser.add_argument("--out", type=Path, required=True, help="directory to write")
    parser.add_argument("--megabytes", type=float, default=30.0, help="size of the sample")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    fast = wrap(train_tokenizer(sample_texts(args.corpus, args.megabytes, args.seed)))
    fast.save_pretrained(args.out)
    print(f"{len(fast)} tokens written")


if __name__ == "__main__":
    main()
