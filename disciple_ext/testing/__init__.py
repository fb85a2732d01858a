"""For tests of programs, samplers and followers: toy models whose posteriors are known exactly.

    follower = ToyFollower.random(1, tokens=["a", "b", " a"])
    exact = exact_posterior(SOURCE, follower)     # every execution of the program, enumerated
    check_sampler(MySampler())                    # AssertionError: what it gets wrong, and where

The toys are ordinary followers (the real batching and drawing code over a small table), so what
is tested with them is what runs. :func:`prior_masses` does not go through that code at all.
"""

from __future__ import annotations

from .conformance import check_sampler
from .exact import ExactPosterior, Execution, exact_posterior, prior_masses
from .planner import ReplayPlanner
from .sampling import arun_sampler, check_properly_weighted, run_sampler
from .subject import ConformanceError, Report
from .toy import ScriptedFollower, ToyFollower

__all__ = [
    "ConformanceError",
    "ExactPosterior",
    "Execution",
    "ReplayPlanner",
    "Report",
    "ScriptedFollower",
    "ToyFollower",
    "arun_sampler",
    "check_properly_weighted",
    "check_sampler",
    "exact_posterior",
    "prior_masses",
    "run_sampler",
]
