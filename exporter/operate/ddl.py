"""A table's columns as DDL that the settings take: Spark's, and JSON where a text holds any JSON value. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from exporter.core.columns import JSON_TEXT

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES = {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}
"""Of Spark's JSON -> of DDL; the others are called the same."""


def ddl_of(fields: Iterable[Mapping[str, Any]]) -> list[str]:
    """Each column of a Spark schema, fields as parsed JSON, as one DDL text: `items ARRAY<STRUCT<sku: STRING>>`."""
    return [f"{quoted(one['name'])} {column_type(one)}" for one in fields]


def column_type(one: Mapping[str, Any]) -> str:
    """The type of a field of a Spark schema, as DDL."""
    marked = one.get("metadata", {}).get(JSON_TEXT, "")
    return type_ddl(one["type"], frozenset(marked.split(",")) - {""})


def type_ddl(kind: Any, json_paths: Collection[str] = ()) -> str:
    """A type, as parsed JSON, as DDL. json_paths: where it holds JSON texts, as the metadata of its field say."""
    if "." in json_paths:
        return "JSON"
    if not isinstance(kind, dict):
        return _NAMES.get(kind, str(kind).upper())
    if kind["type"] == "struct":
        fields = (f"{quoted(one['name'])}: {column_type(one)}" for one in kind["fields"])
        return f"STRUCT<{', '.join(fields)}>"
    if kind["type"] == "array":
        return f"ARRAY<{type_ddl(kind['elementType'], _inside(json_paths, 'element'))}>"
    return f"MAP<{type_ddl(kind['keyType'])}, {type_ddl(kind['valueType'], _inside(json_paths, 'value'))}>"


def quoted(name: str) -> str:
    """A column's name as DDL takes it."""
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _inside(json_paths: Collection[str], step: str) -> frozenset[str]:
    """The paths as they are seen from the elements of an array, or from the values of a map."""
    inside = (one for one in json_paths if one == step or one.startswith(f"{step}."))
    return frozenset(one.removeprefix(step).removeprefix(".") or "." for one in inside)
