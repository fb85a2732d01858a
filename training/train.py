"""Train the embedded Follower on packed shards: warm up, stay, and at last decay.

The stable phase can be stopped and resumed at will (``--resume``). ``--decay TOKENS`` takes any
stable checkpoint and brings the learning rate down to nothing over so many tokens, into a
checkpoint of its own, so that the stable one can be trained on later.
"""

# Torch may be unseen by the type checker: its classes and decorators are then untyped.
# mypy: disable-error-code="untyped-decorator,no-any-return"

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.model import Llama, Shape
from training.tokenizer import BOS, SPECIALS

BOS_ID = SPECIALS.index(BOS)


class Rows:
    """Walks the shards in order, batch by batch, from a position that can be saved."""

    def __init__(self, folder: Path, batch: int, shard: int = 0, row: int = 0) -> None:
        """Start at a row of a shard."""
        self.folder, self.batch, self.shard, self.row = folder, batch, shard, row
        self._loaded: tuple[int, Tensor, Tensor] | None = None

    def _load(self) -> tuple[Tensor, Tensor]:
        if self._loaded is None or self._loaded[0] != self.shard:
            files = sorted(self.folder.glob("shard-*.npz"))
            with np.load(files[self.shard % len(files)]) as data:
                tokens = torch.from_numpy(data["tokens"].astype(np.int64))
                self._loaded = (self.shard, tokens, torch.from_numpy(data["learnt"]))
        return self._loaded[1], self._loaded[2]

    def next(self) -> tuple[Tensor, Tensor]:
        """Return the next batch of (ids, learnt)."""
        ids, learnt = self._load()
        if self.row + self.batch > len(ids):
            self.shard, self.row = self.shard + 1, 0
            ids, learnt = self._load()
        part = slice(self.row, self.row + self.batch)
        self.row += self.batch
        return ids[part], learnt[part]


