"""What each scalar is called in every notation. Pure.

A notation says nothing more about scalars but what is read beside these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.column.types import DecimalType, ScalarType


class Spelled(NamedTuple):
    """Of one scalar. arrow: an alias of pyarrow's, but for the zone. avro: and its logical type, if it is one."""

    ddl: str
    arrow: str
    duckdb: str
    avro: tuple[str, str]
    protobuf: str
    hive: str


SCALARS: Mapping[str, Spelled] = {
    "boolean": Spelled("BOOLEAN", "bool", "BOOLEAN", ("boolean", ""), "BOOL", "boolean"),
    "byte": Spelled("TINYINT", "int8", "TINYINT", ("int", ""), "INT32", "tinyint"),
    "short": Spelled("SMALLINT", "int16", "SMALLINT", ("int", ""), "INT32", "smallint"),
    "integer": Spelled("INT", "int32", "INTEGER", ("int", ""), "INT32", "int"),
    "long": Spelled("BIGINT", "int64", "BIGINT", ("long", ""), "INT64", "bigint"),
    "float": Spelled("FLOAT", "float", "FLOAT", ("float", ""), "FLOAT", "float"),
    "double": Spelled("DOUBLE", "double", "DOUBLE", ("double", ""), "DOUBLE", "double"),
    "string": Spelled("STRING", "string", "VARCHAR", ("string", ""), "STRING", "string"),
    "binary": Spelled("BINARY", "binary", "BLOB", ("bytes", ""), "BYTES", "binary"),
    "date": Spelled("DATE", "date32", "DATE", ("int", "date"), "STRING", "date"),
    "timestamp": Spelled(
        "TIMESTAMP", "timestamp[us]", "TIMESTAMP WITH TIME ZONE", ("long", "timestamp-micros"), "MESSAGE", "timestamp"
    ),
    "timestamp_ntz": Spelled(
        "TIMESTAMP_NTZ", "timestamp[us]", "TIMESTAMP", ("long", "local-timestamp-micros"), "MESSAGE", "timestamp"
    ),
    "json": Spelled("JSON", "string", "VARCHAR", ("string", ""), "STRING", "string"),
}
"""All that a column can be of, but decimals: as Spark's JSON calls it; a text of JSON is a text there."""


def spelling(kind: ScalarType | DecimalType) -> Spelled:
    """Of what is no column of ours its name in Spark; Avro and Protobuf have none."""
    name = kind.name
    if isinstance(kind, DecimalType):
        return Spelled(name.upper(), name, name.upper(), ("bytes", "decimal"), "STRING", name)
    return SCALARS.get(name) or Spelled(name.upper(), name, name.upper(), ("", ""), "", name)
