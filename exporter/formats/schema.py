"""Spark schema JSON -> the Arrow schema of an event type's columns.

What a format cannot carry without loss, or no table of ours can hold, is a ConfigError that names the column's path,
at start-up and not at the first record. Pure.
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


def arrow_schema(spark_schema_json: str, event_type: str, form: str) -> pa.Schema:
    """The Arrow schema of `StructType.json()` text; nullable=false is kept. form: name of the format, for messages.

    Raises ConfigError for a type that has no form in such values here and for empty structs. Names are for
    core/columns.py to judge.
    """
    return _Declared(event_type, form).schema(json.loads(spark_schema_json))


class _Declared:
    """The columns that are declared for one event type."""

    def __init__(self, event_type: str, form: str) -> None:
        self._event_type = event_type
        self._form = form

    def schema(self, spec: Any) -> pa.Schema:
        if not isinstance(spec, dict) or spec.get("type") != "struct":
            raise self._refused("", "the schema is not a struct of columns", "give it as columns: `a INT, b STRING`")
        return pa.schema(self._fields(spec["fields"], "", 1))

    def _fields(self, specs: list[dict[str, Any]], path: str, depth: int) -> list[pa.Field]:
        """The children of one struct."""
        if not specs:
            raise self._refused(path, "a struct without fields cannot be stored", "declare fields or drop it")
        fields = []
        for spec in specs:
            name = spec["name"]
            data_type = self._type(spec["type"], f"{path}.{name}" if path else name, depth)
            fields.append(pa.field(name, data_type, nullable=spec["nullable"]))
        return fields

    def _type(self, spec: Any, path: str, depth: int) -> pa.DataType:
        """The Arrow type of one Spark type (a name, or an object for nested types)."""
        if depth > SCHEMA_DEPTH_MAX:
            raise self._refused(path, f"nested deeper than {SCHEMA_DEPTH_MAX} levels", "flatten it")
        if isinstance(spec, str):
            return self._primitive(spec, path)
        kind = spec.get("type")
        if kind == "struct":
            return pa.struct(self._fields(spec["fields"], path, depth + 1))
        if kind == "array":
            element = self._type(spec["elementType"], f"{path}[]", depth + 1)
            return pa.list_(pa.field("element", element, nullable=spec["containsNull"]))
        if kind == "map":
            if spec["keyType"] != "string":
                what = f"a map's keys must be STRING: {self._form} has no others"
                raise self._refused(path, what, "use MAP<STRING, ...>")
            value = self._type(spec["valueType"], f"{path}{{}}", depth + 1)
            return pa.map_(pa.string(), pa.field("value", value, nullable=spec["valueContainsNull"]))
        raise self._unsupported(str(kind), path)

    def _primitive(self, name: str, path: str) -> pa.DataType:
        found = _PRIMITIVES.get(name)
        if found is not None:
            return found
        decimal = _DECIMAL.fullmatch(name)
        if decimal:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        raise self._unsupported(name, path)

    def _unsupported(self, kind: str, path: str) -> ConfigError:
        what = f"type {kind.upper()} has no {self._form} form here"
        hint = "use STRING, a number, BOOLEAN, DATE, TIMESTAMP, BINARY, STRUCT, ARRAY or MAP"
        return self._refused(path, what, hint)

    def _refused(self, path: str, what: str, hint: str) -> ConfigError:
        where = f"types.{self._event_type}" + (f", column {path}" if path else "")
        return ConfigError(f"{where}: {what}", hint)