def batches_of(folder: Path, batch: int, limit: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the first batches of the first shard, for held-out loss."""
    rows = Rows(folder, batch)
    for _ in range(limit):
        yield rows.next()
        if rows.shard:
            return


@torch.no_grad()
def held_out_loss(model: Llama, folder: Path, batch: int, limit: int = 4) -> float:
    """Return the mean loss in nats per learnt token."""
    total = count = 0.0
    for ids, learnt in batches_of(folder, batch, limit):
        total += float(model.loss(ids, learnt, BOS_ID))
        count += float(learnt[:, 1:].sum())
    return total / count


class Trainer:
    """The model with its optimizers, position and counters."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Build everything from the arguments, or from a checkpoint."""
        saved: dict[str, Any] = {}
        if args.resume:
            saved = torch.load(args.resume, weights_only=True)
        torch.manual_seed(args.seed)
        sizes = saved.get("shape") or {
            "width": args.width,
            "layers": args.layers,
            "heads": args.heads,
            "inner": args.inner,
        }
        self.args = args
        self.model = Llama(Shape(**sizes))
        hidden = [p for p in self.model.model.layers.parameters() if p.ndim == 2]
        norms = [p for p in self.model.parameters() if p.ndim == 1]
        # It orthogonalises in bfloat16: slow on a CPU that has no instructions for it.
        self.muon = torch.optim.Muon(hidden, lr=args.muon_lr, weight_decay=args.weight_decay)
        self.adam = torch.optim.AdamW(
            [{"params": [self.model.model.embed_tokens.weight]}, {"params": norms}],
            lr=args.adam_lr,
            betas=(0.9, 0.95),
            weight_decay=0.0,
        )
        self.rows = Rows(args.data, args.batch)
        self.step = 0
        self.tokens = 0
        self.learnt_tokens = 0
        if saved:
            self._restore(saved)
        self.start_tokens = self.tokens
        if args.compile:
            self.model.model.compile()

    def _restore(self, saved: dict[str, Any]) -> None:
        self.model.load_state_dict(saved["model"])
        self.muon.load_state_dict(saved["muon"])
        self.adam.load_state_dict(saved["adam"])
        self.step, self.tokens = saved["step"], saved["tokens"]
        self.learnt_tokens = saved["learnt_tokens"]
        if not self.args.restart_data:
            self.rows.shard, self.rows.row = saved["position"]
        torch.set_rng_state(saved["rng"])

    def save(self, path: Path) -> None:
        """Write the whole state, atomically."""
        state = {
            "shape": asdict(self.model.shape),
            "model": self.model.state_dict(),
            "muon": self.muon.state_dict(),
            "adam": self.adam.state_dict(),
            "step": self.step,
            "tokens": self.tokens,
            "learnt_tokens": self.learnt_tokens,
            "position": (self.rows.shard, self.rows.row),
            "rng": torch.get_rng_state(),
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        os.replace(partial, path)

    def rate(self) -> float:
        """Return the factor on the learning rates: warm-up, then one, or the linear decay."""
        if self.args.decay:
            done = (self.tokens - self.start_tokens) / self.args.decay
            return max(0.0, 1.0 - done)
        return min(1.0, (self.step + 1) / self.args.warmup)

    def train_step(self) -> float:
        """Take one step and return the loss per learnt token."""
        ids, learnt = self.rows.next()
        count = learnt[:, 1:].sum()
        parts = self.args.micro
        total = 0.0
        for part, keep in zip(ids.chunk(parts), learnt.chunk(parts), strict=True):
            loss = self.model.loss(part, keep, BOS_ID) / count
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(self.model.model.embed_tokens.weight, 1.0)
        factor = self.rate()
        for optimizer, rate in ((self.muon, self.args.muon_lr), (self.adam, self.args.adam_lr)):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens += int((ids != 0).sum())
        self.learnt_tokens += int(count)
        return total

    def finished(self, started: float) -> bool:
        """Tell whether the phase is over."""
        if self.args.decay:
            return self.tokens - self.start_tokens >= self.args.decay
        minutes = (time.monotonic() - started) / 60
        return minutes >= self.args.minutes or self.tokens >= self.args.tokens

    def run(self) -> None:
        """Train until the phase ends or a signal asks to stop, then save."""
        args = self.args
        stop: list[int] = []

        def ask(number: int, _frame: FrameType | None) -> None:
            stop.append(number)

        signal.signal(signal.SIGTERM, ask)
        signal.signal(signal.SIGINT, ask)
        args.out.mkdir(parents=True, exist_ok=True)
        target = args.out / ("decayed.pt" if args.decay else "stable.pt")
        started = saved = time.monotonic()
        smooth = 0.0
        while not stop and not self.finished(started):
            loss = self.train_step()
            smooth = loss if not smooth else 0.95 * smooth + 0.05 * loss
            if self.step % args.log_every == 0:
                self.log(started, smooth)
            if time.monotonic() - saved > 300:
                self.save(target)
                saved = time.monotonic()
        self.log(started, smooth, limit=1000)
        self.save(target)

    def log(self, started: float, smooth: float, limit: int = 4) -> None:
        """Append a line with the held-out loss to the log."""
        held_out = held_out_loss(self.model, self.args.valid, self.args.batch, limit)
        entry = {
            "step": self.step,
            "tokens": self.tokens,
            "learnt_tokens": self.learnt_tokens,
            "seconds": round(time.monotonic() - started, 1),
            "rate": round(self.rate(), 4),
            "train": round(smooth, 4),
            "held_out": round(held_out, 4),
        }
        with (self.args.out / "log.jsonl").open("a") as log:
            log.write(json.dumps(entry) + "\n")
        print(entry, flush=True)


def parse_arguments() -> argparse.Namespace:
    """Return the command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of training shards")
    add("--valid", type=Path, required=True, help="folder of held-out shards")
    add("--out", type=Path, required=True, help="folder of checkpoints and log")
    add("--resume", type=Path, help="checkpoint to go on from")
    add("--restart-data", action="store_true", help="begin the data anew (other shards)")
    add("--decay", type=float, default=0.0, help="decay the learning rate over so many tokens")
    add("--minutes", type=float, default=1e9, help="end of the stable phase by time")
    add("--tokens", type=float, default=1e12, help="end of the stable phase by tokens in all")
    add("--width", type=int, default=256)
    add("--layers", type=int, default=6)
    add("--heads", type=int, default=8)
    add("--inner", type=int, default=704)
    add("--batch", type=int, default=20, help="rows per step")
    add("--micro", type=int, default=1, help="parts a step is computed in")
    add("--muon-lr", type=float, default=0.02)
    add("--adam-lr", type=float, default=0.004)
    add("--weight-decay", type=float, default=0.02)
    add("--warmup", type=int, default=30, help="steps of warm-up")
    add("--log-every", type=int, default=25)
    add("--seed", type=int, default=1)
    add("--threads", type=int, default=2)
    add("--compile", action="store_true", help="compile the trunk")
    return parser.parse_args()


def main() -> None:
    """Run one phase of training."""
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    Trainer(args).run()


if __name__ == "__main__":
    main()
