"""Forty regular expressions, grammars and JSON schemas, as people write them."""

from __future__ import annotations

from typing import Any

REGEXES = [
    r"yes|no|maybe",
    r"\d{4}-\d{2}-\d{2}",
    r"(19|20)\d\d",
    r"[A-Z][a-z]{1,9}( [A-Z][a-z]{1,9}){1,2}",
    r"[a-z]{1,9}@[a-z]{1,9}\.(com|org|net)",
    r"\+\d{2} \d{3} \d{4}",
    r"[0-9a-f]{8}",
    r"#[0-9A-F]{6}",
    r"(\d{1,3}\.){3}\d{1,3}",
    r"([01]\d|2[0-3]):[0-5]\d",
    r"[ -~]{10,40}",
    r"[a-z ]{20,60}\.",
    r"[A-Z][a-z ,]{10,30}[.!?]",
    r"(?i)hello world",
    r"(ab|cd)*ef",
    r"a{0,4}b{0,4}c{1,4}",
    r"[^\n]{5,50}",
    r".{1,20}",
    r"(?s).{1,10}",
    r"\w+ \w+ \w+",
    r"\S+(\s\S+){2,4}",
    r"[^aeiou]{4,12}",
    r"(\(\d+\) ){2}end",
    r"-?[1-9]\d*(\.\d{1,2})?",
    r"[€$£]\d{1,4}",
    r"(café|thé|crème)( au lait)?",
    r"[αβγ]{1,3}=\d",
    r"\"[^\"\\]{0,20}\"",
    r"<(b|i)>[a-z ]{1,20}</(b|i)>",
    r"x{30,35}",
    r"(one|two|three)(, (one|two|three)){0,5}",
    r"[A-Z]{3}-\d{3}-[A-Z]{3}",
    r"Dear (Sir|Madam),\n[a-z ]{5,40}\.",
    r"\D{3,8}\d",
    r"(very ){0,4}(good|bad)",
    r"^The [a-z]{3,9} is [a-z]{3,9}\.$",
    r"[^\W\d]{5,15}",
    r"([a-z])([0-9])([a-z])",
    r"\t?- [a-z]{2,10}(\n\t?- [a-z]{2,10}){1,3}",
    r"(?:[a-z]{2,6}-){0,3}[a-z]{2,30}",
]


def _object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


def _array(items: Any, **bounds: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **bounds}


_SHORT = {"type": "string", "minLength": 1, "maxLength": 12}
_AGE = {"type": "integer", "minimum": 0, "maximum": 120}
_POINT = _object(
    x={"type": "integer", "minimum": -9, "maximum": 9},
    y={"type": "integer", "minimum": 0, "maximum": 99},
)
_KIND = {"enum": ["small", "middle", "large"]}

SCHEMAS: list[dict[str, Any]] = [
    {"type": "boolean"},
    {"type": "null"},
    {"enum": ["a", 1, None, True, [1]]},
    {"const": {"a": [1, 2]}},
    _AGE,
    {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 1000},
    {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.25},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 100, "multipleOf": 0.5},
    {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 100},
    _SHORT,
    {"type": "string", "pattern": "^[A-Z][a-z]{2,8}$"},
    {"type": "string", "pattern": "^\\d{3}-\\d{4}$"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "ipv4"},
    {"type": "string", "enum": ["north", "south"]},
    _array({"type": "boolean"}, minItems=1, maxItems=4),
    _array(_AGE, minItems=2, maxItems=2),
    _array(_KIND, maxItems=3),
    _array(_array({"enum": [0, 1]}, minItems=2, maxItems=2), minItems=2, maxItems=2),
    {"type": "array", "prefixItems": [_AGE, {"type": "boolean"}], "items": False, "minItems": 2},
    _POINT,
    _object(name=_SHORT, age=_AGE),
    _object(["name"], name=_SHORT, age=_AGE, kind=_KIND),
    _object([], a={"type": "boolean"}, b={"type": "null"}),
    _object(a=_object(b=_object(c={"type": "integer", "minimum": 1, "maximum": 3}))),
    _object(start=_POINT, end=_POINT),
    _object(points=_array(_POINT, minItems=1, maxItems=2)),
    _object(tags=_array({"enum": ["red", "green", "blue"]}, minItems=1, maxItems=3), kind=_KIND),
    {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 9}, {"enum": ["none", "many"]}]},
    {"anyOf": [_object(kind={"const": "circle"}, r=_AGE), _object(kind={"const": "point"})]},
    {"oneOf": [{"type": "boolean"}, {"type": "null"}]},
    _object(value={"anyOf": [_AGE, {"type": "null"}, _SHORT]}),
    {"type": ["boolean", "null"]},
    {"$defs": {"age": _AGE}, **_object(you={"$ref": "#/$defs/age"}, me={"$ref": "#/$defs/age"})},
    {"$defs": {"n": {"anyOf": [{"type": "null"}, _object(next={"$ref": "#/$defs/n"})]}},
     "$ref": "#/$defs/n"},
    {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 40}]},
    _object(["id"], id={"type": "string", "pattern": "^[a-f0-9]{4}$"}, ok={"type": "boolean"}),
    {"type": "object", "additionalProperties": {"enum": [0, 1]}, "maxProperties": 0},
    _object(quote={"const": "she said \"no\""}, mark={"enum": ["é", "—", "\\"]}),
    _object(rows=_array(_object(["k"], k=_KIND, n={"type": "integer", "minimum": 10, "maximum": 99}),
                        minItems=2, maxItems=3)),
]  # fmt: skip

