"""Services: what programs may ask of the host beside the follower.

A service is an object of the user's that lives in the host process: a potential, a reward model,
a judge, a Python function. A program knows it by the name that the run gave it, and only JSON
data cross to it and back. It is either

- a function of one payload, plain or a coroutine function, or
- an object with a method ``batch(payloads)``, plain or a coroutine, that returns one reply for each
  payload; where a reply is an exception, that call alone fails. Whatever waits together is one
  batch. :class:`Service` is a base class for it, with a default for all that follows.

A service may also have the attributes ``timeout`` (seconds for a batch, 60), ``remembered``
(replies kept, 4096; 0 for a service that must be asked each time) and ``purpose`` (a sentence for
planners; the docstring's first paragraph where it is missing), and the methods
``rehearse(payload)``, whose reply stands in for the real one in a dry run, and ``bind(follower)``,
which returns the service to use with this follower. Plain functions and ``batch`` methods run in a
thread of their own.

``self.weigh`` of a program calls a service with ``{"text", "tokens", "ended", "about"}`` and takes
a natural log weight; :class:`Score` and its kin are made for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base import Service
from .batching import LONGEST, Served, Services
from .score import Score, Scored, Scorer, Steps

if TYPE_CHECKING:
    from .judge import Judge as Judge
    from .load import from_python as from_python
    from .reward import Reward as Reward

__all__ = [
    "LONGEST",
    "Judge",
    "Reward",
    "Score",
    "Scored",
    "Scorer",
    "Served",
    "Service",
    "Services",
    "Steps",
    "from_python",
]
# Loaded when they are first used: this package is imported inside the sandbox, too.
_LATE = {"Judge": "judge", "Reward": "reward", "from_python": "load"}


def __getattr__(name: str) -> Any:
    """Load a name on first use."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LATE[name]}", __name__), name)
