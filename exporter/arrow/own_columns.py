"""`_kafka` and the columns of the dead letters, declared once: Spark's notations of them follow (spark_types.py)."""

from __future__ import annotations

import pyarrow as pa

from exporter.arrow.kafka_time import US

KAFKA_COLUMN = "_kafka"
KAFKA_TYPE = pa.struct(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("epoch", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", US),
    ]
)
"""Where a record stood. In each table."""
CDC_COLUMN = "_cdc"
CDC_TYPE = pa.struct(
    [
        pa.field("op", pa.string()),
        pa.field("ts", US),
        pa.field("source", pa.string()),
        pa.field("key", pa.string()),
        pa.field("pos", pa.string()),
    ]
)
"""What was done to a row that came in an envelope. op: I, U, D, or R for a snapshot. ts: when, as its source says.
source: its schema and table. key: the record's, as text. pos: where it stood in the source's own log."""
BEFORE_COLUMN = "_cdc_before"
"""JSON of what columns held before an update, of those that the settings name, where they held another value."""
CHANGE_TYPE = pa.struct([*CDC_TYPE, pa.field("before", pa.string())])
"""What was done to a row, on its way to the two columns."""
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORD_FIELDS = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", US),
    pa.field("headers", HEADERS_TYPE),
)
"""A record as Spark's Kafka source gives it, for who makes one without that source."""
SHAPING_SCHEMA = pa.schema(
    [
        (KAFKA_COLUMN, pa.struct([field for field in KAFKA_TYPE if field.name != "epoch"])),
        ("_key", pa.binary()),
        ("_headers", HEADERS_TYPE),
    ]
)
"""What SQL and plug-ins see of a record beside its value; no headers are null. The epoch is no property of it."""
DEAD_LETTER_SCHEMA = pa.schema(
    [
        (KAFKA_COLUMN, KAFKA_TYPE),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("stage", pa.string()),
        ("reason", pa.string()),
        ("event_type", pa.string()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
    ]
)
"""The table of the dead letters, without the columns of its partitions. The last two are of a gap alone."""
PLACES = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("epoch", pa.int32()), ("offset", pa.int64())]
)
"""Where a record stood, and nothing of what was in it."""
