"""Rows of a batch on their way to a table: apart by topic and partition, measured, in a table's shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.own_columns import KAFKA_COLUMN
from exporter.core.columns import EVENT_TIME, folded


def record_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of keys, values and headers."""
    columns = [batch.column("key"), batch.column("value")]
    if "headers" in batch.schema.names:
        columns += batch.column("headers").flatten().flatten()
    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in columns)


def wanted(batch: pa.RecordBatch, indices: pa.Array, bound: int | None, dead_letters_bound: int | None) -> pa.Array:
    """The rows that may still be needed, by their type's table or, if they turn out bad, by the dead letters."""
    bounds = [limit for limit in (bound, dead_letters_bound) if limit is not None]
    if not bounds:
        return indices.slice(0, 0)
    offsets = batch.column("offset").take(indices)
    if offsets[0].as_py() > min(bounds):
        return indices
    return indices.filter(pc.greater(offsets, min(bounds)))


def copies(placed: list[pa.Array]) -> int:
    """How many rows of a batch are there beside the first of each. placed: rows, by where they went."""
    rows = pa.chunked_array(placed, pa.int32())
    return len(rows) - len(pc.unique(rows))


def located(decoded: pa.Table, kafka: pa.StructArray, timed: bool = True) -> pa.Table:
    """Decoded rows as their table holds them: `_kafka`, `_event_time`, the columns, `_rescued`.

    decoded: its last column is the event time. timed: false for a table with a column `_event_time` of its own; it
    stays that of a configuration, too, that was recorded when the name was not the exporter's.
    """
    last = decoded.num_columns - 1
    rows, times = decoded.remove_column(last), decoded.column(last)
    if timed and not any(folded(name) == EVENT_TIME for name in rows.column_names):
        rows = rows.add_column(0, EVENT_TIME, times)
    return rows.add_column(0, KAFKA_COLUMN, kafka)


def first_and_last(table: pa.Table) -> tuple[int, int]:
    """The offsets of the first and the last row."""
    coordinates = table.column(KAFKA_COLUMN)
    return coordinates[0]["offset"].as_py(), coordinates[-1]["offset"].as_py()


def by_value(batch: pa.RecordBatch, column: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """Each value of a column with its rows, in order; the batch itself where there is one value only."""
    values = pc.unique(batch.column(column)).to_pylist()
    for value in values:
        yield value, batch if len(values) == 1 else batch.filter(pc.equal(batch.column(column), value))
