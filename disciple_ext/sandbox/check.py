"""The static check: likely mistakes of a program, found without running it.

It exists to give the planner (or a person) a readable message early. It is not a security
boundary, and nothing may rely on it as one: a program that passes can still do whatever Python can.
It looks at one file with :mod:`ast`, follows no calls, and rather misses a mistake than reports one
that is none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["ALLOWED_IMPORTS", "Finding", "check"]

ALLOWED_IMPORTS = frozenset(
    {
        "__future__",
        "asyncio",
        "collections",
        "dataclasses",
        "datetime",
        "disciple_ext",
        "enum",
        "functools",
        "itertools",
        "json",
        "llamppl",
        "math",
        "operator",
        "random",
        "re",
        "statistics",
        "string",
        "typing",
    }
)
"""Modules that a program may import; none is needed for the program API."""

_COROUTINES = frozenset(
    """next_token next_word next_sentence next_line end end_sentence wants wants_to_end force hint
    sample observe intervene call new_context""".split()
)
_PLAIN = frozenset({"condition", "score", "twist", "finish"})
_MASKS = "Mask"
_SIDE_EFFECTS = frozenset({"open", "exec", "eval", "compile", "__import__", "input", "breakpoint"})


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


def check(source: str) -> list[Finding]:
    """Find likely mistakes in a program, in the order of its lines.

    Args:
        source: Python source of a program.

    Returns:
        The findings; empty if there is nothing to say.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        what = getattr(error, "msg", None) or str(error) or type(error).__name__
        return [Finding(line, f"this is not Python: {what}", "write plain Python 3.11 source")]
    try:
        found = [*_structure(tree), *_Visitor.findings(tree), *_capitals(tree), *_clones(tree)]
    except RecursionError:
        return [Finding(1, "the program is nested too deeply", "use shorter expressions")]
    return sorted(set(found), key=lambda finding: (finding.line, finding.message))


def _structure(tree: ast.Module) -> Iterator[Finding]:
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "InferenceModel"]
    if not classes:
        yield Finding(
            1,
            "there is no class InferenceModel at the top level",
            "define `class InferenceModel(BaseModel):`",
        )
        return
    model = classes[-1]
    if not model.bases:
        yield Finding(
            model.lineno, "InferenceModel has no base class", "derive it from `BaseModel`"
        )
    steps = [
        n
        for n in model.body
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == "step"
    ]
    if not steps and len(classes) == 1 and _base_names(model) <= {"BaseModel"}:
        yield Finding(
            model.lineno, "InferenceModel has no step", "add `async def step(self):` to it"
        )
    for step in steps:
        if isinstance(step, ast.FunctionDef):
            yield Finding(step.lineno, "step is not async", "write `async def step(self):`")


def _base_names(model: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).rpartition(".")[2] for base in model.bases}


