"""What is asked for, and what it may cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..errors import UsageError

__all__ = ["Limits", "Task", "Verifier"]

Verifier = Callable[[str], bool] | Sequence[str]
"""A Python callable on the answer's text, or a command (argv) that reads the text on standard
input and passes by exiting with 0. It runs in the host process, never in the sandbox."""


@dataclass(frozen=True)
class Limits:
    """Limits of one run of one program.

    Attributes:
        timeout: wall-clock seconds for one run (the paper: 120, 240, 360).
        max_steps: calls of ``step`` for each particle; T = 1000 in the paper's Algorithm 2.
        max_tokens: tokens of text for each particle, or None for what the program says.
        cpu: CPU seconds of the worker, or None for what the timeout allows.
        memory: mebibytes that the worker may use beyond what it starts with.
        lm_tokens: what the run may ask of the follower in all: each request counts as one, and
            each token of a forced text.
        output: mebibytes that the worker may send to the host in all.

    The last four hold where the program runs in a worker, at every sandbox level but ``none``.
    """

    timeout: float = 120.0
    max_steps: int = 1000
    max_tokens: int | None = None
    cpu: float | None = None
    memory: int = 512
    lm_tokens: int = 1_000_000
    output: int = 64

    def __post_init__(self) -> None:
        # Not `<= 0`, which NaN would pass.
        if not self.timeout > 0:
            raise UsageError(f"the timeout must be above 0 seconds, not {self.timeout:g}")
        if self.max_steps < 1:
            raise UsageError(f"max_steps must be at least 1, not {self.max_steps}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"max_tokens must be at least 1, not {self.max_tokens}")
        if self.cpu is not None and not self.cpu > 0:
            raise UsageError(f"the CPU time must be above 0 seconds, not {self.cpu:g}")
        for name in ("memory", "lm_tokens", "output"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True)
class Task:
    """A task in plain language, with the budget that it may use.

    Attributes:
        instruction: what to write, in plain language.
        n: particles (the paper's inference budget N).
        limits: limits of one run.
        verify: the user's own verifier; its verdict is reported apart, as ``verified``.
        family: name of the kind of task where it is known, such as ``sent_01``: an evaluation
            keeps examples and programs of the same family from the planner.
    """

    instruction: str
    n: int = 32
    limits: Limits = field(default_factory=Limits)
    verify: Verifier | None = None
    family: str | None = None

    def __post_init__(self) -> None:
        if not self.instruction.strip():
            raise UsageError(
                "the task is empty; say what to write, for example "
                "'Please generate a sentence with exactly 82 characters.'"
            )
        if self.n < 1:
            raise UsageError(f"the number of particles must be at least 1, not {self.n}")
