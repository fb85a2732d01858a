"""How a model is computed on this machine's CPU: in which dtype, with how many threads.

Both are measured on linear layers of the model's shapes, before the model is loaded, and
remembered by machine: rounding depends on the dtype, so the same seed should find the same one
tomorrow. The number of threads changes no number that we know of (``tests/follower`` holds that).

A processor without bfloat16 units emulates them, and loses. int8 is no candidate: with activations
in int8, one scale a row, it is a quarter quicker than bfloat16 here, and SmolLM2's distributions
move by 0.07 nats a token (bfloat16: 0.002); torch's products of int8 weights with wider
activations are slower than bfloat16 from a dozen rows on.
"""

from __future__ import annotations

import json
import platform
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...errors import UsageError
from ...folders import cache_directory, write_whole

__all__ = ["Times", "Tuning", "processor", "remembered_choices", "remembered_times", "tuned"]

_SMALL = 50_000_000
"""Parameters below which nothing is measured: float32 on one thread. So small a model gains nothing
from a second thread, and its texts should be the same on every machine."""

_ROWS = 32
"""Rows of the products: the particles of a sentence."""
_SECONDS = 0.5
"""How long to measure each way, after which two passes have to do."""
_REPEATS = 5
_WEIGHTS = 2**25
"""Elements of the layers' weights: as float32 128 MiB, more than caches hold."""
_HEAD = 2**24
"""Elements of the head's weights at most."""
_DTYPE_GAIN = 1.2
"""What bfloat16 must win by, as it rounds more."""
_THREADS_GAIN = 1.5
"""What all threads must win by, as others want the cores, too."""
_DTYPES = ("float32", "bfloat16")
_FILE = "tuning.json"


Times = dict[tuple[str, int], float]
"""Milliseconds of a pass's linear layers, by dtype and number of threads."""


@dataclass(frozen=True)
class Tuning:
    """How a model is computed on the CPU.

    Attributes:
        dtype: name of the torch dtype of weights and activations.
        threads: CPU threads.
    """

    dtype: str
    threads: int


def tuned(config: Any, *, dtype: str | None = None, threads: int | None = None) -> Tuning:
    """The dtype and the threads for a model on the CPU.

    Args:
        config: the model's configuration, as transformers has it.
        dtype: the dtype, if it is settled.
        threads: the threads, if they are.

    Raises:
        UsageError: there cannot be so many threads.
    """
    if threads is not None and not (isinstance(threads, int) and threads > 0):
        raise UsageError(f"the number of threads must be 1 or more, not {threads!r}")
    if dtype is not None and threads is not None:
        return Tuning(dtype, threads)
    shape = _Shape.of(config)
    if shape is None or shape.parameters < _SMALL:
        return Tuning(dtype or "float32", threads or 1)
    return _chosen(_times(shape, torch.get_num_threads()), dtype, threads)


def _chosen(times: Times, dtype: str | None = None, threads: int | None = None) -> Tuning:
    if dtype is None:
        wins = times["float32", 1] > _DTYPE_GAIN * times["bfloat16", 1]
        dtype = "bfloat16" if wins else "float32"
    if threads is None:
        most = max(count for _, count in times)
        like = dtype if (dtype, 1) in times else "float32"
        threads = most if times[like, 1] > _THREADS_GAIN * times[like, most] else 1
    return Tuning(dtype, threads)


@dataclass(frozen=True)
class _Shape:
    """The sizes of a model that its linear layers follow from."""

    layers: int
    width: int
    inner: int
    vocabulary: int

    @classmethod
    def of(cls, config: Any) -> _Shape | None:
        text = config.get_text_config()
        width = getattr(text, "hidden_size", None)
        layers = getattr(text, "num_hidden_layers", None)
        if not isinstance(width, int) or not isinstance(layers, int):
            return None
        inner = getattr(text, "intermediate_size", None)
        return cls(layers, width, inner if isinstance(inner, int) else 4 * width, text.vocab_size)

    def __str__(self) -> str:
        return f"{self.layers} layers of {self.width} and {self.inner}, {self.vocabulary} tokens"

    @property
    def layer(self) -> int:
        """Weights of a layer: four projections of the attention, three of the MLP."""
        return 4 * self.width**2 + 3 * self.width * self.inner

    @property
    def parameters(self) -> int:
        return self.layers * self.layer + self.width * self.vocabulary


