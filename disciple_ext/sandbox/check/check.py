"""The static check: likely mistakes of a program, found without running it.

It exists to give the planner (or a person) a readable message early. It is not a security
boundary, and nothing may rely on it as one: a program that passes can still do whatever Python can.
It looks at one file with :mod:`ast`, follows no calls, and rather misses a mistake than reports one
that is none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from .finding import Finding
from .mistakes import slips
from .shape import ends_nowhere, outline

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
    """next_token next_word next_sentence next_line next_char spell end end_sentence end_word
    wants wants_to_end fill fill_span force force_chars hint preface weigh draw_with ask
    sample observe intervene call new_context""".split()
)
_PLAIN = frozenset({"condition", "score", "twist", "finish"})
_MASKS = "Mask"
_READ = frozenset({"text", "words", "char_log_probs"})
_TAKES_VALUES = frozenset("print str len bool int float list any all sum set repr max min".split())
_SIDE_EFFECTS = frozenset({"open", "exec", "eval", "compile", "__import__", "input", "breakpoint"})


def check(source: str) -> list[Finding]:
    """Find likely mistakes in a program, in the order of its lines.

    Args:
        source: Python source of a program.

    Returns:
        The findings; empty if there is nothing to say.
    """
    try:
        tree = ast.parse(source)
    # Deep nesting is a RecursionError or a MemoryError, and a null byte may be a ValueError.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        what = getattr(error, "msg", None) or str(error) or type(error).__name__
        return [Finding(line, f"this is not Python: {what}", "write plain Python 3.11 source")]
    try:
        found = [
            *outline(tree),
            *_Visitor.findings(tree),
            *_clones(tree),
            *slips(tree),
        ]
        if not any(finding.fatal for finding in found):
            found += ends_nowhere(tree)
    except RecursionError:
        return [Finding(1, "the program is nested too deeply", "use shorter expressions")]
    return sorted(set(found), key=lambda finding: (finding.line, finding.message))


class _Visitor(ast.NodeVisitor):
    """Findings that depend on one node and its parent."""

    def __init__(self, tree: ast.Module) -> None:
        own = {n.name for n in ast.walk(tree) if isinstance(n, ast.AsyncFunctionDef)}
        self.coroutines = _COROUTINES | own
        # A coroutine that is kept under a name may be awaited by it anywhere in the file.
        self.awaited = {
            n.value.id
            for n in ast.walk(tree)
            if isinstance(n, ast.Await) and isinstance(n.value, ast.Name)
        }
        self.found: list[Finding] = []
        self.parents: list[ast.AST] = []

    @classmethod
    def findings(cls, tree: ast.Module) -> list[Finding]:
        visitor = cls(tree)
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
                if attr in self.coroutines and self._lost(self._holder(parent)):
                    message = f"self.{attr}() is a coroutine and is never awaited here"
                    self._add(node.lineno, message, f"write `await self.{attr}(...)`")
                elif attr == "step" and self._inside_step():
                    advice = "leave the call out: the run calls step again until the text has ended"
                    self._add(node.lineno, "step calls itself", advice)
                elif attr in _READ:
                    message = f"self.{attr} is no method"
                    self._add(node.lineno, message, f"write `self.{attr}`, without brackets")
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for name in _READ & {ast.unparse(t).removeprefix("self.") for t in targets}:
                    if f"self.{name}" in map(ast.unparse, targets):
                        message = f"self.{name} is read from the text and cannot be assigned"
                        advice = "add to the text with `await self.force(...)`"
                        self._add(node.lineno, message, advice)
            case ast.Call(func=ast.Name(name)) if name in _SIDE_EFFECTS:
                self._add(node.lineno, f"{name}() is not for programs", "compute without it")
        self.parents.append(node)
        self.generic_visit(node)
        self.parents.pop()

    def _holder(self, parent: ast.AST) -> ast.AST:
        """What a value is in, past `a if c else b`, whose value goes on to the outside."""
        above = reversed(self.parents)
        return next((node for node in above if not isinstance(node, ast.IfExp)), parent)

    def _lost(self, parent: ast.AST) -> bool:
        """Is a coroutine in this place never awaited? It may be handed on, to be awaited there."""
        match parent:
            case ast.Await() | ast.Lambda() | ast.Starred():
                return False
            case ast.List() | ast.Tuple() | ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
                return False
            case ast.Return():
                # The caller of a helper may await what it returns; nobody awaits what step returns.
                return self._inside_step()
            case ast.Assign(targets=[ast.Name(name)]):
                return name not in self.awaited
            case ast.Call(func=ast.Attribute(ast.Name("self"), attr)):
                return attr in _PLAIN
            case ast.Call(func=ast.Name(name)):
                return name in _TAKES_VALUES
            case ast.Call() | ast.keyword():
                return False
        return True

    def _inside_step(self) -> bool:
        functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        inner = next((n for n in reversed(self.parents) if isinstance(n, functions)), None)
        return isinstance(inner, ast.AsyncFunctionDef) and inner.name == "step"

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
        elif endless and not leaves and not _ends_a_particle(inside):
            message = "this loop has no way out: no particle can come past it"
            self._add(
                loop.lineno, message, "`break` once the words are there, or bound it with for"
            )

    def _with(self, line: int, manager: ast.expr) -> None:
        match manager:
            case ast.Call(func=ast.Name(name)) if name.endswith(_MASKS):
                message = f"{name} is an async context manager"
                self._add(line, message, f"write `async with {name}(...):`")


def _ends_a_particle(nodes: list[ast.AST]) -> bool:
    """Is there a call that ends the particle? The next draw then leaves the loop."""
    called = {n.func.attr for n in nodes if isinstance(n, ast.Call) and _is_method(n.func)}
    return bool(called - (_COROUTINES - {"end", "call"}))  # a method of its own may end it, too


def _is_method(function: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(function, ast.Attribute) and ast.unparse(function.value) == "self"


def _clones(tree: ast.Module) -> Iterator[Finding]:
    """State that clones of a particle would share, or that cannot be copied."""
    for model in (n for n in tree.body if isinstance(n, ast.ClassDef)):
        for item in model.body:
            value = item.value if isinstance(item, ast.Assign | ast.AnnAssign) else None
            # A table that nobody changes may well be shared.
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
