"""The static check of slips that leave a program able to run, and its texts wrong."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .finding import Finding

__all__ = ["slips"]

_DRAWS = frozenset(
    "next_token next_word next_sentence next_line force end_sentence draw_with".split()
)
_MARKS = ".!?"
_SEARCHES = frozenset("endswith startswith count find index removesuffix removeprefix".split())


def slips(tree: ast.Module) -> Iterator[Finding]:
    """Off by one at the end, case that cannot match, masks that rule out what is asked for."""
    yield from _capitals(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            yield from _one_more(node, tree)
        elif isinstance(node, ast.AsyncWith):
            yield from _forbidden_marks(node)
            yield from _no_room(node)


def _one_more(branch: ast.If, tree: ast.Module) -> Iterator[Finding]:
    """``if len(self) == target:`` and then one more draw, where a mask filled the target."""
    match branch.test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.GtE()], comparators=[target]):
            pass
        case _:
            return
    measured, wanted = ast.unparse(left), ast.unparse(target)
    if measured in {"len(self)", "len(self.text)"}:
        full = {f"{wanted} - len(self)", f"{wanted} - len(self.text)"}
        budgets = {
            ast.unparse(a.value if isinstance(a, ast.keyword) else a)
            for n in ast.walk(tree)
            if isinstance(n, ast.Call) and ast.unparse(n.func) == "MaxCharsMask"
            for a in (*n.args, *n.keywords)
        }
        unit, more, names = "characters", "a character", _DRAWS
        if not budgets & full:
            return
        less = f"{wanted} - 1"
        if isinstance(target, ast.Constant) and isinstance(target.value, int):
            less = str(target.value - 1)
        advice = f"leave room for it: `MaxCharsMask(self, max_chars={less} - len(self))`, "
        advice += f"and test `len(self) == {less}`"
    elif measured == "len(self.words)":
        unit, more, names = "words", "a word", frozenset({"next_word", "next_sentence"})
        advice = "end the text here: `await self.end_sentence()`, then `await self.end()`"
    else:
        return
    for statement in branch.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and _own(node.func) in names:
                yield Finding(
                    node.lineno,
                    f"off by one: the text has its {wanted} {unit} already, and this adds {more}",
                    advice,
                    fatal=False,
                )
                return


def _forbidden_marks(block: ast.AsyncWith) -> Iterator[Finding]:
    """A mark asked for inside a mask that forbids every one of them."""
    for item in block.items:
        match item.context_expr:
            case ast.Call(func=ast.Name("AvoidCharsMask"), args=[_, ast.Constant(str(avoided))]):
                pass
            case _:
                continue
        for node in ast.walk(block):
            if not isinstance(node, ast.Call):
                continue
            name = _own(node.func) or ast.unparse(node.func)
            if name not in {"end_sentence", "PunctuationMask"}:
                continue
            given = [a.value if isinstance(a, ast.keyword) else a for a in node.keywords]
            given += node.args[1:] if name == "PunctuationMask" else node.args
            texts = [a.value for a in given if isinstance(a, ast.Constant)]
            asked = next((t for t in texts if isinstance(t, str)), _MARKS)
            if set(asked) <= set(avoided):
                yield Finding(
                    node.lineno,
                    f"one of {asked!r} is asked for inside AvoidCharsMask({avoided!r}), which "
                    "forbids them all",
                    "move it out of the `async with` block",
                    fatal=False,
                )


def _no_room(block: ast.AsyncWith) -> Iterator[Finding]:
    """A mask whose argument leaves nothing."""
    for item in block.items:
        match item.context_expr:
            case ast.Call(func=ast.Name(name)) as call if name.endswith("Mask"):
                given = [*call.args[1:], *(k.value for k in call.keywords)]
            case _:
                continue
        for value in given:
            match value:
                case ast.Constant(int(n)) if name == "MaxCharsMask" and n < 1:
                    what = f"{n} characters"
                case ast.Constant(str("")) | ast.List(elts=[]) if not _may_be_empty(name):
                    what = "nothing"
                case _:
                    continue
            yield Finding(
                call.lineno,
                f"{name} leaves room for {what}, so no token can be drawn inside",
                "give it room, or leave the block out",
                fatal=False,
            )


def _may_be_empty(mask: str) -> bool:
    return mask.startswith("Avoid") or mask == "WordsMask"


def _own(function: ast.expr) -> str | None:
    match function:
        case ast.Attribute(ast.Name("self"), attr):
            return attr
    return None


def _capitals(tree: ast.Module) -> Iterator[Finding]:
    """Comparisons of lowered text with words that have capitals: they can never be equal."""
    values = _assigned(tree)
    for node in ast.walk(tree):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        match node:
            case ast.Compare(left=left, comparators=[right]):
                pairs = [(left, right), (right, left)]
            case ast.Call(func=ast.Attribute(text, attr), args=[sought, *_]) if attr in _SEARCHES:
                pairs = [(text, sought)]
        for side, other in pairs:
            if not _is_lowered(side):
                continue
            for word in _literals(other, values):
                if word != word.lower():
                    yield Finding(
                        side.lineno,
                        f"lowered text is compared with {word!r}, which has capitals",
                        "lower both sides, or use `units.same_word(a, b)`",
                        fatal=False,
                    )


def _is_lowered(node: ast.expr) -> bool:
    """Is the last change of case in this chain of calls ``lower()``?"""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in {"lower", "casefold"}:
            return True
        if node.func.attr not in {"strip", "lstrip", "rstrip"}:
            return False
        node = node.func.value
    return False


def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
    """The one expression assigned to each name or ``self`` attribute that is assigned once."""
    seen: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            seen.setdefault(ast.unparse(node.targets[0]), []).append(node.value)
    # One that is assigned twice may hold the other value where it is compared.
    return {name: values[0] for name, values in seen.items() if len(values) == 1}


def _literals(node: ast.expr, values: dict[str, ast.expr], depth: int = 4) -> list[str]:
    """String literals that an expression may stand for, through names assigned once."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.List(elts) | ast.Tuple(elts) | ast.Set(elts):
            return [word for item in elts for word in _literals(item, values, depth)]
        case ast.Subscript(value=value):
            return _literals(value, values, depth)
        # Bounded, since two names may be assigned to each other.
        case ast.Name() | ast.Attribute() if depth:
            known = values.get(ast.unparse(node))
            return _literals(known, values, depth - 1) if known is not None else []
    return []
