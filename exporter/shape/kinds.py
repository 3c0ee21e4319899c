"""Columns' types as DuckDB calls them. Pure."""

from __future__ import annotations

from typing import Any

from exporter.column.scalars import SCALARS, spelling
from exporter.column.types import JSON, DecimalType, Field, Fold, ListType, MapType, ScalarType, StructType, Type
from exporter.shape.engine import quoted

_OF_DUCKDB = {
    **{spelt.duckdb.lower(): name for name, spelt in SCALARS.items() if name != JSON.name},
    "utinyint": "short",
    "usmallint": "integer",
    "uinteger": "long",
    "timestamp_s": "timestamp_ntz",
    "timestamp_ms": "timestamp_ntz",
    "uuid": "string",
    "enum": "string",
}
_DECIMALS = {"ubigint": DecimalType(20, 0), "hugeint": DecimalType(38, 0), "uhugeint": DecimalType(38, 0)}
"""Id of a type of DuckDB's that has no parts -> the narrowest that holds its values. JSON is a VARCHAR."""


class NoSuchKind(ValueError):
    """A type of DuckDB's that no column has; the message says which."""


sql_type = Fold[str](
    scalar=lambda one: spelling(one).duckdb,
    struct=lambda _, parts: f"STRUCT({', '.join(f'{quoted(one.name)} {part}' for one, part in parts)})",
    list=lambda _, inner: f"{inner}[]",
    map=lambda _, key, inner: f"MAP({key}, {inner})",
)
"""A type as DuckDB's SQL spells it."""


def type_of(kind: Any) -> Type:
    """The type that holds what one of DuckDB's does. Raises NoSuchKind if there is none."""
    if kind.id in _OF_DUCKDB:
        return ScalarType(_OF_DUCKDB[kind.id])
    if kind.id in _DECIMALS:
        return _DECIMALS[kind.id]
    if kind.id == "struct" and not all(name for name, _ in kind.children):
        raise NoSuchKind(f"{kind} has fields without names")
    if kind.id == "struct":
        return StructType(tuple(Field(name, type_of(one)) for name, one in kind.children))
    parts = dict(kind.children) if kind.id in ("decimal", "list", "array", "map") else {}
    if kind.id == "decimal":
        return DecimalType(parts["precision"], parts["scale"])
    if kind.id in ("list", "array"):
        return ListType(type_of(parts["child"]))
    if kind.id != "map":
        raise NoSuchKind(f"no column has the type {kind}")
    if type_of(parts["key"]) != ScalarType("string"):
        raise NoSuchKind(f"{kind} has keys that are no texts")
    return MapType(ScalarType("string"), type_of(parts["value"]))
