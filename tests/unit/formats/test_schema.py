"""Spark schema JSON -> Arrow: what is allowed, and how a refusal reads."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from exporter.errors import ConfigError
from exporter.formats.schema import SCHEMA_DEPTH_MAX, arrow_schema
from tests.support.spark_arrow import arrow_of_spark


def field(name: str, kind: Any, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {}}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def schema_of(*fields: dict[str, Any]) -> pa.Schema:
    return arrow_schema(json.dumps(struct(*fields)), "orders", "JSON")


def test_types() -> None:
    """Each type that JSON can carry has one Arrow type; nullable=false is kept at every level."""
    kinds = {
        "string": pa.string(), "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(),
        "float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_(), "decimal(12,3)": pa.decimal128(12, 3),
        "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
        "binary": pa.binary(),
    }  # fmt: skip
    for name, expected in kinds.items():
        assert schema_of(field("c", name, False)) == pa.schema([pa.field("c", expected, nullable=False)])
    nested = schema_of(
        field("s", struct(field("x", "long", False))),
        field("a", {"type": "array", "elementType": "long", "containsNull": False}),
        field("m", {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": False}),
    )
    required = pa.field("x", pa.int64(), nullable=False)
    assert nested.field("s").type == pa.struct([required])
    assert nested.field("a").type == pa.list_(required.with_name("element"))
    assert nested.field("m").type == pa.map_(pa.string(), required.with_name("value"))


def test_spark_agrees() -> None:
    """The Arrow types are those that Spark itself gives the same schema."""
    types = pytest.importorskip("pyspark.sql.types")
    spark = types.StructType(
        [
            types.StructField("a", types.ArrayType(types.DecimalType(10, 2), False)),
            types.StructField("m", types.MapType(types.StringType(), types.TimestampType())),
            types.StructField("s", types.StructType([types.StructField("n", types.TimestampNTZType(), False)])),
            types.StructField("b", types.BinaryType(), False),
        ]
    )
    assert arrow_schema(spark.json(), "orders", "JSON") == arrow_of_spark(spark)


ARRAY_OF_VOID = {"type": "array", "elementType": "void", "containsNull": True}
MAP_OF_VOID = {"type": "map", "keyType": "string", "valueType": "void", "valueContainsNull": True}


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ([field("c", "interval day to second")], "column c: type INTERVAL DAY TO SECOND"),
        ([field("c", "variant")], "column c: type VARIANT"),
        ([field("c", "varchar(10)")], "column c: type VARCHAR(10)"),
        ([field("s", struct(field("a", ARRAY_OF_VOID)))], "column s.a[]:"),
        ([field("m", {"type": "map", "keyType": "long", "valueType": "long", "valueContainsNull": True})], "column m:"),
        ([field("m", MAP_OF_VOID)], "column m{}: type"),
        ([field("c", {"type": "udt"})], "column c: type UDT"),
        ([field("s", struct())], "column s: a struct without fields"),
        ([], "types.orders: a struct without fields"),
    ],
)
def test_refusals_name_the_column(fields: list[dict[str, Any]], shown: str) -> None:
    """What cannot be stored as declared is refused at start-up, naming the event type and the column's path."""
    with pytest.raises(ConfigError) as refused:
        schema_of(*fields)
    assert refused.value.exit_code == 2
    assert refused.value.message.startswith("types.orders")
    assert shown in refused.value.message
    assert refused.value.hint


def test_too_deep() -> None:
    """A schema nested beyond the limit is refused before any engine has to recurse into it."""
    kind: Any = "long"
    for _ in range(SCHEMA_DEPTH_MAX + 1):
        kind = {"type": "array", "elementType": kind, "containsNull": True}
    with pytest.raises(ConfigError, match="nested deeper"):
        schema_of(field("a", kind))


def test_not_a_struct() -> None:
    """A bare type is no table."""
    with pytest.raises(ConfigError):
        arrow_schema('"long"', "orders", "JSON")