class _Visitor(ast.NodeVisitor):
    """Findings that depend on one node and its parent."""

    def __init__(self, own_coroutines: set[str]) -> None:
        self.coroutines = _COROUTINES | own_coroutines
        self.found: list[Finding] = []
        self.parents: list[ast.AST] = []

    @classmethod
    def findings(cls, tree: ast.Module) -> list[Finding]:
        visitor = cls({n.name for n in ast.walk(tree) if isinstance(n, ast.AsyncFunctionDef)})
        visitor.visit(tree)
        return visitor.found

    def visit(self, node: ast.AST) -> None:
        parent = self.parents[-1] if self.parents else node
        match node:
            case ast.Import():
                for alias in node.names:
                    self._import(node.lineno, alias.name)
            case ast.ImportFrom():
                self._import(node.lineno, "." * node.level + (node.module or ""))
            case ast.While():
                self._loop(node)
            case ast.With():
                for item in node.items:
                    self._with(node.lineno, item.context_expr)
            case ast.Await(value=ast.Call(func=ast.Attribute(ast.Name("self"), attr))):
                if attr in _PLAIN:
                    message = f"self.{attr}() is not a coroutine and cannot be awaited"
                    self._add(node.lineno, message, f"write `self.{attr}(...)` without await")
            case ast.Call(func=ast.Attribute(ast.Name("self"), attr)):
                # A coroutine may be returned or handed on, to be awaited elsewhere.
                if attr in self.coroutines and not isinstance(
                    parent, ast.Await | ast.Return | ast.Call | ast.Lambda | ast.keyword
                ):
                    message = f"self.{attr}() is a coroutine and is never awaited here"
                    self._add(node.lineno, message, f"write `await self.{attr}(...)`")
            case ast.Call(func=ast.Name(name)) if name in _SIDE_EFFECTS:
                self._add(node.lineno, f"{name}() is not for programs", "compute without it")
        self.parents.append(node)
        self.generic_visit(node)
        self.parents.pop()

    def _add(self, line: int, message: str, suggestion: str, fatal: bool = True) -> None:
        self.found.append(Finding(line, message, suggestion, fatal))

    def _import(self, line: int, module: str) -> None:
        if module.split(".")[0] not in ALLOWED_IMPORTS:
            allowed = "math, re, string, itertools, collections, json, datetime"
            message = f"import of {module} is outside the allow-list"
            self._add(line, message, f"the program API needs no imports; allowed are {allowed}")
        elif module == "random":
            message = "draws of the random module do not repeat under one seed"
            self._add(line, message, "use `self.random`, a random.Random", fatal=False)

    def _loop(self, loop: ast.While) -> None:
        inside = list(ast.walk(loop))
        endless = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
        leaves = any(isinstance(n, ast.Break | ast.Return | ast.Raise) for n in inside)
        waits = any(isinstance(n, ast.Await | ast.AsyncWith | ast.AsyncFor) for n in inside)
        if endless and not waits and not leaves:
            message = "this loop never ends and never awaits: it would hang the whole run"
            self._add(loop.lineno, message, "await a token or a word in it, and leave it")

    def _with(self, line: int, manager: ast.expr) -> None:
        match manager:
            case ast.Call(func=ast.Name(name)) if name.endswith(_MASKS):
                message = f"{name} is an async context manager"
                self._add(line, message, f"write `async with {name}(...):`")


def _capitals(tree: ast.Module) -> Iterator[Finding]:
    """Comparisons of lowered text with words that have capitals: they can never be equal."""
    values = _assigned(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        for side, other in zip(sides, [*reversed(sides)] if len(sides) == 2 else [], strict=False):
            if not _is_lowered(side):
                continue
            for word in _literals(other, values):
                if word != word.lower():
                    yield Finding(
                        node.lineno,
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
        case ast.Name() | ast.Attribute() if depth:
            known = values.get(ast.unparse(node))
            return _literals(known, values, depth - 1) if known is not None else []
    return []


def _clones(tree: ast.Module) -> Iterator[Finding]:
    """State that clones of a particle would share, or that cannot be copied."""
    for model in (n for n in tree.body if isinstance(n, ast.ClassDef)):
        for item in model.body:
            value = item.value if isinstance(item, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp) and _changed(
                model, item
            ):
                yield Finding(
                    item.lineno,
                    "a mutable class attribute is shared by all particles",
                    "assign it in `__init__` instead",
                    fatal=False,
                )
        for node in ast.walk(model):
            if not isinstance(node, ast.Assign) or not ast.unparse(node.targets[0]).startswith(
                "self."
            ):
                continue
            if isinstance(node.value, ast.GeneratorExp):
                message, advice = "a stored generator cannot be cloned", "store a list"
            elif isinstance(node.value, ast.Lambda) and any(
                isinstance(n, ast.Name) and n.id == "self" for n in ast.walk(node.value)
            ):
                message = "a stored lambda keeps hold of the particle it was made in"
                advice = "write a method"
            else:
                continue
            yield Finding(node.lineno, message, advice, fatal=False)


def _changed(model: ast.ClassDef, item: ast.stmt) -> bool:
    """Is this class attribute changed in place somewhere in the class?"""
    target = item.targets[0] if isinstance(item, ast.Assign) else getattr(item, "target", None)
    if not isinstance(target, ast.Name):
        return False
    names = {f"{owner}.{target.id}" for owner in ("self", "cls", model.name)}
    mutators = {"append", "add", "extend", "insert", "pop", "remove", "clear", "update", "sort"}
    for node in ast.walk(model):
        match node:
            case ast.Call(func=ast.Attribute(value, attr)):
                if attr in mutators and ast.unparse(value) in names:
                    return True
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                if ast.unparse(value) in names:
                    return True
    return False