_found: dict[str, Times] = {}
"""What this process has measured, or has read: where nothing can be remembered, once is enough."""


def _times(shape: _Shape, most: int) -> Times:
    key = f"{processor()}, {most} threads, torch {torch.__version__}, {shape}"
    if key not in _found:
        known = remembered_times().get(key)
        if known is None:
            known, calm = _measured(shape, most)
            if calm:  # else all that was found is that others are at work
                _remember(key, known)
        _found[key] = known
    return _found[key]


def _measured(shape: _Shape, most: int) -> tuple[Times, bool]:
    """The times, and whether the machine was calm enough to trust them for good."""
    times: Times = {}
    calm = True
    for name in _DTYPES:
        forward = _Forward(shape, getattr(torch, name))
        for count in {1, most}:
            times[name, count], quiet = forward.milliseconds(count)
            calm = calm and quiet
        del forward  # the weights of two dtypes at once would be more than the model takes
    return times, calm


class _Forward:
    """The linear layers of a forward pass, with weights that mean nothing."""

    def __init__(self, shape: _Shape, dtype: torch.dtype) -> None:
        made = min(shape.layers, max(1, _WEIGHTS // shape.layer))
        self._share = shape.layers / made  # of the layers that there are, these were made
        wide, inner = shape.width, shape.inner
        sizes = [(wide, wide)] * 4 + [(wide, inner)] * 2 + [(inner, wide)]
        # Small equal numbers: zeros might be quicker, and tiny ones slower.
        self._layers = [
            torch.full((b, a), 0.01, dtype=dtype) for _ in range(made) for a, b in sizes
        ]
        rows = min(shape.vocabulary, max(1, _HEAD // wide))
        self._heads = shape.vocabulary / rows
        self._head = torch.full((rows, wide), 0.01, dtype=dtype)
        self._inputs = {a: torch.full((_ROWS, a), 0.01, dtype=dtype) for a in (wide, inner)}

    def milliseconds(self, threads: int) -> tuple[float, bool]:
        """The shortest time of some, and whether it had its cores for itself."""
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            with torch.inference_mode():
                self._pass()  # the first one prepares what the others use
                timed, end = [self._pass(), self._pass()], time.perf_counter() + _SECONDS
                while len(timed) < _REPEATS and time.perf_counter() < end:
                    timed.append(self._pass())
        finally:
            torch.set_num_threads(before)
        wall, computing = min(timed)
        # Threads that wait do not compute, so that some less than the whole is calm, too.
        return wall * 1e3, computing > 0.6 * threads * wall

    def _pass(self) -> tuple[float, float]:
        begun = _now()
        for weights in self._layers:
            torch.nn.functional.linear(self._inputs[weights.shape[1]], weights)
        between = _now()
        torch.nn.functional.linear(self._inputs[self._head.shape[1]], self._head)
        end = _now()
        wall, computing = (
            self._share * (b - a) + self._heads * (c - b)
            for a, b, c in zip(begun, between, end, strict=True)
        )
        return wall, computing


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def processor() -> str:
    """What the system calls this processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


# What was found before ------------------------------------------------------------------------


def remembered_times() -> dict[str, Times]:
    """What was measured on this machine, by a description of machine and model."""
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        data = json.loads((cache_directory() / _FILE).read_text(encoding="utf-8"))
        return {
            key: {
                (name, int(count)): float(ms)
                for name in _DTYPES
                for count, ms in times[name].items()
            }
            for key, times in data.items()
        }
    return {}  # the file is anybody's to edit


def remembered_choices() -> dict[str, Tuning]:
    """What follows from these times, where the user says nothing."""
    return {key: _chosen(times) for key, times in remembered_times().items()}


def _remember(key: str, times: Times) -> None:
    # A folder that cannot be written is no reason to fail: it is measured again next time.
    with suppress(OSError):
        data: dict[str, dict[str, dict[str, float]]] = {}
        for known, found in {**remembered_times(), key: times}.items():
            for (name, count), ms in found.items():
                data.setdefault(known, {}).setdefault(name, {})[str(count)] = round(ms, 2)
        text = json.dumps(data, indent=1, sort_keys=True) + "\n"
        write_whole(cache_directory() / _FILE, text)
