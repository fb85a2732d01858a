"""One batch of tokens through llama.cpp, and its logits out of it."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from disciple_ext.errors import FollowerError

from .libraries import Library

__all__ = ["Engine", "Row"]

_BATCH = 512
"""Tokens in one call of the library; llama.cpp's own size of a physical batch."""
_OUTPUTS = 128
"""Logits asked for in one call: they are as wide as the vocabulary."""
_FULL = 1
"""What ``llama_decode`` returns where it finds no cells for a batch."""


@dataclass(frozen=True, slots=True)
class Row:
    """A token to evaluate.

    Attributes:
        token: its id.
        position: its place in its text, from 0.
        sequences: those that get it: all whose texts go through it.
        output: row of the logits that come after it, or None where they are not wanted.
    """

    token: int
    position: int
    sequences: Sequence[int]
    output: int | None


class Engine:
    """A model and its context in llama.cpp.

    Attributes:
        library: what computes.
        size: logits in a row.
        calls: calls of ``llama_decode`` so far.
        tokens: tokens evaluated so far.
    """

    def __init__(
        self,
        library: Library,
        path: str,
        *,
        cells: int,
        sequences: int,
        threads: int,
        gpu_layers: int,
    ) -> None:
        """Load a file, which must have passed our own checks: the library may abort on others.

        Args:
            library: what computes.
            path: the file.
            cells: tokens whose keys and values are held.
            sequences: texts that are held.
            threads: CPU threads.
            gpu_layers: layers on the GPU where the library was built for one, -1 for all.

        Raises:
            FollowerError: the library refuses the file, or there is too little memory.
        """
        c = library.c
        library.said.clear()
        parameters = c.llama_model_default_params()
        parameters.n_gpu_layers = gpu_layers
        parameters.check_tensors = True  # numbers that are none would reach every weight
        model = c.llama_model_load_from_file(path.encode(), parameters)
        if not model:
            raise _refused(library, path)
        limits = c.llama_context_default_params()
        limits.n_ctx, limits.n_seq_max = cells, sequences
        limits.n_batch = limits.n_ubatch = _BATCH
        limits.n_threads = limits.n_threads_batch = threads
        # Else a sequence has cells of its own, and to copy one is to copy its numbers.
        limits.kv_unified = True
        # Else a window forgets positions that another particle goes on from.
        limits.swa_full = True
        if "n_outputs_max" in {name for name, *_ in type(limits)._fields_}:
            # It asserts room for one a sequence. Scores want every position of a text.
            limits.n_outputs_max, limits.n_outputs_max_per_seq = max(_OUTPUTS, sequences), 0
        context = c.llama_init_from_model(model, limits)
        if not context:
            library.c.llama_model_free(model)
            raise FollowerError(
                f"llama.cpp cannot make a context of {cells} cells for {path!r}"
                f"{library.complaint()}; load it with fewer (llamacpp:PATH,context=2048), or "
                "take a smaller model"
            )
        self.library, self._context = library, context
        self._memory = c.llama_get_memory(context)
        self.size: int = c.llama_vocab_n_tokens(c.llama_model_get_vocab(model))
        self._batch = c.llama_batch_init(_BATCH, 0, sequences)
        self._path, self._cells = path, cells
        self.calls = self.tokens = 0
        self._free = weakref.finalize(self, _free, library, model, context, self._batch)

    def copy(self, source: int, target: int, length: int) -> None:
        """Let a sequence begin with the first tokens of another; no number is copied."""
        self.library.c.llama_memory_seq_cp(self._memory, source, target, 0, length)

    def drop(self, sequence: int, length: int) -> None:
        """Forget what a sequence holds behind its first tokens; cells of no other are free."""
        self.library.c.llama_memory_seq_rm(self._memory, sequence, length, -1)

    def clear(self) -> None:
        """Forget all sequences."""
        self.library.c.llama_memory_clear(self._memory, True)

    def close(self) -> None:
        """Free the model's memory. Nothing may be asked of it any more."""
        self._free()

    def decode(self, rows: Sequence[Row], out: torch.Tensor) -> None:
        """Evaluate tokens, those of a text in its order, and write their logits.

        Args:
            rows: the tokens.
            out: float32, shape (outputs, ``size``), contiguous, on the CPU.

        Raises:
            FollowerError: the library fails, or finds no cells.
        """
        part: list[Row] = []
        outputs = 0
        for row in rows:
            outputs += row.output is not None
            if len(part) == _BATCH or outputs > _OUTPUTS:
                self._decode(part, out)
                part, outputs = [], int(row.output is not None)
            part.append(row)
        if part:
            self._decode(part, out)

    def _decode(self, rows: Sequence[Row], out: torch.Tensor) -> None:
        batch = self._batch
        self.library.said.clear()
        for i, row in enumerate(rows):
            batch.token[i], batch.pos[i] = row.token, row.position
            batch.n_seq_id[i] = len(row.sequences)
            ids = batch.seq_id[i]
            for k, sequence in enumerate(row.sequences):
                ids[k] = sequence
            batch.logits[i] = row.output is not None
        batch.n_tokens = len(rows)
        status = self.library.c.llama_decode(self._context, batch)
        if status != 0:
            why = "finds no free cell" if status == _FULL else f"fails with {status}"
            raise FollowerError(
                f"llama.cpp {why} on a batch of {len(rows)} tokens of {self._path!r} with "
                f"{self._cells} cells{self.library.complaint()}; load it with more "
                f"(llamacpp:PATH,context={2 * self._cells}), or with 'gguf:'"
            )
        self.calls += 1
        self.tokens += len(rows)
        self._read(rows, out)

    def _read(self, rows: Sequence[Row], out: torch.Tensor) -> None:
        width = 4 * self.size
        for i, row in enumerate(rows):
            if row.output is not None:
                found = self.library.c.llama_get_logits_ith(self._context, i)
                ctypes.memmove(out.data_ptr() + row.output * width, found, width)


def _free(library: Library, model: Any, context: Any, batch: Any) -> None:
    library.c.llama_batch_free(batch)
    library.c.llama_free(context)
    library.c.llama_model_free(model)


def _refused(library: Library, path: str) -> FollowerError:
    said = library.complaint()
    if "unknown" in said and "architecture" in said:
        advice = (
            f"{library.name} knows no such architecture: update it, or use 'gguf:' or 'hf:', which "
            "go by transformers"
        )
    else:
        advice = f"fetch or convert it again, update {library.name}, or use 'gguf:'"
    return FollowerError(f"llama.cpp cannot load {path!r}{library.complaint()}; {advice}")
