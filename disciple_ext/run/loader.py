"""From a program's source to its class, and from its exceptions to readable errors."""

from __future__ import annotations

import builtins
import inspect
import re
import traceback
from typing import Any

from ..errors import DiscipleError, ProgramCrashed, ProgramRejected, WrongFamily
from ..model.base import BaseModel
from ..model.context import FollowerContext
from ..model.distributions import Token
from ..model.stops import PROGRAM_FILE
from ..text import units
from ..text.shorten import shortened
from .advice import advice

__all__ = ["crash", "line_of", "load", "namespace"]


def namespace(extra: dict[str, Any]) -> dict[str, Any]:
    """The names a program finds: the model, masks and patterns, units, LLaMPPL, a few modules."""
    import itertools
    import json
    import math
    import string

    import llamppl.distributions as distributions
    from llamppl.modeling import Model, SubModel, submodel

    return {
        # All of them: the locks of the system are the boundary, not a list of names.
        "__builtins__": builtins,
        # Not "__main__": a program's test block at its end must not run.
        "__name__": "disciple_program",
        "BaseModel": BaseModel,
        "FollowerContext": FollowerContext,
        "Model": Model,
        "SubModel": SubModel,
        "submodel": submodel,
        "Token": Token,
        "Bernoulli": distributions.Bernoulli,
        "Geometric": distributions.Geometric,
        "LogCategorical": distributions.LogCategorical,
        "units": units,
        "itertools": itertools,
        "json": json,
        "math": math,
        "re": re,
        "string": string,
        **extra,
    }


_TAKEN = frozenset(
    "_cause _cause_line _explained beam_idx changes char_tolerance context finish_reason finished "
    "healed hint_text line log_prior log_proposal lost_before masks max_tokens preface_rest "
    "preface_text prior reason spelled twist_amount weighed weight".split()
)
"""Attributes that every particle sets."""
_LONGEST_MESSAGE = 2000
"""Characters of an exception's message that are kept."""


def said(error: BaseException) -> str:
    """An exception's message, cut where it is long; its ``__str__`` may be the program's own."""
    try:
        # `str.__str__` because str(error) may be of a subclass of str, with methods of its own.
        message = str.__str__(str(error))
    except BaseException as inner:
        return f"(its message cannot be had: {type(inner).__name__})"
    return shortened(message, _LONGEST_MESSAGE)


def load(source: str, extra: dict[str, Any], task: str = "") -> type[BaseModel]:
    """Run a program's source and return its ``InferenceModel``.

    A program for a whole family of tasks has a function ``arguments(task)`` beside the class. It
    is given the task in words, and what it returns becomes attributes of the class.

    Args:
        source: the program.
        extra: names of masks and patterns to put beside the built-in ones.
        task: the task in words.

    Raises:
        ProgramRejected: it does not parse, or defines no usable ``InferenceModel``.
        ProgramCrashed: its module-level code or ``arguments`` raised.
        WrongFamily: its ``arguments`` returned None.
    """
    try:
        code = compile(source, PROGRAM_FILE, "exec")
    except (SyntaxError, ValueError) as error:
        # Half of a surrogate pair in the source gives a UnicodeEncodeError, which is a ValueError.
        line = getattr(error, "lineno", None)
        where = f" in line {line}" if line else ""
        raise ProgramRejected(
            f"the program does not parse{where}: {getattr(error, 'msg', error)}; "
            "write plain Python 3.11 source",
            line=line,
        ) from error
    names = namespace(extra)
    try:
        exec(code, names)
    except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        raise crash(error, source) from error
    model = names.get("InferenceModel")
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ProgramRejected(
            "the program defines no 'class InferenceModel(BaseModel)', which is what is run; "
            "give the class that name and that base",
            line=_class_line(source),
        )
    # Unwrapped, so that a decorator around `step` does not hide that it is a coroutine function.
    if not inspect.iscoroutinefunction(inspect.unwrap(model.step)) or model.step is BaseModel.step:
        raise ProgramRejected(
            "InferenceModel has no 'async def step(self)'; add it", line=_class_line(source)
        )
    if callable(arguments := names.get("arguments")):
        _bind(model, arguments, task, source)
    return model


