"""An inference program as text, with where it came from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Program"]


@dataclass(frozen=True)
class Program:
    """The source of an inference program.

    Attributes:
        source: Python source that defines ``class InferenceModel(BaseModel)``.
        planner: name of what wrote it, such as ``"expert"`` or ``"openai:gpt-4o"``.
        trusted: True only for programs that ship with the package (our own templates, task
            words rendered through ``repr``); a planner must never set it for a model's answer.
    """

    source: str
    planner: str = "user"
    trusted: bool = False

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the source, in hexadecimal."""
        return hashlib.sha256(self.source.encode()).hexdigest()
