"""Spark's types in Arrow's: the scalars of columns, each way, and types of the exporter's own columns as JSON and DDL.

JSON, as a table's schema has it, is the notation that is stored; DDL is what mapInArrow wants. What users declare is
read by core/ddl.py. Everything that is made here is nullable. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from exporter.arrow.kafka_time import US

SCALARS: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": US,
    "timestamp_ntz": pa.timestamp("us"),
}
"""All that a column can be of, but decimals: as Spark's JSON calls it -> as Arrow has it."""
_NAMES = {kind: name for name, kind in SCALARS.items()}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_IN_DDL = {"integer": "int", "long": "bigint"}
"""What DDL calls otherwise."""


def decimal_digits(spark: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal's name; None for another one's."""
    found = _DECIMAL.fullmatch(spark)
    return (int(found[1]), int(found[2])) if found else None


def arrow_scalar(spark: str) -> pa.DataType | None:
    """The Arrow type of a scalar's name; None if no column can be of it."""
    digits = decimal_digits(spark)
    return SCALARS.get(spark) if digits is None else pa.decimal128(*digits)


def spark_scalar(kind: pa.DataType) -> str:
    """The name of a scalar. Raises KeyError for a type that no column can be of."""
    return f"decimal({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else _NAMES[kind]


def as_json(kind: pa.DataType) -> Any:
    """A type, as parsed JSON. Raises KeyError for one that no column can be of."""
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [json_field(field.name, as_json(field.type)) for field in kind]}
    if pa.types.is_list(kind):
        return {"type": "array", "containsNull": True, "elementType": as_json(kind.value_type)}
    return spark_scalar(kind)


def json_field(name: str, kind: Any) -> dict[str, Any]:
    """A column or a field of a struct, as parsed JSON. kind: its type, likewise."""
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def as_ddl(fields: Iterable[pa.Field]) -> str:
    """Columns as DDL: `topic string, partition int`. Raises KeyError for a type that no column can be of."""
    return ", ".join(f"{field.name} {_ddl_type(field.type)}" for field in fields)


def _ddl_type(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_ddl_type(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{_ddl_type(kind.value_type)}>"
    name = spark_scalar(kind)
    return _IN_DDL.get(name, name)
