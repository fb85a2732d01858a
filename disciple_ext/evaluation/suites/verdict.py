"""What a ground-truth verifier says of a text."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Verdict"]


@dataclass(frozen=True)
class Verdict:
    """The judgement of one text.

    Attributes:
        passed: whether the text meets the task.
        reason: the first demand that it does not meet; empty if it passed.
    """

    passed: bool
    reason: str = ""

    def __bool__(self) -> bool:
        """Give `passed`, so that a verdict can be used as a condition."""
        return self.passed
