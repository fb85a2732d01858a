"""Write a training checkpoint as a Hugging Face directory, one file at a time, atomically."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from training.model import Shape
from training.tokenizer import BOS, END, END_OF_TEXT, PAD, SPECIALS

LAST_NORM = "model.norm.weight"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def model_config(shape: Shape) -> dict[str, Any]:
    """Return the contents of ``config.json``."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **shape.hf_config(),
        # Rotary positions go on beyond what it was trained on; programs may ask for long texts.
        "max_position_embeddings": 4096,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": SPECIALS.index(BOS),
        "eos_token_id": SPECIALS.index(END),
        "pad_token_id": SPECIALS.index(PAD),
        "dtype": "float16",
    }


def generation_config() -> dict[str, Any]:
    """Return the contents of ``generation_config.json``."""
    return {
        "bos_token_id": SPECIALS.index(BOS),
        "eos_token_id": [SPECIALS.index(END), SPECIALS.index(END_OF_TEXT)],
        "pad_token_id": SPECIALS.index(PAD),
        "do_sample": True,
        "max_new_tokens": 256,
    }


def export(checkpoint: Path, tokenizer: Path, out: Path, temperature: float = 1.0) -> None:
    """Write weights (float16), configurations and tokenizer files into ``out``.

    Args:
        checkpoint: what training saved.
        tokenizer: tokenizer directory.
        out: directory to write.
        temperature: divides the logits of the exported model once and for all, by way of its
            last norm. A model that has seen little text spreads its mass over too many tokens;
            below 1, plain sampling gives fewer invented words, at some cost in held-out loss.
    """
    saved = torch.load(checkpoint, weights_only=True)
    shape = Shape(**saved["shape"])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".export-") as name:
        folder = Path(name)
        # Half precision halves the package; its rounding is far below the noise of training.
        weights = {k: v.to(torch.float16).contiguous() for k, v in saved["model"].items()}
        weights[LAST_NORM] = (saved["model"][LAST_NORM] / temperature).to(torch.float16)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        for file, contents in (
            ("config.json", model_config(shape)),
            ("generation_config.json", generation_config()),
        ):
            (folder / file).write_text(json.dumps(contents, indent=2) + "\n")
        digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
        (folder / "weights.json").write_text(json.dumps({"sha256": digest}) + "\n")
        for file in TOKENIZER_FILES:
            shutil.copy(tokenizer / file, folder / file)
        for path in sorted(folder.iterdir()):
            os.chmod(path, 0o644)
            os.replace(path, out / path.name)
    print(f"step {saved['step']}, {saved['tokens']} tokens written to {out.name}")


def main() -> None:
    """Export one checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer directory")
    parser.add_argument("--out", type=Path, required=True, help="directory to write")
    parser.add_argument("--temperature", type=float, default=1.0, help="folded into the logits")
    args = parser.parse_args()
    export(args.checkpoint, args.tokenizer, args.out, args.temperature)


if __name__ == "__main__":
    main()
