"""What the static check finds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """One likely mistake.

    Attributes:
        line: line of the program (1-based); 1 for what concerns the whole file.
        message: what is wrong.
        suggestion: what to write instead.
        fatal: True where the program cannot work as written; False for a warning.
    """

    line: int
    message: str
    suggestion: str
    fatal: bool = True

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}; {self.suggestion}"
