"""The exporter's own columns in Spark's notations: as they have always been, whatever they are derived from."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from exporter.arrow.own_columns import DEAD_LETTER_SCHEMA
from exporter.arrow.spark_types import SCALARS, arrow_scalar, as_ddl, as_json, decimal_digits, spark_scalar
from exporter.executor.judge_letters import JUDGED_DDL
from exporter.executor.manifest import MANIFEST_DDL
from exporter.fetch.ranges import DDL
from exporter.lake.schema import table_schema
from tests.support.spark_arrow import arrow_of_spark

LETTERS_JSON = (
    '{"type":"struct","fields":[{"name":"_kafka","type":{"type":"struct","fields":['
    '{"name":"topic","type":"string","nullable":true,"metadata":{}},'
    '{"name":"partition","type":"integer","nullable":true,"metadata":{}},'
    '{"name":"epoch","type":"integer","nullable":true,"metadata":{}},'
    '{"name":"offset","type":"long","nullable":true,"metadata":{}},'
    '{"name":"timestamp","type":"timestamp","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}},'
    '{"name":"key","type":"binary","nullable":true,"metadata":{}},'
    '{"name":"value","type":"binary","nullable":true,"metadata":{}},'
    '{"name":"headers","type":{"type":"array","containsNull":true,"elementType":{"type":"struct","fields":['
    '{"name":"key","type":"string","nullable":true,"metadata":{}},'
    '{"name":"value","type":"binary","nullable":true,"metadata":{}}]}},"nullable":true,"metadata":{}},'
    '{"name":"stage","type":"string","nullable":true,"metadata":{}},'
    '{"name":"reason","type":"string","nullable":true,"metadata":{}},'
    '{"name":"event_type","type":"string","nullable":true,"metadata":{}},'
    '{"name":"first_offset","type":"long","nullable":true,"metadata":{}},'
    '{"name":"last_offset","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"date","nullable":true,"metadata":{}}]}'
)
RECORD = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)


def test_the_schema_of_the_dead_letters_is_written_as_it_always_was() -> None:
    """Literal, also in the order of its keys: a table that is there is compared with it."""
    assert table_schema(None) == LETTERS_JSON


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        (MANIFEST_DDL, "topic string, partition int, event_type string, path string, first_offset bigint, last_offset "
         "bigint, rows bigint, size_bytes bigint, arrow_bytes bigint, stats string, body binary, counts string, "
         "unwritten string, seen string, ended string, met string, times string"),
        (JUDGED_DDL, f"{RECORD}, epoch int, of_type string, targets array<string>, verdict string"),
        (DDL, f"{RECORD}, timestampType int, kafka_ms bigint, value_bytes bigint"),
    ],
    ids=["manifest", "judged", "exact"],
)  # fmt: skip
def test_ddl_names_the_columns_that_arrow_has(ddl: str, text: str) -> None:
    """Literal: what a task gives to Spark is taken by position."""
    assert ddl == text


def test_spark_reads_both_notations_as_the_same_columns() -> None:
    """Without a JVM: by pyspark's own reading of JSON and of Arrow."""
    types = pytest.importorskip("pyspark.sql.types")
    spark = types.StructType.fromJson(as_json(pa.struct(list(DEAD_LETTER_SCHEMA))))
    assert arrow_of_spark(spark) == DEAD_LETTER_SCHEMA
    assert as_ddl(DEAD_LETTER_SCHEMA).endswith("event_type string, first_offset bigint, last_offset bigint")


def test_a_type_that_no_column_of_ours_has_is_refused() -> None:
    """Nothing is guessed."""
    with pytest.raises(KeyError):
        as_json(pa.float16())
    with pytest.raises(KeyError):
        as_ddl([pa.field("a", pa.float16())])


def test_a_scalar_is_the_same_type_each_way() -> None:
    """As Spark itself has it in Arrow; of each name one, and of each type one."""
    for name in (*SCALARS, "decimal(9,0)", "decimal(38,18)"):
        kind = arrow_scalar(name)
        assert kind is not None and spark_scalar(kind) == name
        assert kind == arrow_of_spark(StructType().add("a", name)).field("a").type
    assert len({*SCALARS.values()}) == len(SCALARS)


@pytest.mark.parametrize("name", ["variant", "void", "decimal", "decimal(9, 0)", "xdecimal(9,0)", "INT", ""])
def test_what_no_column_can_be_of_is_none(name: str) -> None:
    """Whoever asks says what that means there."""
    assert arrow_scalar(name) is None and decimal_digits(name) is None
    with pytest.raises(KeyError):
        spark_scalar(pa.uint8())
