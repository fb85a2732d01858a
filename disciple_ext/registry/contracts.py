"""What a plugin must keep to, checked while it is loaded; a message says what it breaks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from difflib import get_close_matches
from keyword import iskeyword
from typing import Any

from . import hookspecs

__all__ = ["check_hooks", "check_table"]

# With how many arguments the factories of a hook are called.
_ARGUMENTS = {
    "register_samplers": 0,
    "register_suites": 0,
    "register_planners": 1,
    "register_followers": 1,
    "register_services": 1,
}
_IN_SPECS = re.compile(r"[^\s:,=]+")


def check_hooks(plugin: Any) -> None:
    """Find hooks that would never be called: without their mark, or misspelt.

    Raises:
        TypeError: there is one; the message names it, and the hook that was probably meant.
    """
    known = (*hookspecs.WORKER, *hookspecs.HOST)
    mark = f"{hookspecs.PROJECT}_impl"
    for name in dir(plugin):
        # Static: to look at a plugin must not run its properties.
        function = inspect.getattr_static(plugin, name, None)
        function = getattr(function, "__func__", function)  # below @staticmethod
        options = getattr(function, mark, None)
        if not callable(function) or not (options or name.startswith("register_")):
            continue
        # pluggy lets a function of any name implement a hook by `specname`.
        hook = (options or {}).get("specname") or name
        close = get_close_matches(hook, known, n=1, cutoff=0.85)
        if hook not in known and (close or options):
            hint = f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(known)}"
            raise TypeError(f"there is no hook {hook!r}{hint}")
        if hook in known and options is None:
            raise TypeError(f"{hook} is not marked with @disciple_ext.hookimpl")


def check_table(hook: str, table: Any) -> dict[str, Any]:
    """What a ``register_*`` hook returned, if it is what the hook promises.

    Raises:
        TypeError: it is not; the message names the hook, the entry and what is wrong.
    """
    if not isinstance(table, dict):
        raise TypeError(f"{hook} returned {type(table).__name__}, not a dict")
    for name, entry in table.items():
        _check_name(hook, name)
        wrong = _wrong_entry(hook, entry)
        if wrong:
            raise TypeError(f"{hook} gives {name!r} {wrong}")
    return table


def _check_name(hook: str, name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{hook} gives the name {name!r}, which is {type(name).__name__}, not str")
    if hook in ("register_masks", "register_patterns"):
        if not name.isidentifier() or iskeyword(name):
            raise TypeError(f"{hook} gives the name {name!r}, which no program can write")
    elif not _IN_SPECS.fullmatch(name):
        raise TypeError(
            f"{hook} gives the name {name!r}; names in specs have at least one character, and no "
            "space, colon, comma or equals sign"
        )


def _wrong_entry(hook: str, entry: Any) -> str:
    """What is wrong with an entry of a table, or the empty text."""
    if hook == "register_masks":
        return "" if isinstance(entry, type) else f"a {type(entry).__name__}, not a class"
    if hook == "register_patterns":
        pair = isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], str)
        return "" if pair else f"{entry!r}, not a pair (object, paragraph for the tutorial)"
    if not callable(entry):
        return f"a {type(entry).__name__} that cannot be called, not a factory"
    count = _ARGUMENTS[hook]
    if not _takes(entry, count):
        wanted = "without arguments" if count == 0 else "with one argument"
        return f"a factory that cannot be called {wanted}"
    return ""


def _takes(factory: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(factory).bind(*[""] * count)
    except TypeError:
        return False
    except ValueError:  # some built-in types show no signature
        return True
    return True
