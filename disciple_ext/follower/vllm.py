"""Followers that vLLM computes, in one of two ways.

``vllm:`` is genlm-backend's own capture path: the log-probabilities stay on the GPU. It needs
vLLM's V2 model runner, and so Triton for the device: a CUDA device, or a CPU for which Triton has
a backend.

``vllm-logprobs:`` uses nothing but vLLM's public API, ``LLM.generate`` with ``logprobs=-1``. It
works wherever vLLM runs, CPUs included, but every row of log-probabilities travels through lists
of Python numbers, so it is the slower one by far. Neither uses vLLM's logits processors.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import torch

from ..errors import FollowerError
from ..protocol.prefix import Prefix
from ..protocol.requests import Tokens
from .backend import Backend
from .chat_template import ChatPrompt
from .genlm import from_async_lm, of_engine, score_by_prefixes
from .hf import source_of, vocabulary_of
from .host import HostFollower

__all__ = ["LogprobsBackend", "from_capture", "from_logprobs"]

_ENTRIES = 2**22
"""Log-probabilities asked of vLLM at a time: as Python numbers they take some 80 bytes each."""

_CPU_CACHE = 2 * 2**30
"""Bytes of the key-value cache on a CPU, where vLLM would take nearly all memory."""


def from_capture(path: str, **engine: Any) -> HostFollower:
    """Load a model into vLLM through genlm-backend, on a GPU, or a CPU that Triton compiles for.

    Args:
        path: a directory, or the id of a model on the Hugging Face Hub (see
            :func:`~disciple_ext.follower.hf.from_pretrained`).
        **engine: options of ``vllm.LLM`` that replace those chosen here and by genlm-backend.

    Raises:
        FollowerError: there is no such model, no usable vLLM, GPU or Triton, or too little memory.
    """
    source = source_of(path)
    _need_vllm()
    instead = "use 'hf:' or 'vllm-logprobs:' in place of 'vllm:'"
    if not _triton_compiles():
        lacking = "Triton" if torch.cuda.is_available() else "CUDA device that torch can use"
        raise FollowerError(
            f"'vllm:' needs an NVIDIA GPU, torch built for CUDA, and Triton; there is no {lacking} "
            f"here (torch {torch.__version__}). Without them {instead}"
        )
    with _loading(path):
        from genlm.backend.llm import vllm as genlm
    if not genlm.HAS_VLLM:
        raise FollowerError(
            f"genlm-backend {metadata.version('genlm-backend')} cannot use the vLLM that is "
            f"installed; it needs {_supported()}: pip install 'disciple-ext[vllm]' in an "
            f"environment of its own, or {instead}"
        )
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"  # from_logprobs may have taken it away
    with _loading(path):
        chosen = {} if torch.cuda.is_available() else _for_cpus()
        options = {"max_model_len": -1, **chosen, **engine}  # -1: as long as memory allows
        lm = genlm.AsyncVirtualLM.from_name(source, engine_opts=options)
    return from_async_lm(lm, name=f"vllm:{path}")


def from_logprobs(path: str, **engine: Any) -> HostFollower:
    """Load a model into vLLM, on whatever device it runs on, and ask it for all log-probabilities.

    Args:
        path: a directory, or the id of a model on the Hugging Face Hub (see
            :func:`~disciple_ext.follower.hf.from_pretrained`).
        **engine: options of ``vllm.LLM`` that replace those chosen here. On a CPU these are
            float32, no compilation, and a key-value cache of 2 GiB.

    Raises:
        FollowerError: there is no such model, no vLLM, or too little memory.
    """
    source = source_of(path)
    _need_vllm()
    from transformers import AutoTokenizer

    # One thread loads the engine and makes every call: it runs in this process, and is not safe
    # to enter twice.
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vllm")
    with _loading(path):
        tokenizer = AutoTokenizer.from_pretrained(source)
        llm = thread.submit(_engine, source, engine).result()
    model, max_context = of_engine(llm)
    vocabulary = vocabulary_of(tokenizer, model)
    backend = LogprobsBackend(llm, thread, size=vocabulary.size, max_context=max_context)
    name = f"vllm-logprobs:{path}"
    return HostFollower(backend, vocabulary, ChatPrompt(tokenizer), name=name)


class LogprobsBackend(Backend):
    """Log-probabilities from vLLM's public API: one token a request, ``logprobs=-1``.

    vLLM's prefix cache holds what contexts share.

    Attributes:
        llm: the ``vllm.LLM``.
        max_context: tokens that a context may have.
        forwards: batches asked for so far.
    """

    def __init__(
        self, llm: Any, thread: ThreadPoolExecutor, *, size: int, max_context: int
    ) -> None:
        from vllm import SamplingParams

        self.llm = llm
        self.max_context: int | None = max_context
        self.forwards = 0
        self._size = size
        self._thread = thread
        # The token that vLLM picks is of no interest: the draw is made on our side.
        self._sampling = SamplingParams(
            max_tokens=1,
            temperature=0.0,
            logprobs=-1,
            flat_logprobs=True,
            detokenize=False,
            ignore_eos=True,
        )

    async def logits(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        """Next-token log-probabilities, float32, shape (contexts, vocabulary)."""
        self.forwards += 1
        prompts = [{"prompt_token_ids": list(c.tokens)} for c in contexts]
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._rows, prompts)

    async def score(self, pairs: Sequence[tuple[Prefix, Tokens]]) -> list[torch.Tensor]:
        """Log-probabilities before each token of (context, tokens) pairs."""
        # vLLM's prompt_logprobs would send a row for every token of the context, too, and would
        # not use the prefix cache.
        return await score_by_prefixes(self, pairs)

    def _rows(self, prompts: list[dict[str, list[int]]]) -> torch.Tensor:
        # What vLLM leaves out stays NaN and is found below; it gives tokens in any order.
        rows = torch.full((len(prompts), self._size), float("nan"))
        step = max(1, _ENTRIES // self._size)
        for start in range(0, len(prompts), step):
            some = prompts[start : start + step]
            answers = self.llm.generate(some, self._sampling, use_tqdm=False)
            for row, answer in zip(rows[start:], answers, strict=False):
                found = answer.outputs[0].logprobs
                row[torch.tensor(found.token_ids)] = torch.tensor(found.logprobs)
        if bool(torch.isnan(rows).any()):
            raise FollowerError("vLLM did not give the log-probability of every token")
        return rows


def _engine(source: str, options: dict[str, Any]) -> Any:
    """Load a ``vllm.LLM`` in this process."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM

    # genlm-backend, when it is imported, asks for the runner that only works with Triton; vLLM
    # itself knows which one to take.
    os.environ.pop("VLLM_USE_V2_MODEL_RUNNER", None)
    chosen: dict[str, Any] = {
        "max_logprobs": -1,
        # The model's own: what vLLM would make of them for its draw is not asked for.
        "logprobs_mode": "raw_logprobs",
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "max_model_len": -1,  # as long as memory allows
    }
    return LLM(model=source, tokenizer=source, **{**chosen, **_for_cpus(), **options})


