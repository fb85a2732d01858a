"""Writes the reference part of the planner's tutorial from the docstrings.

Run it after a change of the program API: ``python docs/reference/generate_tutorial.py``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from disciple_ext.model.base import BaseModel
from disciple_ext.model.masks.characters import ALL_MASKS
from disciple_ext.model.masks.formal import FORMAL_MASKS
from disciple_ext.text import units

PAGE = Path(__file__).resolve().parents[2] / "disciple_ext" / "planner" / "chat" / "tutorial.md"
COROUTINES = (
    "next_token next_word next_sentence next_line end_sentence force wants wants_word wants_to_end "
    "fill fill_span hint preface next_char spell force_chars end_word weigh draw_with ask end"
).split()
PLAIN = ("condition", "score", "finish")
READ = ("text", "words", "random", "char_log_probs")
UNITS = "words sentences lines paragraphs same_word ends_safely".split()
_PART = re.compile(r"(<!-- api[^\n]*-->\n).*?(<!-- /api -->)", re.DOTALL)


def page() -> str:
    """The whole tutorial with a current reference part."""
    text = PAGE.read_text(encoding="utf-8")
    lines = "\n".join(reference())
    return _PART.sub(lambda match: f"{match[1]}\n{lines}\n\n{match[2]}", text)


def reference() -> Iterator[str]:
    """The lines of the reference part."""
    yield "Coroutines, always with `await`:\n"
    for name in COROUTINES:
        method = getattr(BaseModel, name)
        yield _entry(f"await self.{name}{_arguments(method)}", method)
    yield "\nNot coroutines:\n"
    for name in PLAIN:
        method = getattr(BaseModel, name)
        yield _entry(f"self.{name}{_arguments(method)}", method)
    for name in READ:
        yield _entry(f"self.{name}", getattr(BaseModel, name).fget)
    yield "- `len(self)`: characters of the text so far; `self.max_tokens`: limit of its tokens."
    yield "\nMasks, for `async with`:\n"
    for mask in sorted((*ALL_MASKS, *FORMAL_MASKS), key=lambda mask: mask.__name__):
        yield _entry(f"{mask.__name__}(self, {_arguments(mask.__init__, 2)[1:]}", mask)
    yield "\nUnits, as the evaluation counts them:\n"
    for name in UNITS:
        function = getattr(units, name)
        yield _entry(f"units.{name}{_arguments(function, 0)}", function)


def _arguments(function: Callable[..., Any], left_out: int = 1) -> str:
    parameters = list(inspect.signature(function).parameters.values())[left_out:]
    shown = [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}".replace("'", '"')
        for p in parameters
    ]
    return f"({', '.join(shown)})"


def _entry(call: str, documented: Any) -> str:
    """One item: the call, what it does, and what its arguments mean."""
    doc = inspect.cleandoc(documented.__doc__)
    paragraphs = doc.split("\n\n")[: 2 if documented.__name__ in COROUTINES else 1]
    prose = [p for p in paragraphs if not re.match(r"\w+:\n", p)]
    first = " ".join(" ".join(prose).split()).replace("``", "`")
    first = re.sub(r":\w+:`([^`]*)`", r"`\1`", first)
    said = f"- `{call}`: {first}"
    described = re.search(r"^Args:\n(.*?)(?:\n\n|\Z)", doc, re.DOTALL | re.MULTILINE)
    if described and documented.__name__ in COROUTINES:
        items = re.sub(r"\n {6,}", " ", described[1])
        arguments = [line.strip().rstrip(".") for line in items.split("\n")]
        said += f" ({'; '.join(arguments)})".replace("``", "`")
    return said


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
