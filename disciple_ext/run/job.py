"""A run as plain data, for the way to a worker: the job, and the sampler that does it."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import Any, cast

from ..errors import UsageError
from ..records.task import Limits
from ..samplers.base import Sampler

__all__ = ["Job", "describe_sampler", "make_sampler"]


@dataclass(frozen=True)
class Job:
    """A run as plain data, as a worker gets it.

    Attributes:
        source: the program.
        instruction: the task in words, the prompt where a program has none.
        n: particles.
        limits: limits of the run.
        seed: seed of every draw.
        deadline: ``time.monotonic()`` at which the run must be over.
    """

    source: str
    instruction: str
    n: int
    limits: Limits
    seed: int
    deadline: float

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Job:
        """A job from what :meth:`to_dict` gave (further entries are ignored)."""
        # The same frame also carries the sampler and how events are sent, which are no part of it.
        fields = {name: data[name] for name in cls.__dataclass_fields__}
        return cls(**{**fields, "limits": Limits(**data["limits"])})

    def to_dict(self) -> dict[str, Any]:
        """The job as JSON-safe data."""
        return asdict(self)


def describe_sampler(sampler: Sampler) -> dict[str, Any]:
    """Where a sampler's class is and what the sampler holds.

    Raises:
        UsageError: the class cannot be imported by name, or the attributes are no plain data.
    """
    kind = type(sampler)
    spec = getattr(sys.modules.get(kind.__module__), "__spec__", None)
    # The worker is no fork of this process: it can only import, and `__main__` is another there.
    if kind.__module__ == "__main__" or "<" in kind.__qualname__ or spec is None:
        raise UsageError(
            f"the sampler class {kind.__qualname__!r} cannot be found from the sandbox: put it "
            "into a module that can be imported, or run with sandbox='none'"
        )
    state = dict(getattr(sampler, "__dict__", {}))
    for name, value in state.items():
        if not _plain(value):
            raise UsageError(
                f"the sampler's attribute {name!r} is no plain data (numbers, texts, lists), so it "
                "cannot be sent to the sandbox; make it from plain data, or run with sandbox='none'"
            )
    return {"module": kind.__module__, "name": kind.__qualname__, "state": state}


def make_sampler(description: dict[str, Any]) -> Sampler:
    """The sampler that :func:`describe_sampler` described."""
    # Not an import: the zygote has imported it, and a locked worker can open no file.
    found: Any = sys.modules[description["module"]]
    for part in description["name"].split("."):
        found = getattr(found, part)
    # Without `__init__`, whose arguments are not known; the attributes are all there is to it.
    sampler = found.__new__(found)
    vars(sampler).update(description["state"])
    return cast(Sampler, sampler)


def _plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_plain, value))
    if isinstance(value, dict):
        return all(isinstance(k, str) and _plain(v) for k, v in value.items())
    # Exact types: a subclass, such as numpy's float64, would not be the same after JSON.
    return value is None or type(value) in (bool, int, float, str)
