"""Arrow types in Spark's two notations: JSON, as a table's schema has it, and DDL, as mapInArrow wants it.

Everything is nullable. For columns of the exporter's own: what users declare comes from Spark itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from exporter.arrow.kafka_time import US

_NAMES = {
    pa.string(): ("string", "string"),
    pa.binary(): ("binary", "binary"),
    pa.int32(): ("integer", "int"),
    pa.int64(): ("long", "bigint"),
    US: ("timestamp", "timestamp"),
}
"""A scalar type in JSON and in DDL."""


def as_json(kind: pa.DataType) -> Any:
    """A type, as parsed JSON. Raises KeyError for one that no column of ours has."""
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [json_field(field.name, as_json(field.type)) for field in kind]}
    if pa.types.is_list(kind):
        return {"type": "array", "containsNull": True, "elementType": as_json(kind.value_type)}
    return _NAMES[kind][0]


def json_field(name: str, kind: Any) -> dict[str, Any]:
    """A column or a field of a struct, as parsed JSON. kind: its type, likewise."""
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def as_ddl(fields: Iterable[pa.Field]) -> str:
    """Columns as DDL: `topic string, partition int`. Raises KeyError for a type that no column of ours has."""
    return ", ".join(f"{field.name} {_ddl_type(field.type)}" for field in fields)


def _ddl_type(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_ddl_type(field.type)}' for field in kind)}>"
    return f"array<{_ddl_type(kind.value_type)}>" if pa.types.is_list(kind) else _NAMES[kind][1]
