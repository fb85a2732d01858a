"""What the library of constraints refuses, in the words of who writes programs."""

from __future__ import annotations

import re

from ...text.shorten import clipped

__all__ = ["GRAMMAR_REFUSED", "first_line", "json_advice"]

_CHECK = "leave it out, and test it in `check(self, text)`"
_INSTEAD = {
    "not": "say what is allowed (`enum`, `anyOf`, `pattern`), or " + _CHECK,
    "if": "write `anyOf` with a schema for each case",
    "oneOf": "write `anyOf`; if its cases overlap, " + _CHECK,
    "uniqueItems": _CHECK,
    "contains": _CHECK,
    "dependentRequired": "write `anyOf` with a schema for each case",
    "propertyNames": "name the properties, with `additionalProperties: false`",
}
_JSON_REFUSED = (
    (r"Unknown format: (\S+)", "the format {}", "write a `pattern` for it, or leave it out"),
    (r"Pointer '([^']*)' does not exist", "the reference {}", "define it under `$defs`"),
    (r"Unsatisfiable schema: (.*)", "a schema that no text satisfies ({})", "correct it"),
    (r"(look-around|[Ll]ookaround|backreferences)", "`pattern` with {}", _CHECK),
    (r"oneOf", "`oneOf` whose cases overlap", _INSTEAD["oneOf"]),
)


def json_advice(message: str) -> tuple[str, str]:
    """What of a schema is refused, and what to write instead."""
    unknown = re.search(r"Unimplemented keys: \[(.*?)\]", message)
    if unknown:
        keys = re.findall(r'"([^"]+)"', unknown[1])
        advice = dict.fromkeys(_INSTEAD.get(key, _CHECK) for key in keys)
        return f"the schema's {', '.join(f'`{key}`' for key in keys)}", "; ".join(advice)
    for pattern, part, instead in _JSON_REFUSED:
        if found := re.search(pattern, message):
            return part.format(*found.groups()), instead
    return f"this schema ({first_line(message)})", "write a simpler one, and test the rest"


GRAMMAR_REFUSED = (
    ("look-around", "a lookahead or lookbehind", "leave it out of the terminal"),
    ("lookarounds", "a word boundary or anchor", "leave it out of the terminal"),
    ("backreferences", "a back reference", "write out what may be repeated"),
)


def first_line(message: str) -> str:
    """What a message of the library says first, shortened."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith("error:")), lines[0] if lines else "")
    return clipped(told.removeprefix("error:").strip(), 160)
