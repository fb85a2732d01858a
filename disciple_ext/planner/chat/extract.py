"""The program in a model's answer: with or without a code fence, after thinking, among examples."""

from __future__ import annotations

import ast
import re
import textwrap

__all__ = ["extract_program", "parses"]

_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
# An opening fence with an optional language, then the block up to a closing fence or the end.
_FENCE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<code>.*?)"
    r"(?:^[ \t]*(?P=fence)(?P<closed>)[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_END_OF_THINKING = re.compile(r"^.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_CLASS = re.compile(r"^\s*class\s+InferenceModel\b", re.MULTILINE)
_CODE_LINE = re.compile(r"(import|from|class|def|async def|@)\b|[A-Z_]+ *=|@|#|\"\"\"")


def extract_program(answer: str, *, cut: bool = False) -> str | None:
    """The source of the program in ``answer``.

    Of several code blocks, the last one with ``class InferenceModel`` is taken (models that
    correct themselves do so at the end); without one, the last block, whose rejection then tells
    the planner what is missing. Without a fence, the lines from the first one that looks like
    code to the last with which it still parses.

    Args:
        answer: the whole answer, thinking included. Thinking may lack its opening tag: some
            chat templates put that into the prompt.
        cut: whether the answer stopped before its end. Then only a block whose fence is closed
            counts: half a program may well parse.

    Returns:
        The source, ending in a newline, or None where the answer holds no code.
    """
    # Thinking holds drafts of the program, which must not be taken for the answer.
    answer = _THINKING.sub("", answer.replace("\r\n", "\n"))
    answer = _END_OF_THINKING.sub("", answer)
    found = [m for m in _FENCE.finditer(answer) if m["closed"] is not None or not cut]
    blocks = [textwrap.dedent(match["code"]) for match in found]
    blocks = [block for block in blocks if block.strip()]
    programs = [block for block in blocks if _CLASS.search(block)]
    if programs:
        # A block that parses is preferred to one that was cut off or is a sketch with "...".
        whole = [block for block in programs if parses(block)]
        return (whole or programs)[-1].rstrip() + "\n"
    if cut:
        return None
    if _CLASS.search(answer):
        return _unfenced(answer)
    return blocks[-1].rstrip() + "\n" if blocks else None


def _unfenced(answer: str) -> str:
    """The code in prose: from the first line like code to the last that leaves it whole."""
    lines = [line for line in answer.split("\n") if not line.lstrip().startswith(("```", "~~~"))]
    model = next(i for i, line in enumerate(lines) if _CLASS.match(line))
    starts = [i for i in range(model + 1) if _CODE_LINE.match(lines[i])] or [model]
    # Prose after the program stands at the margin: never cut into an indented block.
    stops = [i for i in range(model + 2, len(lines)) if lines[i][:1].strip()]
    for start in starts:
        for stop in [len(lines), *reversed(stops)]:
            code = textwrap.dedent("\n".join(lines[start:stop]))
            if parses(code):
                return code.rstrip() + "\n"
    return "\n".join(lines[model:]).rstrip() + "\n"


def parses(code: str) -> bool:
    """Is this whole Python source?"""
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The last two come from source that is nested too deeply for the parser.
        return False
    return True
