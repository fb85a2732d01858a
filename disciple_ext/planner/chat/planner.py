"""A planner that asks a chat model: messages, an answer, the program in it."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import PlannerError
from ...records.program import Program
from ...records.result import Usage
from ...records.task import Task
from ...text.shorten import one_line
from ..base import Feedback, Plan, Planner
from ..library.store import Library
from .base import Answer, Chat
from .extract import extract_program
from .fewshot import Example, chosen, expert_examples
from .prompt import Briefing, Message, messages

__all__ = ["EXAMPLES", "ChatPlanner"]

EXAMPLES = ("held-out", "reference", "none")
"""What examples a planner may be shown."""
_NEAREST = 2


class ChatPlanner(Planner):
    """Asks a chat for the program. What a model writes is never trusted.

    Args:
        chat: the model, with whatever caches and recorders are around it.

    Attributes:
        name: the chat's name.
        examples: expert programs that it is shown: ``"held-out"``, all but that of the task's own
            family where the task names one; ``"reference"``, that one alone (the paper's
            DisCIPL*); or ``"none"``.
        paragraphs: what plugins say of their masks and patterns.
        library: programs that passed: those for the nearest tasks are shown, and programs are
            asked for that solve a family of tasks. None for no library.
    """

    trusted = False

    def __init__(self, chat: Chat) -> None:
        self.chat: Chat = chat
        self.name = chat.name
        self.examples: str = EXAMPLES[0]
        self.paragraphs: Sequence[str] = ()
        self.library: Library | None = None

    @property
    def model(self) -> str:
        """The model's own name, as prices know it."""
        return self.chat.model

    def quote(self, task: Task, feedback: Sequence[Feedback]) -> float | None:
        """US dollars that the next call may cost at most, or None where a price is unknown."""
        return self.chat.quote(self._messages(task, feedback), retry=len(feedback))

    async def plan(self, task: Task, feedback: Sequence[Feedback]) -> Plan:
        """Ask for a program, with the failed attempts before it.

        Raises:
            PlannerError: there is no answer (see the chat), or no program in it: a refusal, an
                answer cut off, prose. It carries the ``usage`` and ``cost`` of the call.
        """
        answer = await self.chat.ask(self._messages(task, feedback), retry=len(feedback))
        fresh = answer.origin == "model"
        # An answer at hand was paid for by another run: here it costs nothing.
        usage = (answer.usage or Usage()) if fresh else Usage()
        cost = answer.cost if fresh else 0.0
        try:
            program = Program(self._source(answer), planner=self.name)
        except PlannerError as error:
            # No program, but the call was billed.
            error.usage, error.cost = usage, cost
            raise
        return Plan(program, usage, cost, cached_answer=not fresh)

    def _messages(self, task: Task, feedback: Sequence[Feedback]) -> list[Message]:
        own = [task.family] if task.family is not None else []
        # The paper's appendix: the example of the target task itself is always left out of the
        # prompt.
        shown = chosen(own) if self.examples == "held-out" else ()
        if self.examples == "reference":
            shown = tuple(e for e in expert_examples() if e.name in own)
        nearest: tuple[Example, ...] = ()
        if self.library is not None:
            # Held out likewise: the library may have a program of the very family that is measured.
            found = self.library.nearest(task.instruction, _NEAREST, hold_out=task.family)
            nearest = tuple(Example(entry.name, entry.task, entry.source) for entry in found)
        family = self.library is not None
        return messages(task, feedback, Briefing(self.paragraphs, shown, nearest, family))

    def _source(self, answer: Answer) -> str:
        if answer.refusal or answer.finish_reason == "content_filter":
            why = one_line(answer.refusal or "content filter")
            raise PlannerError(
                f"planner {self.name} refused the task ({why}); "
                "rephrase the task or use another planner"
            )
        # Before the other checks: a whole program counts, though the answer was cut off behind it.
        source = extract_program(answer.text, cut=not answer.whole)
        if source is not None:
            return source
        if answer.finish_reason == "length":
            raise PlannerError(
                f"the answer of planner {self.name} was cut off at its token limit before the "
                "program was complete; allow more output tokens or use another model"
            )
        if not answer.finish_reason:
            raise PlannerError(
                f"the answer of planner {self.name} stopped before the program was complete, and "
                "the endpoint did not say why; try again, or look at the server's log"
            )
        if not answer.text.strip():
            raise PlannerError(
                f"planner {self.name} gave an empty answer; try again or use another model"
            )
        raise PlannerError(
            f"the answer of planner {self.name} holds no program (it begins "
            f"{one_line(answer.text)!r}); try again or use another model"
        )
