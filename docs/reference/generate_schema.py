"""Write the JSON Schemas from the records: python docs/reference/generate_schema.py.

Fields, types and descriptions are those of the dataclasses and of their docstrings, so that a
schema cannot say something else than the code does.
"""

from __future__ import annotations

import inspect
import json
import re
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from disciple_ext.evaluation.logs.log import Row
from disciple_ext.records.particle import FINISH_REASONS, Particle
from disciple_ext.records.result import SCHEMA, Attempt, Result, Usage

HERE = Path(__file__).parent
DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    Any: {},
}
LOG: Schema = {"anyOf": [{"type": "number"}, {"enum": ["-inf", "inf"]}]}
"""Natural logs: JSON has no infinity."""

CHOICES = {
    (Particle, "finish_reason"): sorted(FINISH_REASONS),
    (Result, "text_rule"): ["none", "weighted_all", "weighted_passing"],
}
# What is no record in the code: run.json, and what an error prints.
RUN = {
    "schema": (int, "1"),
    "suite": (str, "Name of the suite."),
    "command": (list[str], "The command line."),
    "started": (str, "When, in UTC."),
    "versions": (dict[str, str], "Of Python and of the packages that make the texts."),
    "n": (int | dict[str, int], "Samples, or those of each of the suite's budgets."),
    "seed": (int, "Seed of the evaluation."),
    "timeout": (float | dict[str, float], "Seconds of a run, or those of each budget."),
    "planner": (str, "Name of the planner."),
    "examples": (Any, "Which examples the planner is shown."),
    "follower": (str, "Name of the follower."),
    "model": (dict[str, Any], "The follower's ``parameters`` and ``family``, null where unknown."),
    "weights": (str | None, "SHA-256 of the follower's parameters, where it shows them."),
    "measure": (dict[str, Any], "The base measure: ``prior``, ``proposal`` and ``power``."),
    "data": (str, "SHA-256 of the instances."),
    "settings": (list[str], "Names of the suite's own settings, which are fields here, too."),
    "methods": (list[str], "Methods, in order."),
    "tasks": (list[str], "Types of task."),
    "limit": (int | None, "Instances of each type at most."),
    "shard": (str | None, "``i/k`` where a part of the instances was run."),
    "concurrency": (int, "Runs at a time."),
    "equal_tokens": (str | None, "The method whose follower tokens the others get."),
    "earlier": (list[dict[str, Any]], "What earlier commands on this log wrote here."),
}
OPTIONAL = {"earlier"}
LEFT_OUT = {(Result, "record")}
"""Fields that :meth:`Result.to_dict` leaves out."""


def schema_of(kind: Any, definitions: dict[str, Schema]) -> Schema:
    """The schema of a type; records go into ``definitions``."""
    if is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}
            definitions[kind.__name__] = record(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        parts = [schema_of(part, definitions) for part in inner]
        if all(part.keys() == {"type"} for part in parts):
            return {"type": [part["type"] for part in parts]}
        return {"anyOf": parts}
    if origin in (tuple, list):
        return {"type": "array", "items": schema_of(inner[0], definitions)}
    if origin is dict:
        values = schema_of(inner[1], definitions)
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    return dict(PLAIN[kind])


def record(kind: type[Any], definitions: dict[str, Schema]) -> Schema:
    """The schema of a dataclass, as ``asdict`` gives it."""
    hints, about = get_type_hints(kind, localns={"Record": object}), attributes(kind)
    properties = {}
    for field in fields(kind):
        if (kind, field.name) in LEFT_OUT:
            continue
        found = schema_of(hints[field.name], definitions)
        if field.name.startswith("log_"):
            nullable = type(None) in get_args(hints[field.name])
            found = {"anyOf": [*LOG["anyOf"], *([{"type": "null"}] if nullable else [])]}
        if (kind, field.name) in CHOICES:
            found["enum"] = CHOICES[kind, field.name]
        if field.name in about:
            found["description"] = about[field.name]
        properties[field.name] = found
    first = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    return {
        "type": "object",
        "description": plain(first),
        "properties": properties,
        "required": list(properties),
    }


def attributes(kind: type[Any]) -> dict[str, str]:
    """The descriptions under ``Attributes:`` in a docstring."""
    _, _, section = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {6,}.*)*)", section, re.MULTILINE)
    return {name: plain(text) for name, text in found}


def plain(text: str) -> str:
    """One line, without the marks of reStructuredText."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"\1", text)
    return " ".join(text.replace("``", "`").split())


def whole(title: str, body: Schema, definitions: dict[str, Schema]) -> str:
    """A schema as the text of its file."""
    data = {"$schema": DIALECT, "title": title, **body}
    if definitions:
        data["$defs"] = definitions
    return json.dumps(data, indent=1) + "\n"


def result_schema() -> str:
    """What ``disciple run --json`` prints where there is an answer."""
    definitions: dict[str, Schema] = {}
    body = record(Result, definitions)
    body["properties"] = {"schema": {"const": SCHEMA}, **body["properties"]}
    body["required"].insert(0, "schema")
    return whole("Result", body, definitions)


def error_schema() -> str:
    """What ``disciple run --json`` prints where an error ends it."""
    definitions: dict[str, Schema] = {}
    text = {"type": "string"}
    error = {"type": "object", "properties": {"type": text, "message": text}}
    properties = {
        "schema": {"const": SCHEMA},
        "error": {**error, "required": ["type", "message"]},
        "attempts": schema_of(tuple[Attempt, ...], definitions),
        "usage": {"anyOf": [schema_of(Usage, definitions), {"type": "null"}]},
        "cost": {"type": ["number", "null"]},
        "result": {
            "description": "The best answer that was rejected (result.schema.json), or null.",
            "type": ["object", "null"],
        },
    }
    body = {"type": "object", "properties": properties, "required": list(properties)}
    return whole("Error", body, definitions)


def row_schema() -> str:
    """A line of an evaluation's ``results.jsonl``."""
    definitions: dict[str, Schema] = {}
    return whole("Row", record(Row, definitions), definitions)


def run_schema() -> str:
    """An evaluation's ``run.json``."""
    definitions: dict[str, Schema] = {}
    properties = {}
    for name, (kind, about) in RUN.items():
        properties[name] = {**schema_of(kind, definitions), "description": plain(about)}
    required = [name for name in properties if name not in OPTIONAL]
    body = {"type": "object", "properties": properties, "required": required}
    return whole("Run", body, definitions)


PAGES = {
    HERE / "result.schema.json": result_schema,
    HERE / "error.schema.json": error_schema,
    HERE / "evaluation-row.schema.json": row_schema,
    HERE / "evaluation-run.schema.json": run_schema,
}

if __name__ == "__main__":
    for path, make in PAGES.items():
        path.write_text(make(), encoding="utf-8")
