"""The same LLaMPPL model, unchanged, on LLaMPPL's own engine and on ours. Takes some seconds.

Run it with: python examples/llamppl_faster.py
"""

import asyncio
import runpy
import time
from pathlib import Path

import numpy as np
from llamppl import CachedCausalLM, LMContext, smc_standard

from disciple_ext import FollowerContext, FollowerLM
from disciple_ext.follower.hf import EMBEDDED

MODEL = Path(__file__).parent / "llamppl" / "five_letters.py"
N = 32


def timed(lm, context):
    """Seconds of a run, and its particle of most weight."""
    module = runpy.run_path(str(MODEL))
    FiveLetters = module["FiveLetters"]
    FiveLetters.__init__.__globals__["LMContext"] = context  # what a changed import does
    np.random.seed(1)
    begun = time.perf_counter()
    particles = asyncio.run(smc_standard(FiveLetters(lm, "The old man by the sea", 16), N))
    return time.perf_counter() - begun, max(particles, key=lambda p: p.weight)


def main():
    """Run it three times, each after a run that only warms up."""
    ours = FollowerLM.from_pretrained("embedded")
    stock = CachedCausalLM.from_pretrained(str(EMBEDDED), backend="hf")
    seconds = {}
    for name, lm, context in (
        ("LLaMPPL", stock, LMContext),
        ("our lm", ours, LMContext),
        ("our lm and context", ours, FollowerContext),
    ):
        timed(lm, context)
        seconds[name], best = timed(lm, context)
        factor = seconds["LLaMPPL"] / seconds[name]
        print(f"{name:20} {seconds[name]:6.2f} s  {factor:5.1f} times  {best}")


if __name__ == "__main__":
    main()
