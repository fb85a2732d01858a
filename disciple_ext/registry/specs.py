"""Specs such as ``smc:ess_threshold=0.7,scheme=systematic``: a name, and options for its factory.

The options of a factory are its named parameters; there is nothing to declare. A value is a JSON
scalar if it parses as one (``0.7``, ``4``, ``true``, ``null``, ``"a,b"``), else text as it stands.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import DiscipleError, UsageError
from ..protocol.measure import OPTIONS

__all__ = [
    *("call", "options_of", "parse_options", "spell_options"),
    *("split_measure", "split_model", "split_specs"),
]

_PIECE = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^,])*')  # up to a comma outside of quotes
_OPTION = re.compile(r"[^:=]+=")
_MODEL = re.compile(r'(.*?)((?:,\s*[A-Za-z]\w*\s*=(?:\s*"(?:[^"\\]|\\.)*"\s*|[^,]*))*)', re.DOTALL)


def split_specs(text: str) -> list[str]:
    """The specs in a list with commas between them; ``NAME=VALUE`` belongs to the spec before it.

    ``"smc:ess_threshold=0.7,scheme=systematic,is"`` holds two. Empty places are left out.
    """
    specs: list[str] = []
    for piece in _pieces(text):
        # Commas part both specs and options, so only NAME=VALUE is one.
        if specs and _OPTION.match(piece):
            specs[-1] += f",{piece}"
        elif piece:
            specs.append(piece)
    return specs


def split_model(text: str) -> tuple[str, str]:
    """A model and its options from ``MODEL,NAME=VALUE,NAME=VALUE``.

    The model may be a path with commas: options are the pieces at the end that are NAME=VALUE.
    """
    found = _MODEL.fullmatch(text)
    assert found is not None  # its first part matches any text
    return found[1], found[2].removeprefix(",")


def split_measure(spec: str) -> tuple[str, dict[str, Any]]:
    """A follower's spec without the options of its base measure, and these.

    ``"gguf:PATH,temperature=0.7"`` is ``"gguf:PATH"`` and ``{"temperature": 0.7}``. They stand at
    the end, in any order, among the options of the follower's own, which stay.

    Raises:
        UsageError: one of them is given twice.
    """
    rest = _pieces(spec)
    kept: list[str] = []
    options: dict[str, Any] = {}
    while len(rest) > 1 and _OPTION.match(rest[-1]):
        piece = rest.pop()
        name, _, value = (part.strip() for part in piece.partition("="))
        if name not in OPTIONS:
            kept.insert(0, piece)
        elif name in options:
            raise UsageError(f"the follower {spec!r}: the option {name!r} is given twice")
        else:
            options[name] = _value(value)
    # As it stands where there are none: a path may have blanks beside its commas.
    return (",".join(rest + kept), options) if options else (spec, options)


def parse_options(text: str) -> dict[str, Any]:
    """Options from ``NAME=VALUE,NAME=VALUE``.

    Raises:
        UsageError: a piece is not of that form, or an option is given twice.
    """
    options: dict[str, Any] = {}
    for piece in _pieces(text):
        name, equals, value = (part.strip() for part in piece.partition("="))
        if not (name and equals and value):
            raise UsageError(f"{piece!r} is no option: write NAME=VALUE, with commas between them")
        if name in options:
            raise UsageError(f"the option {name!r} is given twice")
        options[name] = _value(value)
    return options


def options_of(factory: Callable[..., Any]) -> dict[str, Any]:
    """The options of a factory with their defaults: its named parameters that have one."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        name: parameter.default
        for name, parameter in inspect.signature(factory).parameters.items()
        if parameter.kind in named and parameter.default is not parameter.empty
    }


def spell_options(options: Mapping[str, Any]) -> str:
    """Options as they are written in a spec."""
    return ",".join(f"{name}={_spelled(value)}" for name, value in options.items())


def call(
    what: str, name: str, factory: Callable[..., Any], argument: str, *, after: str = ":"
) -> Any:
    """Call a factory with the options in ``argument``.

    Args:
        what: what it makes, for messages: ``sampler``.
        name: the name that it is registered under.
        factory: what to call.
        argument: what follows ``NAME:`` in the spec.
        after: what stands between the name and the options, for messages.

    Raises:
        UsageError: the options are malformed or unknown, or the factory refuses their values.
    """
    offered = options_of(factory)
    if not offered:
        raise UsageError(f"the {what} {name!r} takes no options, but got {argument!r}")
    known = f"its options, with their defaults, are {name}{after}{spell_options(offered)}"
    try:
        options = parse_options(argument)
    except UsageError as error:
        raise UsageError(f"the {what} {f'{name}{after}{argument}'!r}: {error}; {known}") from error
    for option in options:
        if option not in offered:
            raise UsageError(f"the {what} {name!r} has no option {option!r}; {known}")
        if not _fits(options[option], offered[option]):
            raise UsageError(
                f"the option {option!r} of the {what} {name!r} cannot be "
                f"{spell_options({option: options[option]}).partition('=')[2]}; {known}"
            )
    try:
        return factory(**options)
    except DiscipleError:
        raise
    except Exception as error:  # a text where it compares numbers, say
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"the {what} {name!r} cannot be made with {argument!r} ({reason}); {known}"
        ) from error


def _fits(value: Any, default: Any) -> bool:
    """Whether a value may stand where the default does: to Python, true is a number."""
    if isinstance(default, bool):
        return isinstance(value, bool)
    return not (isinstance(default, (int, float)) and isinstance(value, bool))


def _pieces(text: str) -> list[str]:
    pieces, at = [], 0
    while at <= len(text):
        found = _PIECE.match(text, at)
        assert found is not None  # it matches the empty text too
        pieces.append(found[0].strip())
        at = found.end() + 1
    return pieces


def _value(text: str) -> Any:
    try:
        # JSON, so that true, null and quoted texts with commas need no rules of our own.
        value = json.loads(text, parse_constant=str)  # NaN and Infinity are text
    except ValueError:
        return text
    # A list would hold commas, which part options; such a text is taken as it stands.
    return text if isinstance(value, (list, dict)) else value


def _spelled(value: Any) -> str:
    if isinstance(value, str) and value and _value(value) == value and _pieces(value) == [value]:
        return value
    return json.dumps(value, default=repr)
