"""The type JSON in the columns that users declare: Spark's parser knows none. Pure.

    id BIGINT, payload JSON     as declared
    id BIGINT, payload <MARK>   for Spark's parser: a type that nobody means
    payload: string, metadata {"exporter.json": "."}    in the schema that is recorded

Only a word at the place of a type is one: a column may be called `json`, and a comment may say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from exporter.core.columns import JSON_TEXT

MARK = "VARCHAR(1785950062)"
"""A type that Spark's parser takes; its length is `json` as four bytes."""
_MARKED = MARK.lower()

_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\r\n]*|/\*.*?\*/)"""
    r"""|(?P<name>`(?:[^`]|``)*`)"""
    r"""|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<word>\w+)"""
    r"""|(?P<sign>.)""",
    re.DOTALL,
)
_INSIDE = {"STRUCT": "fields", "ARRAY": "types", "MAP": "types"}


class _Token(NamedTuple):
    kind: str
    text: str


def with_marks(ddl: str) -> str:
    """Columns as DDL with MARK for each type JSON; all else as it is."""
    return "".join(_marked(_Token(match.lastgroup or "", match.group()) for match in _TOKEN.finditer(ddl)))


def _marked(tokens: Iterator[_Token]) -> Iterator[str]:
    """One text for each token.

    Of columns and of the fields of a struct a name comes first, then a type (with or without a colon), then whatever
    else is said; in an array and in a map there are types alone.
    """
    opened = ["fields"]
    due = "name"
    before = ""
    parentheses = 0
    for kind, text in tokens:
        word = text.upper() if kind == "word" else ""
        is_type = due == "type" and word == "JSON" and not parentheses
        yield MARK if is_type else text
        if kind == "blank":
            continue
        if text in ("(", ")"):
            parentheses += 1 if text == "(" else -1
        elif parentheses:
            pass
        elif text == "<" and before in _INSIDE:
            opened.append(_INSIDE[before])
            due = _first(opened)
        elif text == ">" and len(opened) > 1:
            opened.pop()
            due = ""
        elif text == ",":
            due = _first(opened)
        elif due == "name":
            due = "type"
        elif due == "type" and text != ":":
            due = ""
        before = word


def _first(opened: list[str]) -> str:
    """What comes first behind what was opened last, and behind each comma in it."""
    return "name" if opened[-1] == "fields" else "type"


def with_json(spark_json: str) -> str:
    """Spark schema JSON as parsed from with_marks(): columns of text with their metadata for each MARK."""
    if _MARKED not in spark_json:
        return spark_json
    return json.dumps(_struct(json.loads(spark_json)), separators=(",", ":"))


def _struct(kind: Any) -> Any:
    return {**kind, "fields": [_field(field) for field in kind["fields"]]}


def _field(field: Any) -> Any:
    paths: list[str] = []
    kind = _type(field["type"], "", paths)
    if not paths:
        return {**field, "type": kind}
    return {**field, "type": kind, "metadata": {**field.get("metadata", {}), JSON_TEXT: ",".join(paths)}}


def _type(kind: Any, path: str, paths: list[str]) -> Any:
    """The type without marks. paths: gets where these were, from the nearest field of a struct."""
    if kind == _MARKED:
        paths.append(path or ".")
        return "string"
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return _struct(kind)
    part, step = {"array": ("elementType", "element"), "map": ("valueType", "value")}.get(kind["type"], ("", ""))
    return {**kind, part: _type(kind[part], f"{path}.{step}".lstrip("."), paths)} if part else kind
