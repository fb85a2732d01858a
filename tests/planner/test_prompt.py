"""What the planner is told."""

from __future__ import annotations

from disciple_ext.planner.base import Feedback
from disciple_ext.planner.prompt import messages
from disciple_ext.program import Program
from disciple_ext.task import Task

CODE = "class InferenceModel(BaseModel):\n    async def step(self):\n        await self.end()\n"
TASK = Task("Write a sentence with exactly 12 words.")


def test_failed_attempts_are_told() -> None:
    failed = Feedback(Program(CODE), "NameError: nope", "line 3, in step\n    nope", attempt=1)
    told = messages(TASK, [failed])
    assert [m["role"] for m in told] == ["system", "user", "assistant", "user"]
    assert CODE.strip() in told[2]["content"]
    complaint = told[3]["content"]
    assert "Attempt 1 failed: NameError: nope" in complaint
    assert "   3          await self.end()" in complaint
    assert "line 3, in step" in complaint


def test_a_long_traceback_keeps_its_end() -> None:
    failed = Feedback(Program(CODE), "deep", "x" * 100_000 + "the end", attempt=1)
    complaint = messages(TASK, [failed])[-1]["content"]
    assert len(complaint) < 6000
    assert "the end" in complaint
