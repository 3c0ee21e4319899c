"""Spark schema JSON -> the Arrow schema of an event type's columns.

Only what JSON text can carry without loss is allowed; anything else is a ConfigError
that names the column's path, at start-up and not at the first record. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from exporter.errors import ConfigError

SCHEMA_DEPTH_MAX = 50
"""Levels of struct, array and map; far below what any JSON engine in use can recurse."""

_PRIMITIVES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def arrow_schema(spark_schema_json: str, event_type: str) -> pa.Schema:
    """The Arrow schema of `StructType.json()` text; nullable=false is kept.

    Raises ConfigError for a type that has no JSON form here and for empty structs. Names are for core/columns.py
    to judge.
    """
    spec = json.loads(spark_schema_json)
    if not isinstance(spec, dict) or spec.get("type") != "struct":
        raise _refused(event_type, "", "the schema is not a struct of columns", "give it as columns: `a INT, b STRING`")
    return pa.schema(_fields(spec["fields"], event_type, "", 1))


def _fields(specs: list[dict[str, Any]], event_type: str, path: str, depth: int) -> list[pa.Field]:
    """The children of one struct."""
    if not specs:
        raise _refused(event_type, path, "a struct without fields cannot be stored", "declare fields or drop it")
    fields = []
    for spec in specs:
        name = spec["name"]
        data_type = _type(spec["type"], event_type, f"{path}.{name}" if path else name, depth)
        fields.append(pa.field(name, data_type, nullable=spec["nullable"]))
    return fields


def _type(spec: Any, event_type: str, path: str, depth: int) -> pa.DataType:
    """The Arrow type of one Spark type (a name, or an object for nested types)."""
    if depth > SCHEMA_DEPTH_MAX:
        raise _refused(event_type, path, f"nested deeper than {SCHEMA_DEPTH_MAX} levels", "flatten it")
    if isinstance(spec, str):
        return _primitive(spec, event_type, path)
    kind = spec.get("type")
    if kind == "struct":
        return pa.struct(_fields(spec["fields"], event_type, path, depth + 1))
    if kind == "array":
        element = _type(spec["elementType"], event_type, f"{path}[]", depth + 1)
        return pa.list_(pa.field("element", element, nullable=spec["containsNull"]))
    if kind == "map":
        if spec["keyType"] != "string":
            raise _refused(event_type, path, "a map's keys must be STRING: JSON has no others", "use MAP<STRING, ...>")
        value = _type(spec["valueType"], event_type, f"{path}{{}}", depth + 1)
        return pa.map_(pa.string(), pa.field("value", value, nullable=spec["valueContainsNull"]))
    raise _unsupported(str(kind), event_type, path)


def _primitive(name: str, event_type: str, path: str) -> pa.DataType:
    found = _PRIMITIVES.get(name)
    if found is not None:
        return found
    decimal = _DECIMAL.fullmatch(name)
    if decimal:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    raise _unsupported(name, event_type, path)


def _unsupported(kind: str, event_type: str, path: str) -> ConfigError:
    what = f"type {kind.upper()} has no JSON form here"
    hint = "use STRING, a number, BOOLEAN, DATE, TIMESTAMP, BINARY, STRUCT, ARRAY or MAP"
    return _refused(event_type, path, what, hint)


def _refused(event_type: str, path: str, what: str, hint: str) -> ConfigError:
    where = f"types.{event_type}" + (f", column {path}" if path else "")
    return ConfigError(f"{where}: {what}", hint)
