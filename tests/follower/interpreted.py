"""Lets vLLM's V2 model runner run on a CPU: a pytest plugin, under ``TRITON_INTERPRET=1``.

The runner's kernels are Triton's, whose usual build compiles for GPUs only, but can interpret
kernels on a CPU. vLLM asks Triton for a CPU's backend, so it is shown one; nothing is compiled by
it. A plugin (``-p tests.follower.interpreted``), because vLLM asks when it is imported.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

from triton.backends import backends

assert os.environ.get("TRITON_INTERPRET") == "1", "set TRITON_INTERPRET=1"
backends.setdefault("cpu", SimpleNamespace(driver=SimpleNamespace(is_active=lambda: True)))