def _for_cpus() -> dict[str, Any]:
    """What is chosen where vLLM runs on a CPU, else nothing."""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return {}
    _hide_llvmlite()
    return {
        "dtype": "float32",
        "enforce_eager": True,
        "kv_cache_memory_bytes": _CPU_CACHE,
        "block_size": 32,  # what is shared is shared in whole blocks; 128 is vLLM's choice
    }


def _hide_llvmlite() -> None:
    """Let vLLM look at every object of every module, as it does where it replaces kernels.

    llvmlite (numba's, which genlm-backend imports) has one that claims any attribute, even
    ``__dict__``, and vLLM 0.32 fails on it.
    """
    ffi = sys.modules.get("llvmlite.binding.ffi")
    kind: Any = type(getattr(ffi, "lib", None))
    if not hasattr(kind, "__getattr__") or hasattr(kind, "disciple_ext"):
        return
    answer = kind.__getattr__

    def attribute(self: Any, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return answer(self, name)

    kind.__getattr__ = attribute
    kind.disciple_ext = True


@contextmanager
def _loading(path: str) -> Iterator[None]:
    """Keep vLLM quiet, and turn what it raises into an error that says what to do."""
    # Answers go to stdout, so nothing else may. vLLM would also send statistics of its use.
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    level = os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR").upper()
    logger = logging.getLogger("vllm")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # It imports vLLM, and wants to be the first to do so.
            import genlm.backend  # noqa: F401

            # One that was dropped ends now: later it would take the groups of the new one along.
            gc.collect()
            logger.setLevel(level)
            for handler in logger.handlers:  # vLLM may have been imported before
                if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
                    handler.setStream(sys.stderr)
            yield
    except Exception as error:  # vLLM, torch, transformers and the hub raise many kinds
        reason = f"{type(error).__name__}: {_first_line(error)}"
        if _is_about_memory(error):
            raise FollowerError(
                f"there is too little memory for the model {path!r} in vLLM: {reason}. Free "
                "memory, take a smaller model, or load it with smaller limits "
                "(docs/how-to/vllm.md says how)"
            ) from error
        raise FollowerError(f"vLLM cannot load the model {path!r}: {reason}") from error


def _is_about_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError | torch.OutOfMemoryError):
            return True
        if re.search(r"\bmemory\b", str(error), re.IGNORECASE):
            return True
        error = error.__cause__
    return False


def _triton_compiles() -> bool:
    """Whether Triton can compile the V2 model runner's kernels for a device that is here."""
    if find_spec("triton") is None:
        return False
    if torch.cuda.is_available():
        return True
    from triton.backends import backends  # of triton-cpu; the usual build has none for CPUs

    return "cpu" in backends


def _need_vllm() -> None:
    if find_spec("vllm") is None:
        raise FollowerError(
            "vLLM is not installed. On a machine with an NVIDIA GPU: pip install "
            "'disciple-ext[vllm]', in an environment of its own. Without one use 'hf:', or see "
            "docs/how-to/vllm.md for vLLM on a CPU"
        )


def _supported() -> str:
    """The vLLM that the installed genlm-backend asks for, such as ``vllm>=0.26.0,<0.27.0``."""
    needs = (need.partition(";")[0].strip() for need in metadata.requires("genlm-backend") or ())
    return next((need for need in needs if re.match(r"vllm\b", need)), "another version")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]
