"""The frame that all expert programs share: prompts, step with its docstring, check."""

from __future__ import annotations

import pprint
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = ["Sketch", "assign", "listed", "quoted"]


@dataclass
class Sketch:
    """A program in the making; bodies are lines of source, relative to their method.

    Attributes:
        summary: docstring of the class.
        max_tokens: tokens after which a particle gives up.
        prior: prompt under which the text should be fluent.
        proposal: prompt that also knows the constraints; the prior's where it is the same.
        granularity: what one step adds.
        strategy: how it is chosen.
        end: when the text ends.
        state: statements of ``__init__``.
        step: statements of ``step``.
        check: statements of ``check``.
        methods: further methods, whole.
    """

    summary: str
    max_tokens: int
    prior: str
    proposal: str
    granularity: str = ""
    strategy: str = ""
    end: str = ""
    state: list[str] = field(default_factory=list)
    step: list[str] = field(default_factory=list)
    check: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)

    def source(self) -> str:
        """The program."""
        parts = [
            "class InferenceModel(BaseModel):",
            *_indent(_docstring([self.summary]), 1),
            "",
            f"    def __init__(self, context, max_tokens={self.max_tokens}):",
            "        super().__init__(context=context, max_tokens=max_tokens)",
            *_indent(self.state, 2),
            "",
            *_prompt("prior_prompt", self.prior),
            "",
        ]
        if self.proposal != self.prior:
            parts += [*_prompt("proposal_prompt", self.proposal), ""]
        story = [
            f"Step granularity: {self.granularity}",
            "",
            f"Generation strategy: {self.strategy}",
            "",
            f"End condition: {self.end}",
        ]
        parts += ["    async def step(self):", *_indent(_docstring(story), 2)]
        parts += [*_indent(self.step, 2), "", "    def check(self, text):", *_indent(self.check, 2)]
        if self.methods:
            parts += ["", *_indent(self.methods, 1)]
        return "\n".join(parts) + "\n"


def _docstring(paragraphs: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for paragraph in paragraphs:
        # A task's word may hold anything that a quoted word may: a docstring must survive it.
        safe = paragraph.replace("\\", "\\\\").replace('"""', "'''")
        lines += textwrap.wrap(safe, 86) or [""]
    if len(lines) == 1 and not lines[0].endswith('"'):
        return [f'"""{lines[0]}"""']
    return [f'"""{lines[0]}', *lines[1:], '"""']


def _prompt(name: str, text: str) -> list[str]:
    # Spaces stay at the ends: the pieces are joined by Python without any.
    pieces = textwrap.wrap(text, 78, drop_whitespace=False, break_long_words=False)
    if len(pieces) == 1:
        body = [f"        return {text!r}"]
    else:
        body = ["        return (", *(f"            {piece!r}" for piece in pieces), "        )"]
    return ["    @classmethod", f"    def {name}(cls):", *body]


def _indent(lines: Iterable[str], depth: int) -> list[str]:
    return ["    " * depth + line if line else "" for line in lines]


def quoted(words: Iterable[str]) -> str:
    """Words as prompts list them: ``'dog', 'throw'``."""
    return ", ".join(f"'{word}'" for word in words)


def listed(items: Sequence[str]) -> str:
    """Items as English lists them: ``a, b and c``."""
    return ", ".join(items[:-1]) + " and " + items[-1] if len(items) > 1 else "".join(items)


def assign(name: str, value: object) -> list[str]:
    """An assignment in ``__init__``, over several lines where one would be too long."""
    # Not sorted: the words come in the order in which the task names them.
    first, *rest = pprint.pformat(value, width=74, compact=True, sort_dicts=False).splitlines()
    if not rest:
        return [f"self.{name} = {first}"]
    body = [first[1:], *(line.strip() for line in rest)]
    body[-1] = body[-1][:-1]
    return [f"self.{name} = {first[0]}", *(f"    {line}" for line in body), rest[-1][-1]]