def _bind(model: type[BaseModel], arguments: Any, task: str, source: str) -> None:
    """Make what ``arguments(task)`` returns attributes of the class."""
    try:
        values = arguments(task)
        values = None if values is None else dict(values)
    except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        raise crash(error, source) from error
    if values is None:
        raise WrongFamily("the program's arguments(task) does not know this task")
    for name, value in values.items():
        usable = isinstance(name, str) and name.isidentifier()
        # A particle's own attribute would hide the value, and one of the class would break the API.
        if not usable or name in _TAKEN or hasattr(BaseModel, name):
            raise ProgramRejected(
                f"arguments(task) returned the name {name!r:.40}: names must be identifiers, and "
                "none that BaseModel has"
            )
        setattr(model, name, _frozen(value))


def _frozen(value: Any) -> Any:
    """A list as a tuple, for all particles share the values."""
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _class_line(source: str) -> int:
    """The line of the program's model class, or 1."""
    lines = enumerate(source.splitlines(), 1)
    return next((n for n, line in lines if line.startswith("class InferenceModel")), 1)


def crash(
    error: BaseException,
    source: str,
    *,
    particle: int | None = None,
    step: int | None = None,
    text: str | None = None,
) -> DiscipleError:
    """The error to raise for an exception inside a program (our own errors stay as they are)."""
    if isinstance(error, DiscipleError):
        return error
    lines = source.splitlines()
    shown = []
    frames = _own_frames(error)
    # Endless recursion has a thousand frames; the planner needs its begin and its end.
    for number, name in frames if len(frames) <= 12 else [*frames[:4], (0, "..."), *frames[-6:]]:
        code = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        shown.append(f"  line {number}, in {name}\n    {code}" if number else "  ...")
    line = line_of(error)
    if line is None:  # it was called in a way that does not fit, so no line of its own ran
        line = _defined_at(error, source)
    message = said(error)
    what = f"{type(error).__name__}: {message}" if message else type(error).__name__
    where = f"in line {line}" if line else "outside its own lines"
    at = f", particle {particle}, step {step}" if particle is not None else ""
    fix = advice(error, _names(error))
    return ProgramCrashed(
        f"the program raised {what} ({where}{at})" + (f"; {fix}" if fix else ""),
        line=line,
        traceback="\n".join(["Traceback (the program's own lines):", *shown, what]),
        particle=particle,
        step=step,
        text=text,
        # The rehearsal decides by the name whether another text would have helped.
        exception=type(error).__name__,
        of_none=_is_of_none(message, fix),
    )


def _is_of_none(message: str, fix: str) -> bool:
    """Whether an exception says that a value was None, otherwise than in an ``await``.

    Python says so in the message alone.
    """
    named = "'NoneType' object" in message or "object NoneType" in message
    return named and "await" not in message and "await" not in fix


def line_of(error: BaseException) -> int | None:
    """The line of the program at which an exception was raised, or None."""
    frames = _own_frames(error)
    return frames[-1][0] if frames else None


def _names(error: BaseException) -> dict[str, Any]:
    """What the program that raised could name."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == PROGRAM_FILE:
            return frame.f_globals
    return namespace({})


def _own_frames(error: BaseException) -> list[tuple[int, str]]:
    """Line and function of the program's own frames, outermost first."""
    frames = traceback.walk_tb(error.__traceback__)
    return [
        (line, frame.f_code.co_name)
        for frame, line in frames
        if frame.f_code.co_filename == PROGRAM_FILE
    ]


def _defined_at(error: BaseException, source: str) -> int | None:
    """The line that defines the function named in a ``TypeError`` about its arguments."""
    named = re.match(r"InferenceModel\.(\w+)\(\)", said(error))
    if named is None:
        return None
    pattern = re.compile(rf"\s*(?:async\s+)?def\s+{named[1]}\b")
    lines = enumerate(source.splitlines(), 1)
    return next((number for number, line in lines if pattern.match(line)), None)