_CSV = 'start: row ({nl} row)~1..2\nrow: CELL ("," CELL)~1..2\nCELL: /[a-z]{{1,6}}/\n'
GRAMMARS = [
    'start: "a" "b"',
    'start: "yes" | "no"',
    'start: A~1..9\nA: /[ab]/',
    'start: A B?\nA: "x"\nB: "y"',
    'start: "a" start "b" | "ab"',
    'start: "(" start ")" | "x"',
    'start: ("(" start ")")*',
    'start: "[" [item ("," item)~0..3] "]"\nitem: NUMBER | start\nNUMBER: /[0-9]/',
    'start: sum\nsum: product ("+" product)*\nproduct: atom ("*" atom)*\natom: NUMBER | "(" sum ")"\nNUMBER: /[1-9][0-9]?/',
    'start: term | start "-" term\nterm: /[a-z]/',
    'start: subject " " verb " " object "."\nsubject: "The cat" | "A dog"\nverb: "sees" | "hears"\nobject: "a bird" | "the sea"',
    'start: greeting ", " NAME "!"\ngreeting: "Hello" | "Dear"\nNAME: /[A-Z][a-z]{2,7}/',
    'start: pair (";" pair)~0..2\npair: KEY "=" VALUE\nKEY: /[a-z]{1,5}/\nVALUE: /[0-9]{1,3}/',
    _CSV.format(nl='"\\n"'),
    'start: "if " cond " then " act\ncond: "rain" | "not " cond\nact: "run" | "wait"',
    'start: bool\nbool: "true" | "false" | "(" bool (" and " | " or ") bool ")"',
    'start: digit digit ":" digit digit\ndigit: /[0-5]/',
    'start: roman\nroman: "M"~0..2 hundreds? "X"~0..3 "I"~1..3\nhundreds: "CD" | "D" "C"~0..3 | "C"~1..3',
    'start: "<b>" text "</b>" | text\ntext: /[a-z ]{1,15}/',
    'start: tag\ntag: "<a>" tag* "</a>"',
    'start: "f" "(" args? ")"\nargs: arg ("," arg)*\narg: "x" | "y" | start',
    'start: "SELECT " cols " FROM " NAME\ncols: "*" | NAME (", " NAME)~0..2\nNAME: "id" | "name" | "age"',
    'start: move (" " move)~1..4\nmove: "N" | "S" | "E" | "W"',
    'start: chess (" " chess)~0..3\nchess: PIECE? FILE RANK\nPIECE: /[KQRBN]/\nFILE: /[a-h]/\nRANK: /[1-8]/',
    'start: "a"~3',
    'start: "a"~2..4 "b"',
    'start: x\nx: y | "1" x\ny: "2" | "3" y',
    'start: "\\"" /[a-z]{1,8}/ "\\""',
    'start: /[A-Z]/ /[a-z]{2,8}/ " " /[0-9]{1,2}/',
    'start: line+\nline: "- " WORD "\\n"\nWORD: /[a-z]{2,8}/',
    'start: haiku\nhaiku: WORD "/" WORD "/" WORD\nWORD: /[a-z]{3,9}/',
    'start: DATE | TIME\nDATE: /[0-9]{4}-[01][0-9]/\nTIME: /[0-2][0-9]h/',
    'start: path\npath: ("/" NAME)+\nNAME: /[a-z]{1,6}/',
    'start: version\nversion: NUM "." NUM ("." NUM)?\nNUM: /[0-9]{1,2}/',
    'start: "{" [pair ("," pair)*] "}"\npair: "\\"" /[a-z]/ "\\":" value\nvalue: /[0-9]/ | start',
    'start: noun_phrase\nnoun_phrase: "the " adj* NOUN\nadj: "old " | "red "\nNOUN: "house" | "boat"',
    'start: "let " VAR "=" expr\nexpr: VAR | NUM | expr "+" NUM\nVAR: /[a-c]/\nNUM: /[0-9]/',
    'start: ALT\nALT: "é" | "über" | "naïve"',
    'start: B C | C B\nB: /b{1,9}/\nC: /c{1,9}/',
    'start: s\ns: "0" t "0" | t\nt: "1" "2" "1" | "2"',
]  # fmt: skip
