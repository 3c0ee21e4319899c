"""From the decoded rows of one type to those of its table, and what becomes of the others. Runs on Spark executors.

    decoded ── shaper, if the settings make anything of the rows ──> rows of the table, dead letters, filtered ones
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.arrow.own_columns import CDC_COLUMN, SHAPING_SCHEMA
from exporter.executor.dead_letters import TRANSFORM, Dead
from exporter.executor.extras import without_empty
from exporter.executor.route import NO_ROWS
from exporter.formats.decoded import DecodedBatch
from exporter.shape.shaper import Shaper


@dataclass(frozen=True)
class ShapedRows:
    """Of one event type; rows are those of the batch.

    table: the table's columns, `_rescued` and `_event_time`. rows: one for each row of the table, ascending. cdc: one
    for each, if its values are in envelopes. filtered: rows that are in no table.
    """

    table: pa.Table
    rows: pa.Int32Array
    cdc: pa.ChunkedArray | None
    bad: list[Dead]
    filtered: pa.Int32Array


def shaped(
    name: str, decoded: DecodedBatch, shaper: Shaper | None, batch: pa.RecordBatch, rows: pa.Int32Array, topic: str
) -> ShapedRows:
    """decoded: of these rows of the batch, all of one topic. shaper: None where nothing is made of decoded rows."""
    good = rows if len(decoded.good) == len(rows) else rows.take(decoded.good)
    bad: list[Dead] = [(rows[index].as_py(), name, where, reason) for index, where, reason in decoded.bad]
    table, cdc = decoded.table, None
    if table.column_names[-1] == CDC_COLUMN:  # behind the event time; a declared one stands before it
        table, cdc = table.remove_column(table.num_columns - 1), table.column(CDC_COLUMN)
    if shaper is None or not table.num_rows:
        return ShapedRows(table, good, cdc, bad, NO_ROWS)
    made = shaper.shaped(table, _records(batch, good, topic) if shaper.sees_record else table.select([]))
    bad += [(good[index].as_py(), name, TRANSFORM, reason) for index, reason in made.bad]
    kept = good.take(made.kept)
    return ShapedRows(made.table, kept, None if cdc is None else cdc.take(made.kept), bad, good.take(made.filtered))


def _records(batch: pa.RecordBatch, rows: pa.Int32Array, topic: str) -> pa.Table:
    """The records of some rows, with the columns of SHAPING_SCHEMA."""
    kafka, _, headers = SHAPING_SCHEMA
    fields = [
        pa.repeat(pa.scalar(topic, pa.string()), len(rows)),
        batch.column("partition").take(rows),
        batch.column("offset").take(rows),
        batch.column("timestamp").take(rows).cast(US),
    ]
    there = "headers" in batch.schema.names
    lists = without_empty(batch.column("headers").take(rows)) if there else pa.nulls(len(rows), headers.type)
    columns = [pa.StructArray.from_arrays(fields, fields=list(kafka.type)), batch.column("key").take(rows), lists]
    return pa.Table.from_arrays(columns, schema=SHAPING_SCHEMA)
