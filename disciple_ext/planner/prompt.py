"""What is said to a planner that is a chat model."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from ..task import Task
from .base import Feedback

__all__ = ["messages"]


def messages(task: Task, feedback: Sequence[Feedback]) -> list[dict[str, str]]:
    """The conversation: the tutorial, the task, then each failed attempt and what went wrong."""
    tutorial = files(__package__).joinpath("tutorial.md").read_text(encoding="utf-8")
    asked = task.instruction
    conversation: list[dict[str, str]] = [
        {"role": "system", "content": tutorial},
        {"role": "user", "content": f"Write the inference program for this task:\n\n{asked}"},
    ]
    for failed in feedback:
        source = failed.program.source.rstrip()
        conversation.append({"role": "assistant", "content": f"```python\n{source}\n```"})
        conversation.append({"role": "user", "content": _complaint(failed)})
    return conversation


def _complaint(failed: Feedback) -> str:
    """What the planner is told of one failed attempt."""
    lines = failed.program.source.rstrip().split("\n")
    numbered = "\n".join(f"{number:4}  {line}" for number, line in enumerate(lines, 1))
    parts = [
        f"Attempt {failed.attempt} failed: {failed.error}",
        f"The program with line numbers:\n\n{numbered}",
    ]
    if failed.traceback:
        # The end of a traceback says what happened; a program chose its length.
        parts.append(f"Traceback:\n\n{failed.traceback[-4000:]}")
    parts.append("Find the cause, then write the whole corrected program in one Python code block.")
    return "\n\n".join(parts)
