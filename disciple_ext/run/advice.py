"""What to write instead: advice on the exceptions that programs raise most."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..model.base import BaseModel

__all__ = ["advice"]


def advice(error: BaseException, names: Mapping[str, Any]) -> str:
    """What to write instead, or the empty string where there is nothing sure to say.

    Args:
        error: what the program raised.
        names: what programs find without imports.
    """
    try:
        message = str(error)
        for kinds, give in _RULES:
            if isinstance(error, kinds):
                found = give(error, message, names)
                if found:
                    return found
    except Exception:  # the exception's class may be the program's own, and do anything
        return ""
    return ""


def _name(error: Any, message: str, names: Mapping[str, Any]) -> str:
    # First of all rules: to leave out `self.` is the likeliest slip where the name exists.
    if hasattr(BaseModel, error.name):
        return f"write `self.{error.name}`"
    near = difflib.get_close_matches(error.name, [n for n in names if n[0] != "_"], 1, 0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    masks = ", ".join(sorted(n for n in names if n.endswith("Mask")))
    if error.name.endswith("Mask"):
        return f"there is no such mask; there are: {masks}"
    return f"define `{error.name}` first, or keep it as `self.{error.name}`"


def _attribute(error: Any, message: str, names: Mapping[str, Any]) -> str:
    if "no setter" in message or "can't set" in message:
        return "it is read from the text; add to the text with `await self.force(...)`"
    name, owner = error.name, error.obj
    if not isinstance(name, str):
        return ""
    if owner is None:
        return "the value is None here: test for that first"
    if inspect.iscoroutine(owner):
        return "write `await` before the call that gives this value"
    if isinstance(owner, BaseModel):
        if name in names:
            return f"write `{name}(self, ...)`, without `self.` before it"
        # Without `super().__init__`, every attribute is missing: name the cause, not the symptom.
        if "context" not in vars(owner):
            return "call `super().__init__(context=context, max_tokens=max_tokens)` in `__init__`"
        api = [n for n in dir(type(owner)) if n[0] != "_"] + [n for n in vars(owner)]
        near = difflib.get_close_matches(name, api, 1, 0.6)
        if near:
            return f"did you mean `self.{near[0]}`?"
        return f"assign `self.{name}` in `__init__`, after `super().__init__(...)`"
    near = difflib.get_close_matches(name, [n for n in dir(owner) if n[0] != "_"], 1, 0.6)
    return f"did you mean `{near[0]}`?" if near else f"a {type(owner).__name__} has no `{name}`"


def _type(error: Any, message: str, names: Mapping[str, Any]) -> str:
    called = re.match(
        r"(?:(\w+)\.)?(\w+)\(\) (?:got an unexpected|missing|takes|got multiple)", message
    )
    if called:
        return _signature(called[1], called[2], names)
    if "coroutine" in message:
        return "write `await` before the call that gives this value"
    if "can't be used in 'await' expression" in message:
        return "this call is no coroutine: leave out `await`"
    if "cannot pickle" in message:
        return "a particle must be able to be copied: store lists and numbers, no generators"
    if message.startswith("'str' object is not callable"):
        return "`self.text` is a string: write `self.text`, not `self.text()`"
    if message.startswith("'list' object is not callable"):
        return "`self.words` is a list: write `self.words`, not `self.words()`"
    if "can only concatenate str" in message or "must be str, not" in message:
        return "write `str(...)` around the number, or an f-string"
    if "asynchronous context manager" in message:
        return "only masks go into `async with`"
    if "'NoneType'" in message:
        return "the value is None here: test for that first"
    return ""


def _signature(owner: str | None, name: str, names: Mapping[str, Any]) -> str:
    # The run calls these, not the program, so the mistake is in how the method is defined.
    if owner == "InferenceModel":
        shape = _SHAPES.get(name)
        return f"define it as `{shape}`" if shape else ""
    found: Any = names.get(owner) if owner and name == "__init__" else None
    if found is not None and found is not BaseModel:
        return f"write `{owner}{_arguments(found.__init__, 'self')}`"
    if owner == "BaseModel" and name == "__init__":
        return "write `super().__init__(context=context, max_tokens=max_tokens)`"
    method = getattr(BaseModel, name, None)
    if method is not None and owner in _OWNERS:
        return f"write `self.{name}{_arguments(method)}`"
    return ""


_OWNERS = {None, "BaseModel", "CharacterMethods", "TokenMethods", "WordMethods"}
"""The classes that Python names in a ``TypeError`` where a program calls ``self.`` wrongly."""
_SHAPES = {
    "__init__": "def __init__(self, context, max_tokens=64)",
    "step": "async def step(self)",
    "check": "def check(self, text)",
    "prior_prompt": "@classmethod def prior_prompt(cls)",
    "proposal_prompt": "@classmethod def proposal_prompt(cls)",
}


def _arguments(function: Callable[..., Any], first: str | None = None) -> str:
    """The arguments of a method as a call names them."""
    _, *rest = inspect.signature(function).parameters.values()
    if first is not None:
        rest = rest[1:]
    shown = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in rest]
    return f"({', '.join([first, *shown] if first else shown)})"


def _value(error: Any, message: str, names: Mapping[str, Any]) -> str:
    if "math domain error" in message:
        return "the log of zero or less: use `self.condition(False)` for what must not be"
    if "invalid literal for int" in message or "could not convert string to float" in message:
        return "what the Follower wrote need not be a number: test it, or offer `ChoiceMask`"
    if "a text of more than" in message:
        return "write a shorter hint, prompt or text"
    return ""


_RULES: tuple[tuple[Any, Callable[[Any, str, Mapping[str, Any]], str]], ...] = (
    # The first rule that gives advice wins, so a subclass must come before its base (NameError).
    (UnboundLocalError, lambda *_: "give it a value on every path before this line"),
    (NameError, _name),
    (AttributeError, _attribute),
    (TypeError, _type),
    (ValueError, _value),
    (
        IndexError,
        lambda *_: (
            "the list is shorter here than the program takes it to be (`self.words` begins "
            "empty): test its length first"
        ),
    ),
    (KeyError, lambda *_: "use `.get(...)`, or test with `in` first"),
    (ZeroDivisionError, lambda *_: "the text begins empty: test the divisor first"),
    (
        RecursionError,
        lambda *_: (
            "a function calls itself without end: `step` is called again by "
            "the run, so it needs no call of itself"
        ),
    ),
    (MemoryError, lambda *_: "the program used up its memory: build smaller values"),
    (
        PermissionError,
        lambda *_: "a program may use no files, network or processes: compute without them",
    ),
    (ImportError, lambda *_: "leave the import out: the program API needs none"),
    (
        RuntimeError,
        lambda error, message, names: (
            "the program runs inside a loop already: write `await ...`"
            if "running event loop" in message or "event loop is running" in message
            else ""
        ),
    ),
    (SystemExit, lambda *_: "end a text with `await self.end()`"),
)
