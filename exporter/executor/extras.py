"""Columns with something of the record itself, for rows on their way to their table. Runs on Spark executors."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import TIMESTAMP_TYPE
from exporter.arrow.own_columns import BEFORE_COLUMN, CDC_COLUMN, CDC_TYPE, CHANGE_TYPE, HEADERS_TYPE
from exporter.core.order import StagingOrder

_KINDS = pa.array(["CreateTime", "LogAppendTime"])
"""What the numbers 0 and 1 are called by Kafka; another one is of a record without a timestamp."""


class Extras:
    """What a task adds to rows of the records themselves: keys, headers, kinds of timestamps."""

    def __init__(self, order: StagingOrder) -> None:
        self._columns = order.to.options.record_columns
        self._target = order.target

    def added(
        self, name: str, table: pa.Table, batch: pa.RecordBatch, rows: pa.Array, cdc: pa.ChunkedArray | None
    ) -> pa.Table:
        """The rows with their table's columns of the record. rows: of the batch, one for each. cdc: without the key."""
        kept = self._target(name).kept
        for column, values in self._made(batch, rows, cdc):
            if kept is None or column in kept:
                table = table.append_column(column, values)
        return table

    def _made(
        self, batch: pa.RecordBatch, rows: pa.Array, cdc: pa.ChunkedArray | None
    ) -> Iterator[tuple[str, pa.Array]]:
        named = self._columns
        if named.key:
            yield named.key, batch.column("key").take(rows)
        if named.headers and "headers" in batch.schema.names:
            yield named.headers, without_empty(batch.column("headers").take(rows))
        if named.timestamp_type and TIMESTAMP_TYPE in batch.schema.names:
            numbers = batch.column(TIMESTAMP_TYPE).take(rows)
            known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(_KINDS)))
            yield named.timestamp_type, _KINDS.take(pc.if_else(known, numbers, None))
        if cdc is not None:
            yield CDC_COLUMN, with_key(cdc, batch.column("key").take(rows))
            if cdc.type == CHANGE_TYPE:
                yield BEFORE_COLUMN, pc.struct_field(cdc, "before").combine_chunks()


def without_empty(headers: pa.ListArray) -> pa.ListArray:
    """Headers as tables have them. No headers came as an empty list; Kafka has no empty one."""
    lists = headers.cast(HEADERS_TYPE)
    return pc.if_else(pc.equal(pc.list_value_length(lists), 0), pa.scalar(None, HEADERS_TYPE), lists)


def with_key(cdc: pa.ChunkedArray, keys: pa.BinaryArray) -> pa.StructArray:
    """What was done to rows, with the records' keys as text, in base64 where they are none."""
    one = pa.concat_arrays(cdc.chunks) if cdc.num_chunks else pa.nulls(0, cdc.type)
    fields = [_texts(keys) if field.name == "key" else one.field(field.name) for field in CDC_TYPE]
    return pa.StructArray.from_arrays(fields, fields=list(CDC_TYPE), mask=one.is_null())


def _texts(keys: pa.BinaryArray) -> pa.StringArray:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if key is None else _text(key) for key in keys.to_pylist()], pa.string())


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return base64.b64encode(key).decode()
