"""Types of columns as Spark, Arrow and DuckDB call them. Spark's are the common ones: JSON, as parsed. Pure."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from exporter.arrow.spark_types import arrow_scalar
from exporter.shape.engine import quoted

_SQL = {
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
"""Scalars, but decimals, as DuckDB's SQL spells them."""
_OF_DUCKDB = {
    **{sql.lower(): spark for spark, sql in _SQL.items()},
    "utinyint": "short",
    "usmallint": "integer",
    "uinteger": "long",
    "ubigint": "decimal(20,0)",
    "hugeint": "decimal(38,0)",
    "uhugeint": "decimal(38,0)",
    "timestamp_s": "timestamp_ntz",
    "timestamp_ms": "timestamp_ntz",
    "uuid": "string",
    "enum": "string",
}
"""Id of a type of DuckDB's that has no parts -> the narrowest of Spark's that holds its values. JSON is a VARCHAR."""


class NoSuchKind(ValueError):
    """A type of DuckDB's that no column has; the message says which."""


def arrow_type(spark: Any) -> pa.DataType:
    """The Arrow type of a Spark type, with the names that decoders give to elements and values. Raises KeyError."""
    if isinstance(spark, str):
        if (found := arrow_scalar(spark)) is None:
            raise KeyError(spark)
        return found
    if spark["type"] == "struct":
        return pa.struct([pa.field(one["name"], arrow_type(one["type"])) for one in spark["fields"]])
    if spark["type"] == "array":
        return pa.list_(pa.field("element", arrow_type(spark["elementType"])))
    return pa.map_(arrow_type(spark["keyType"]), pa.field("value", arrow_type(spark["valueType"])))


def sql_type(spark: Any) -> str:
    """A Spark type as DuckDB's SQL spells it."""
    if isinstance(spark, str):
        return _SQL.get(spark) or spark.upper()
    if spark["type"] == "struct":
        fields = [f"{quoted(one['name'])} {sql_type(one['type'])}" for one in spark["fields"]]
        return f"STRUCT({', '.join(fields)})"
    if spark["type"] == "array":
        return f"{sql_type(spark['elementType'])}[]"
    return f"MAP({sql_type(spark['keyType'])}, {sql_type(spark['valueType'])})"


def spark_type(kind: Any) -> Any:
    """The Spark type that holds what a type of DuckDB's does. Raises NoSuchKind if there is none."""
    if kind.id in _OF_DUCKDB:
        return _OF_DUCKDB[kind.id]
    if kind.id == "decimal":
        parts = dict(kind.children)
        return f"decimal({parts['precision']},{parts['scale']})"
    if kind.id in ("list", "array"):
        return {"type": "array", "elementType": spark_type(dict(kind.children)["child"]), "containsNull": True}
    if kind.id == "struct":
        if not all(name for name, _ in kind.children):
            raise NoSuchKind(f"{kind} has fields without names")
        return {"type": "struct", "fields": [spark_field(name, spark_type(one)) for name, one in kind.children]}
    if kind.id == "map":
        parts = dict(kind.children)
        if spark_type(parts["key"]) != "string":
            raise NoSuchKind(f"{kind} has keys that are no texts")
        return {
            "type": "map", "keyType": "string", "valueType": spark_type(parts["value"]), "valueContainsNull": True,
        }  # fmt: skip
    raise NoSuchKind(f"no column has the type {kind}")


def spark_field(name: str, kind: Any) -> dict[str, Any]:
    """A column, or a field of a struct, of a Spark type."""
    return {"metadata": {}, "name": name, "nullable": True, "type": kind}
