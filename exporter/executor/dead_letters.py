"""Dead-letter rows: how a bad record becomes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.arrow.own_columns import DEAD_LETTER_SCHEMA, HEADERS_TYPE, KAFKA_TYPE
from exporter.executor.extras import without_empty
from exporter.text import encodable
from offsets.ranges import TopicPartition

TRANSFORM = "transform"
"""Stage of a dead letter on whose record something failed that the settings make of its row."""
TYPE_STAGES = ("decode", "event_time", TRANSFORM)
"""Stages of dead letters that are of one type of their record, whose table cannot have it (protocol 3.9)."""
Dead = tuple[int, str | None, str, str]
"""A bad record: row in its batch, event type if known, stage, reason."""


def dead_letter_rows(batch: pa.RecordBatch, dead: Sequence[Dead], tp: TopicPartition, epoch: int) -> pa.Table:
    """The dead-letter rows of a batch that holds just the bad records, in the order of `dead`."""
    nothing = pa.nulls(len(dead), pa.int64())
    lists = without_empty(batch.column("headers")) if "headers" in batch.schema.names else None
    return pa.Table.from_arrays(
        [
            coordinates(tp, epoch, batch.column("offset"), batch.column("timestamp")),
            batch.column("key"),
            batch.column("value"),
            lists if lists is not None else pa.nulls(len(dead), HEADERS_TYPE),
            pa.array([row[2] for row in dead], pa.string()),
            pa.array([encodable(row[3]) for row in dead], pa.string()),
            pa.array([row[1] for row in dead], pa.string()),
            nothing,
            nothing,
        ],
        schema=DEAD_LETTER_SCHEMA,
    )


def coordinates(tp: TopicPartition, epoch: int, offsets: Any, timestamps: Any) -> pa.StructArray:
    """The `_kafka` column of some rows of one partition."""
    rows = len(offsets)
    return pa.StructArray.from_arrays(
        [
            pa.repeat(pa.scalar(tp.topic, pa.string()), rows),
            pa.repeat(pa.scalar(tp.partition, pa.int32()), rows),
            pa.repeat(pa.scalar(epoch, pa.int32()), rows),
            offsets,
            timestamps.cast(US),
        ],
        fields=list(KAFKA_TYPE),
    )
