"""The exporter's own columns in Spark's notations: as they have always been, whatever they are derived from."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from exporter.arrow.own_columns import DEAD_LETTER_SCHEMA
from exporter.arrow.spark_types import arrow_scalar, as_ddl, fields_of, scalar_of, type_of
from exporter.column.scalars import SCALARS
from exporter.column.spark_json import as_json
from exporter.column.spark_json import scalar_of as named
from exporter.column.types import StructType
from exporter.executor.judge_dead_letters import JUDGED_DDL
from exporter.executor.manifest import MANIFEST_DDL
from exporter.fetch.ranges import DDL
from exporter.lake.schema import table_schema
from tests.support.spark_arrow import arrow_of_spark

DEAD_LETTERS_JSON = (
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
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


def test_the_schema_of_the_dead_letters_is_written_as_it_always_was() -> None:
    """Literal, also in the order of its keys: a table that is there is compared with it."""
    assert table_schema(None) == DEAD_LETTERS_JSON


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        (MANIFEST_DDL, "topic STRING, partition INT, event_type STRING, path STRING, first_offset BIGINT, last_offset "
         "BIGINT, rows BIGINT, size_bytes BIGINT, arrow_bytes BIGINT, stats STRING, body BINARY, counts STRING, "
         "unwritten STRING, seen STRING, ended STRING, met STRING, times STRING"),
        (JUDGED_DDL, f"{RECORD}, epoch INT, of_type STRING, targets ARRAY<STRING>, verdict STRING"),
        (DDL, f"{RECORD}, timestampType INT, kafka_ms BIGINT, value_bytes BIGINT"),
    ],
    ids=["manifest", "judged", "exact"],
)  # fmt: skip
def test_ddl_names_the_columns_that_arrow_has(ddl: str, text: str) -> None:
    """Literal: what a task gives to Spark is taken by position."""
    assert ddl == text


def test_spark_reads_both_notations_as_the_same_columns() -> None:
    """Without a JVM: by pyspark's own reading of JSON and of Arrow."""
    read = spark.StructType.fromJson(as_json(StructType(fields_of(DEAD_LETTER_SCHEMA))))
    assert arrow_of_spark(read) == DEAD_LETTER_SCHEMA
    assert as_ddl(DEAD_LETTER_SCHEMA).endswith("event_type STRING, first_offset BIGINT, last_offset BIGINT")


def test_a_type_that_no_column_of_ours_has_is_refused() -> None:
    """Nothing is guessed."""
    with pytest.raises(KeyError):
        type_of(pa.float16())
    with pytest.raises(KeyError):
        as_ddl([pa.field("a", pa.float16())])


def test_a_scalar_is_the_same_type_each_way() -> None:
    """As Spark itself has it in Arrow; of each name one, and of each type one."""
    kinds = {}
    for name in (*(SCALARS.keys() - {"json"}), "decimal(9,0)", "decimal(38,18)"):
        kind = arrow_scalar(named(name))
        assert scalar_of(kind) == named(name) and kinds.setdefault(kind, name) == name
        assert kind == arrow_of_spark(spark.StructType().add("a", name)).field("a").type


@pytest.mark.parametrize("name", ["variant", "void", "decimal", "decimal(9, 0)", "xdecimal(9,0)", "INT", ""])
def test_what_no_column_can_be_of_is_refused(name: str) -> None:
    """Whoever asks says what that means there."""
    with pytest.raises(KeyError):
        arrow_scalar(named(name))
    with pytest.raises(KeyError):
        scalar_of(pa.uint8())
