"""The part of llama.h that we call, for a library that comes without bindings.

Structs cross by value, so a library that has another field in one reads all behind it wrongly.
llama.cpp adds such fields a few times a year; :func:`bind` compares what the library says are its
defaults with those that this layout has, and refuses where they differ.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int8, c_int32, c_size_t, c_uint32
from ctypes import c_void_p as pointer
from types import SimpleNamespace
from typing import Any

__all__ = ["LAYOUT", "bind"]

LAYOUT = "llama.cpp b11549"
_SPARE = 512
"""Bytes behind a struct: a library whose struct is longer writes there before it is refused."""


class ModelParameters(ctypes.Structure):
    """``llama_model_params``."""

    _fields_ = [
        ("devices", pointer),
        ("tensor_buft_overrides", pointer),
        ("n_gpu_layers", c_int32),
        ("split_mode", c_int),
        ("load_mode", c_int),
        ("lazy_mode", c_int),
        ("main_gpu", c_int32),
        ("tensor_split", pointer),
        ("progress_callback", pointer),
        ("progress_callback_user_data", pointer),
        ("kv_overrides", pointer),
        ("vocab_only", c_bool),
        ("check_tensors", c_bool),
        ("use_extra_bufts", c_bool),
        ("no_host", c_bool),
        ("no_alloc", c_bool),
        ("load_mtp", c_bool),
        ("spare", c_int8 * _SPARE),
    ]


class ContextParameters(ctypes.Structure):
    """``llama_context_params``."""

    _fields_ = [
        ("n_ctx", c_uint32),
        ("n_batch", c_uint32),
        ("n_ubatch", c_uint32),
        ("n_seq_max", c_uint32),
        ("n_rs_seq", c_uint32),
        ("n_outputs_max", c_uint32),
        ("n_outputs_max_per_seq", c_uint32),
        ("n_threads", c_int32),
        ("n_threads_batch", c_int32),
        ("ctx_type", c_int),
        ("rope_scaling_type", c_int),
        ("pooling_type", c_int),
        ("attention_type", c_int),
        ("flash_attn_type", c_int),
        ("rope_freq_base", c_float),
        ("rope_freq_scale", c_float),
        ("yarn_ext_factor", c_float),
        ("yarn_attn_factor", c_float),
        ("yarn_beta_fast", c_float),
        ("yarn_beta_slow", c_float),
        ("yarn_orig_ctx", c_uint32),
        ("defrag_thold", c_float),
        ("cb_eval", pointer),
        ("cb_eval_user_data", pointer),
        ("type_k", c_int),
        ("type_v", c_int),
        ("abort_callback", pointer),
        ("abort_callback_data", pointer),
        ("added", c_size_t),  # in this version, and not in llama-cpp-python 0.3.36's; left at zero
        ("embeddings", c_bool),
        ("offload_kqv", c_bool),
        ("no_perf", c_bool),
        ("op_offload", c_bool),
        ("swa_full", c_bool),
        ("kv_unified", c_bool),
        ("samplers", pointer),
        ("n_samplers", c_size_t),
        ("ctx_other", pointer),
        ("spare", c_int8 * _SPARE),
    ]


class Batch(ctypes.Structure):
    """``llama_batch``."""

    _fields_ = [
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", POINTER(c_float)),
        ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)),
        ("seq_id", POINTER(POINTER(c_int32))),
        ("logits", POINTER(c_int8)),
    ]


_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    # The result, then the arguments.
    "llama_backend_init": (None,),
    "llama_batch_free": (None, Batch),
    "llama_batch_init": (Batch, c_int32, c_int32, c_int32),
    "llama_context_default_params": (ContextParameters,),
    "llama_decode": (c_int32, pointer, Batch),
    "llama_free": (None, pointer),
    "llama_get_logits_ith": (POINTER(c_float), pointer, c_int32),
    "llama_get_memory": (pointer, pointer),
    "llama_init_from_model": (pointer, pointer, ContextParameters),
    "llama_memory_clear": (None, pointer, c_bool),
    "llama_memory_seq_cp": (None, pointer, c_int32, c_int32, c_int32, c_int32),
    "llama_memory_seq_rm": (c_bool, pointer, c_int32, c_int32, c_int32),
    "llama_model_default_params": (ModelParameters,),
    "llama_model_free": (None, pointer),
    "llama_model_get_vocab": (pointer, pointer),
    "llama_model_load_from_file": (pointer, c_char_p, ModelParameters),
    "llama_vocab_n_tokens": (c_int32, pointer),
}
# Values that are unlikely in any other place.
_MODEL: dict[str, Any] = {
    "n_gpu_layers": -1,
    "split_mode": 1,
    "load_mode": -1,
    "lazy_mode": 1,
    "main_gpu": 0,
}
_MODEL |= {"vocab_only": False, "check_tensors": False, "use_extra_bufts": True}
_CONTEXT: dict[str, Any] = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_rs_seq": 0,
}
_CONTEXT |= {"n_outputs_max": 0, "n_outputs_max_per_seq": 1, "ctx_type": 0, "pooling_type": -1}
_CONTEXT |= {"rope_scaling_type": -1, "attention_type": -1, "flash_attn_type": -1}
_CONTEXT |= {"yarn_ext_factor": -1.0, "yarn_beta_slow": -1.0, "defrag_thold": -1.0}
_CONTEXT |= {"type_k": 1, "type_v": 1, "abort_callback": None, "added": 0, "embeddings": False}
_CONTEXT |= {"offload_kqv": True, "no_perf": True, "op_offload": True, "swa_full": True}
_CONTEXT |= {"kv_unified": False, "n_samplers": 0, "samplers": None, "ctx_other": None}


def bind(library: ctypes.CDLL) -> Any:
    """The functions of a library, with their types, as attributes; ``_lib`` is the library.

    Raises:
        AttributeError: it lacks one of them.
        ValueError: its structs are not of this layout.
    """
    c = SimpleNamespace(_lib=library)
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
        setattr(c, name, function)
    for made, wanted in (
        (c.llama_model_default_params(), _MODEL),
        (c.llama_context_default_params(), _CONTEXT),
    ):
        other = {
            name: getattr(made, name) for name in wanted if getattr(made, name) != wanted[name]
        }
        if other:
            raise ValueError(f"its {type(made).__name__} are not those of {LAYOUT}: {other}")
    return c
