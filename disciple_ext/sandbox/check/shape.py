"""The static check of a program's outline: its class, and the methods that the run calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .finding import Finding

__all__ = ["ends_nowhere", "outline"]

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def outline(tree: ast.Module) -> Iterator[Finding]:
    """Findings about the class ``InferenceModel`` and its methods' signatures."""
    model = _model(tree)
    if model is None:
        others = [n for n in tree.body if isinstance(n, ast.ClassDef)]
        yield Finding(
            others[-1].lineno if others else 1,
            "there is no class InferenceModel at the top level",
            "define `class InferenceModel(BaseModel):`",
        )
        return
    known = {n.name for n in tree.body if isinstance(n, ast.ClassDef)} | _imported(tree)
    bases = _base_names(model)
    if not bases:
        yield Finding(
            model.lineno, "InferenceModel has no base class", "derive it from `BaseModel`"
        )
    # A base that the file defines or imports may derive from BaseModel: it is not followed.
    elif not bases & (known | {"BaseModel"}):
        base = ", ".join(sorted(bases))
        yield Finding(
            model.lineno, f"InferenceModel derives from {base}", "derive it from `BaseModel`"
        )
    methods = {n.name: n for n in model.body if isinstance(n, _Function)}
    for name, method in methods.items():
        look = _LOOKS.get(name)
        if look is not None:
            yield from look(method)
    one = sum(isinstance(n, ast.ClassDef) and n.name == model.name for n in tree.body) == 1
    if "step" not in methods and one and bases <= {"BaseModel"}:
        yield Finding(
            model.lineno, "InferenceModel has no step", "add `async def step(self):` to it"
        )


def ends_nowhere(tree: ast.Module) -> Iterator[Finding]:
    """A program that draws and has no call that ends its text."""
    model = _model(tree)
    if model is None or not _base_names(model) <= {"BaseModel"}:
        return
    called = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    draws = any(isinstance(n, ast.Await) for n in ast.walk(tree))
    if draws and not called & {"end", "finish", "observe"}:
        step = next((n for n in model.body if isinstance(n, _Function) and n.name == "step"), model)
        yield Finding(
            step.lineno,
            "nothing ends the text: a particle that never ends has no weight",
            "write `await self.end()` and `return` in step once the text is complete",
        )


def _model(tree: ast.Module) -> ast.ClassDef | None:
    found = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "InferenceModel"]
    # The last one, as in Python: a class replaces an earlier one of its name.
    return found[-1] if found else None


def _base_names(model: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).rpartition(".")[2] for base in model.bases}


def _imported(tree: ast.Module) -> set[str]:
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def _takes(method: _Function, given: int) -> bool:
    """Whether it can be called with ``given`` positional arguments, ``self`` included."""
    arguments = method.args
    positional = len(arguments.posonlyargs) + len(arguments.args)
    if given > positional and arguments.vararg is None:
        return False
    lacking = [a for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not d]
    return positional - len(arguments.defaults) <= given and not lacking


def _decorators(method: _Function) -> set[str]:
    return {ast.unparse(d) for d in method.decorator_list}


def _step(step: _Function) -> Iterator[Finding]:
    if isinstance(step, ast.FunctionDef):
        yield Finding(step.lineno, "step is not async", "write `async def step(self):`")
    if not _takes(step, 1):
        yield Finding(
            step.lineno,
            "step takes further arguments, and nobody gives them",
            "write `async def step(self):` and keep values as attributes",
        )


def _init(init: _Function) -> Iterator[Finding]:
    if not _takes(init, 2):
        yield Finding(
            init.lineno,
            "__init__ is called with the context and nothing else",
            "write `def __init__(self, context, max_tokens=64):`",
        )
    if isinstance(init, ast.AsyncFunctionDef):
        yield Finding(init.lineno, "__init__ is async", "write `def __init__(self, context):`")
    supers = any(isinstance(n, ast.Attribute) and n.attr == "__init__" for n in ast.walk(init))
    if not supers:
        yield Finding(
            init.lineno,
            "__init__ does not call the one of BaseModel",
            "begin it with `super().__init__(context=context, max_tokens=max_tokens)`",
        )


def _check(check: _Function) -> Iterator[Finding]:
    given = 1 if "staticmethod" in _decorators(check) else 2
    if not _takes(check, given):
        yield Finding(
            check.lineno,
            "check is called with the finished text",
            "write `def check(self, text):`, and use `text` in it",
        )
    returns = [n for n in ast.walk(check) if isinstance(n, ast.Return) and n.value is not None]
    raises = any(isinstance(n, ast.Raise) for n in ast.walk(check))
    if not returns and not raises:
        yield Finding(
            check.lineno,
            "check returns nothing, so no text passes or fails",
            "`return` True or False",
            fatal=False,
        )


def _prompt(method: _Function) -> Iterator[Finding]:
    shape = f"write `@classmethod` above `def {method.name}(cls):`"
    if not _decorators(method) & {"classmethod", "staticmethod"}:
        yield Finding(method.lineno, f"{method.name} is no classmethod", shape)
    if isinstance(method, ast.AsyncFunctionDef):
        yield Finding(method.lineno, f"{method.name} is async", f"{shape}, without async")


_LOOKS = {
    "step": _step,
    "__init__": _init,
    "check": _check,
    "prior_prompt": _prompt,
    "proposal_prompt": _prompt,
}
